"""4-bit weights (bitsandbytes fp4): 4-bit floating-point numbers, with a scale for each block of 64."""

from __future__ import annotations

from optimizers.schema import Explanation
from optimizers.techniques.shared_bitsandbytes import four_bits

TECHNIQUE = four_bits(
    "fp4",
    summary="Linear layers stored in 4 bits as tiny floating-point numbers; nf4 is usually more exact.",
    about=Explanation(
        "Each weight is a floating-point number of 4 bits: a sign, and exponent and fraction in the other three, with "
        "a scale for each block of 64. Its values lie close together near zero and far apart outside, which suits "
        "trained weights less well than nf4's levels; it is the older of the two.",
        "Dettmers et al., QLoRA, 2023: arxiv.org/abs/2305.14314",
    ),
)
