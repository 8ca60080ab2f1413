"""Compiled decoding with a longer search: torch.compile tries several forms of each product and keeps the fastest.

As `compile`, with torch.compile's mode "max-autotune" (without CUDA graphs where there is no GPU).
"""

from __future__ import annotations

from dataclasses import replace

from optimizers.schema import Promise
from optimizers.techniques.base import Effort, GenerationOptions, LoadContext
from optimizers.techniques.compile import TECHNIQUE as COMPILED


def _generation(context: LoadContext) -> GenerationOptions:
    return GenerationOptions(compile_mode="max-autotune")


TECHNIQUE = replace(
    COMPILED,
    id="compile_max_autotune",
    title="Compiled, longer search (max-autotune)",
    summary="As compiled, but the compiler also tries several forms of each product and keeps the fastest.",
    promises=(
        Promise(
            "At least as fast as plain torch.compile, for a longer first call",
            "1.5x to 3x, or more",
            "PyTorch documentation, torch.compile",
            "decode",
            1.5,
            None,
        ),
    ),
    generation=_generation,
    effort=Effort(once_s_per_layer=6.0),
)
