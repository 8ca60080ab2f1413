"""8-bit weights and arithmetic (PyTorch dynamic int8): torch's quantize_dynamic over nn.Linear.

One scale for each weight matrix; activations are quantized as they come, one scale for the whole tensor, which is why a
long prompt in one pass is less exact than token by token. The plain call converts the output head as well: a tied head
becomes a copy of its own, and the embedding stays as it was.
"""

from __future__ import annotations

import warnings
from typing import Any

from optimizers.schema import Checkpoint, Explanation, Machine, Obstacle, Promise
from optimizers.techniques.base import Effort, GenerationOptions, LoadContext, Recipe, Technique
from optimizers.techniques.shared import LINEAR_ONLY, already_quantized, linears_converted, processors_only, slow_int8

_SOURCE = "PyTorch blog, Introduction to Quantization on PyTorch (2020)"
_NEEDS_FP32 = "PyTorch's dynamic int8 takes float32 inputs only: combine it with fp32."


def _why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    return processors_only(machine, "PyTorch's dynamic int8") or already_quantized(checkpoint)


def _transform(model: Any, context: LoadContext) -> Any:
    import torch
    from torch.ao.quantization import quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that this function will leave; it is what the guides teach
        return quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8, inplace=True)


def _recipe(context: LoadContext, generation: GenerationOptions) -> Recipe:
    return Recipe(
        imports=("import torch", "from torch.ao.quantization import quantize_dynamic"),
        change=("model = quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8, inplace=True)",),
    )


TECHNIQUE = Technique(
    id="int8_dynamic",
    slot="weights",
    title="8-bit weights and arithmetic (PyTorch dynamic int8)",
    summary="Linear layers stored and computed in 8-bit whole numbers; the scale of the inputs is found as they come.",
    about=Explanation(
        "PyTorch's oldest quantization: the weights of linear layers become 8-bit whole numbers with one scale for "
        "each layer, and the inputs are rounded to 8 bits as they come, with a scale for the whole tensor. The "
        "product is then computed in whole numbers, which processors with VNNI do several times faster. One scale for "
        "so many numbers is coarse: a few large inputs leave little room for the rest, and models of language suffer "
        "visibly. Embeddings stay in 32 bits, so small models shrink less than 4x.",
        _SOURCE,
    ),
    promises=(
        Promise("The saved file is about 4x smaller", "0.25x the bytes", _SOURCE, "saved_bytes", None, 0.3),
        Promise("2x to 3x faster", "2x to 3x", _SOURCE, "decode", 2.0, None),
    ),
    why_not=_why_not,
    warn=slow_int8,
    transform=_transform,
    recipe=_recipe,
    verify=linears_converted("PyTorch's dynamic int8", LINEAR_ONLY),
    linear_bytes=1.0,
    conflicts={"bf16": _NEEDS_FP32, "fp16": _NEEDS_FP32, "library_default": _NEEDS_FP32},
    effort=Effort(slowdown=2.0),
)
