"""8-bit weights (torchao): stored in 8 bits with one scale a row, turned back into numbers as they are used.

The output head stays as it was (transformers leaves it out). torchao's defaults: version 2, one scale per row.
"""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Promise
from optimizers.techniques.base import Effort, LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import LINEAR_ONLY, linears_converted, weights_need
from optimizers.techniques.shared_torchao import torchao, torchao_recipe


def _options(context: LoadContext) -> LoadOptions:
    return torchao("Int8WeightOnlyConfig")


def _warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    return "Turning 8-bit weights back into numbers takes time: usually slower unless the model is compiled."


TECHNIQUE = Technique(
    id="torchao_int8_weight_only",
    slot="weights",
    title="8-bit weights (torchao)",
    summary="Linear layers stored in 8 bits a number and turned back into full numbers as they are used.",
    about=Explanation(
        "Each row of a linear layer's weights gets one scale and is stored as 8-bit whole numbers; as a row is used, "
        "it is turned back and multiplied in the precision of the stack. Inputs are never rounded, so answers stay "
        "close. Writing text waits for weights to be read, and here half of bf16's bytes are; the turning back costs "
        "time of its own, which a compiled step does in passing.",
        "torchao documentation, Int8WeightOnlyConfig",
    ),
    promises=(
        Promise(
            "A smaller model: 8-bit linear weights",
            "smaller than fp32 and bf16",
            "torchao documentation, Int8WeightOnlyConfig",
            "weights_bytes",
            None,
            0.95,
        ),
    ),
    why_not=weights_need("torchao"),
    warn=_warn,
    options=_options,
    recipe=torchao_recipe,
    verify=linears_converted("torchao", LINEAR_ONLY),
    linear_bytes=1.0,
    effort=Effort(slowdown=1.6),
)
