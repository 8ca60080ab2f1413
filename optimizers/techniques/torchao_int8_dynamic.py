"""8-bit weights and arithmetic (torchao): weights with one scale a row, inputs with one scale a token.

The output head stays as it was (transformers leaves it out). torchao's defaults: version 2, symmetric, one scale per
row for both.
"""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Promise
from optimizers.techniques.base import Effort, LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import LINEAR_ONLY, linears_converted, slow_int8, weights_need
from optimizers.techniques.shared_torchao import torchao, torchao_recipe

_SOURCE = "torchao documentation, Int8DynamicActivationInt8WeightConfig"


def _options(context: LoadContext) -> LoadOptions:
    return torchao("Int8DynamicActivationInt8WeightConfig")


def _warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    return slow_int8(machine, checkpoint) or (
        "Each step measures and rounds its inputs: usually much slower unless the model is compiled."
    )


TECHNIQUE = Technique(
    id="torchao_int8_dynamic",
    slot="weights",
    title="8-bit weights and arithmetic (torchao dynamic int8)",
    summary="Linear layers stored in 8 bits and computed in 8-bit whole numbers, inputs rounded token by token.",
    about=Explanation(
        "Weights in 8 bits with a scale for each row, and inputs rounded to 8 bits token by token as they come, so "
        "that products are computed in whole numbers. That pays where the arithmetic is the limit: long prompts and "
        "batches on hardware with 8-bit instructions. For one token at a time the rounding of inputs is an extra "
        "step, and answers move further than with weights alone.",
        _SOURCE,
    ),
    promises=(
        Promise(
            "A smaller model: 8-bit linear weights", "smaller than fp32 and bf16", _SOURCE, "weights_bytes", None, 0.95
        ),
        Promise("Faster prompt reading", "faster", _SOURCE, "prefill", 1.0, None),
    ),
    why_not=weights_need("torchao"),
    warn=_warn,
    options=_options,
    recipe=torchao_recipe,
    verify=linears_converted("torchao", LINEAR_ONLY),
    linear_bytes=1.0,
    effort=Effort(slowdown=4.0, gpu_slowdown=3.0),
)
