"""4-bit weights (bitsandbytes fp4): 4-bit floating-point numbers, with a scale for each block of 64."""

from __future__ import annotations

from optimizers.techniques.shared_bitsandbytes import four_bits

TECHNIQUE = four_bits(
    "fp4", "Linear layers stored in 4 bits as tiny floating-point numbers; nf4 is usually more exact."
)
