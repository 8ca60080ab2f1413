"""4-bit weights (bitsandbytes nf4): 16 levels placed as a bell curve's values, a scale for each block of 64."""

from __future__ import annotations

from optimizers.schema import Explanation
from optimizers.techniques.shared_bitsandbytes import four_bits

TECHNIQUE = four_bits(
    "nf4",
    summary="Linear layers stored in 4 bits, on 16 levels placed where the values of a trained model lie.",
    about=Explanation(
        "NormalFloat: the 16 values that a 4-bit weight can take are spaced so that weights spread like a bell curve, "
        "as those of trained models are, use each equally often. A scale is kept for each block of 64, and weights "
        "are turned back to the stack's precision as they are used. It came with QLoRA, to train and run large models "
        "on small GPUs; the turning back costs time on processors.",
        "Dettmers et al., QLoRA, 2023: arxiv.org/abs/2305.14314",
    ),
)
