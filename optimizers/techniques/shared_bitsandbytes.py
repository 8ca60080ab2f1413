"""What bitsandbytes' techniques share: what their recipes need, and of the two 4-bit kinds all but the 16 values that
a weight can take.

The output head stays as it was (transformers leaves it out). GPT-2's Conv1D layers are converted too. Products are
computed in the stack's precision; there is a scale for each block of 64 weights, kept in fp32 (no double quantization),
as is the default. Holds no technique of its own.
"""

from __future__ import annotations

from typing import Literal

from optimizers.schema import Explanation, Promise
from optimizers.techniques.base import Effort, GenerationOptions, LoadContext, LoadOptions, Recipe, Technique
from optimizers.techniques.shared import four_bit_errors, linears_converted, made_for_gpus, weights_need
from optimizers.techniques.shared_calls import Call, Named

_SOURCE = "transformers documentation, Bitsandbytes: huggingface.co/docs/transformers/quantization/bitsandbytes"
# Half a byte, and an fp32 scale for each block of 64 weights.
_LINEAR_BYTES = 0.5 + 4 / 64


def bitsandbytes_recipe(context: LoadContext, generation: GenerationOptions) -> Recipe:
    """The `recipe` of each of its techniques."""
    return Recipe(packages=("bitsandbytes", "accelerate"))


def four_bits(kind: Literal["nf4", "fp4"], summary: str, about: Explanation) -> Technique:
    """The technique of 4-bit weights whose 16 values are of this kind."""

    def options(context: LoadContext) -> LoadOptions:
        said = {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": kind,
            "bnb_4bit_compute_dtype": Named("torch", context.precision),
        }
        return LoadOptions(quantization=Call("transformers", "BitsAndBytesConfig", named=said))

    return Technique(
        id=f"bnb_{kind}",
        slot="weights",
        title=f"4-bit weights (bitsandbytes {kind})",
        summary=summary,
        about=about,
        promises=(
            Promise("Over 4x less memory than fp32", "under 0.25x the bytes", _SOURCE, "weights_bytes", None, 0.25),
            Promise("A minor drop in accuracy", "minor", _SOURCE),
        ),
        why_not=weights_need("bitsandbytes"),
        warn=made_for_gpus,
        options=options,
        recipe=bitsandbytes_recipe,
        verify=linears_converted("bitsandbytes", "Leave it out for this model."),
        linear_bytes=_LINEAR_BYTES,
        explain=four_bit_errors,
        effort=Effort(slowdown=1.1),
    )
