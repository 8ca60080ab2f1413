"""4-bit weights (bitsandbytes fp4): 4-bit floating-point numbers, with a scale for each block of 64.

The output head stays as it was (transformers leaves it out). Converts GPT-2's Conv1D layers too. Computes in the
stack's precision; the scales stay in fp32 (no double quantization), as is the default.
"""

from __future__ import annotations

from optimizers.schema import Promise
from optimizers.techniques.base import Effort, LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import four_bit_errors, linears_converted, made_for_gpus, weights_need

_SOURCE = "transformers documentation, Bitsandbytes: huggingface.co/docs/transformers/quantization/bitsandbytes"
# Half a byte, and an fp32 scale for each block of 64 weights.
_LINEAR_BYTES = 0.5 + 4 / 64


def _options(context: LoadContext) -> LoadOptions:
    import torch
    from transformers import BitsAndBytesConfig

    return LoadOptions(
        quantization=BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="fp4",
            bnb_4bit_compute_dtype=getattr(torch, context.precision),
        )
    )


TECHNIQUE = Technique(
    id="bnb_fp4",
    slot="weights",
    title="4-bit weights (bitsandbytes fp4)",
    summary="Linear layers stored in 4 bits as tiny floating-point numbers; nf4 is usually more exact.",
    promises=(
        Promise("Over 4x less memory than fp32", "under 0.25x the bytes", _SOURCE, "weights_bytes", None, 0.25),
        Promise("A minor drop in accuracy", "minor", _SOURCE),
    ),
    why_not=weights_need("bitsandbytes"),
    warn=made_for_gpus,
    options=_options,
    verify=linears_converted("bitsandbytes", "Leave it out for this model."),
    linear_bytes=_LINEAR_BYTES,
    explain=four_bit_errors,
    effort=Effort(slowdown=1.1),
)
