"""What torchao's techniques share: how its configs are named to transformers, and what their recipes need. It holds no
technique of its own."""

from __future__ import annotations

from typing import Any

from optimizers.techniques.base import GenerationOptions, LoadContext, LoadOptions, Recipe
from optimizers.techniques.shared_calls import Call

PACKAGES = ("torchao", "accelerate")


def torchao(config: str, module: str = "torchao.quantization", **named: Any) -> LoadOptions:
    """The `options` of a torchao config of this name; `named` are its arguments."""
    return LoadOptions(quantization=Call("transformers", "TorchAoConfig", (Call(module, config, named=named),)))


def torchao_recipe(context: LoadContext, generation: GenerationOptions) -> Recipe:
    """The `recipe` of those that need nothing else."""
    return Recipe(packages=PACKAGES)
