"""Compiled decoding with a longer search: torch.compile tries several forms of each product and keeps the fastest.

As `compile`, with torch.compile's mode "max-autotune" (without CUDA graphs where there is no GPU).
"""

from __future__ import annotations

from optimizers.schema import Promise
from optimizers.techniques.base import Effort, GenerationOptions, LoadContext, Technique
from optimizers.techniques.shared_decoding import (
    COMPILE_CONFLICTS,
    compiler_errors,
    step_was_compiled,
    warn_compiling,
    why_not_compiled,
)


def _generation(context: LoadContext) -> GenerationOptions:
    return GenerationOptions(compile_mode="max-autotune")


TECHNIQUE = Technique(
    id="compile_max_autotune",
    slot="compile",
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
    brings=("static_cache",),
    why_not=why_not_compiled,
    warn=warn_compiling,
    generation=_generation,
    verify=step_was_compiled,
    slow_to_prepare=True,
    conflicts=COMPILE_CONFLICTS,
    explain=compiler_errors,
    effort=Effort(once_s_per_layer=6.0),
)
