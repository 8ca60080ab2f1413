"""4-bit weights (bitsandbytes nf4): 16 levels placed as a bell curve's values, a scale for each block of 64.

The output head stays as it was (transformers leaves it out). Converts GPT-2's Conv1D layers too. Computes in the
stack's precision; the scales stay in fp32 (no double quantization), as is the default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from optimizers.schema import Promise
from optimizers.techniques.base import Effort, LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import four_bit_errors, linears_converted, made_for_gpus, weights_need

_SOURCE = "transformers documentation, Bitsandbytes: huggingface.co/docs/transformers/quantization/bitsandbytes"
# Half a byte, and an fp32 scale for each block of 64 weights.
_LINEAR_BYTES = 0.5 + 4 / 64


def four_bits(kind: Literal["nf4", "fp4"]) -> Callable[[LoadContext], LoadOptions]:
    """`options` of 4-bit weights whose 16 values are of this kind."""

    def options(context: LoadContext) -> LoadOptions:
        import torch
        from transformers import BitsAndBytesConfig

        return LoadOptions(
            quantization=BitsAndBytesConfig(
                load_in_4bit=True,
                bnb_4bit_quant_type=kind,
                bnb_4bit_compute_dtype=getattr(torch, context.precision),
            )
        )

    return options


TECHNIQUE = Technique(
    id="bnb_nf4",
    slot="weights",
    title="4-bit weights (bitsandbytes nf4)",
    summary="Linear layers stored in 4 bits, on 16 levels placed where the values of a trained model lie.",
    promises=(
        Promise("Over 4x less memory than fp32", "under 0.25x the bytes", _SOURCE, "weights_bytes", None, 0.25),
        Promise("A minor drop in accuracy", "minor", _SOURCE),
    ),
    why_not=weights_need("bitsandbytes"),
    warn=made_for_gpus,
    options=four_bits("nf4"),
    verify=linears_converted("bitsandbytes", "Leave it out for this model."),
    linear_bytes=_LINEAR_BYTES,
    explain=four_bit_errors,
    effort=Effort(slowdown=1.1),
)
