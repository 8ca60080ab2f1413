"""8-bit floating-point weights and arithmetic (torchao float8): for GPUs that multiply in float8.

The output head stays as it was (transformers leaves it out). torchao's defaults: one scale for each tensor.
"""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Obstacle, Promise
from optimizers.techniques.base import Effort, LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import LINEAR_ONLY, lacks_gpu, linears_converted, weights_need
from optimizers.techniques.shared_torchao import torchao, torchao_recipe

LEAST_CAPABILITY = (8, 9)
_SOURCE = "torchao documentation, Float8DynamicActivationFloat8WeightConfig"
_REMEDY = "Run it on such a GPU; here use torchao_int8_weight_only or torchao_int8_dynamic."


def _options(context: LoadContext) -> LoadOptions:
    return torchao("Float8DynamicActivationFloat8WeightConfig")


def _why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    obstacle = lacks_gpu(machine, "Float8 arithmetic", LEAST_CAPABILITY, _REMEDY)
    return obstacle or weights_need("torchao")(machine, checkpoint)


TECHNIQUE = Technique(
    id="torchao_float8_dynamic",
    slot="weights",
    title="8-bit floating point (torchao float8)",
    summary="Linear layers stored and computed in 8-bit floating point; for recent GPUs.",
    about=Explanation(
        "Weights and inputs as 8-bit floating-point numbers (4 bits of exponent, 3 of fraction), inputs scaled as "
        "they come. GPUs from the Hopper and Ada generations on multiply these at twice the rate of 16 bits. Being "
        "floating-point, they bear large and small numbers side by side better than 8-bit whole numbers do.",
        _SOURCE,
    ),
    promises=(
        Promise("Half the memory of bf16", "under 0.55x the bytes", _SOURCE, "weights_bytes", None, 0.55),
        Promise("Faster where the GPU multiplies in float8", "faster", _SOURCE, "decode", 1.0, None),
    ),
    why_not=_why_not,
    options=_options,
    recipe=torchao_recipe,
    verify=linears_converted("torchao", LINEAR_ONLY),
    linear_bytes=1.0,
    effort=Effort(gpu_slowdown=3.0),
)
