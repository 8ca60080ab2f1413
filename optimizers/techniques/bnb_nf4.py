"""4-bit weights (bitsandbytes nf4): 16 levels placed as a bell curve's values, a scale for each block of 64."""

from __future__ import annotations

from optimizers.techniques.shared_bitsandbytes import four_bits

TECHNIQUE = four_bits(
    "nf4", "Linear layers stored in 4 bits, on 16 levels placed where the values of a trained model lie."
)
