"""4-bit weights (bitsandbytes fp4): 4-bit floating-point numbers, with a scale for each block of 64.

As `bnb_nf4` in everything but the 16 values that a weight can take.
"""

from __future__ import annotations

from dataclasses import replace

from optimizers.techniques.bnb_nf4 import TECHNIQUE as NF4
from optimizers.techniques.bnb_nf4 import four_bits

TECHNIQUE = replace(
    NF4,
    id="bnb_fp4",
    title="4-bit weights (bitsandbytes fp4)",
    summary="Linear layers stored in 4 bits as tiny floating-point numbers; nf4 is usually more exact.",
    options=four_bits("fp4"),
)
