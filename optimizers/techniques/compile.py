"""Compiled decoding: torch.compile turns the step that makes one token into machine code, once.

It needs a cache of fixed length, which it brings along. The prompt is read by the plain forward, so that a prompt of
another length compiles nothing. The first run compiles for minutes; the code is kept for the next one.
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
    return GenerationOptions(compile_mode="default")


TECHNIQUE = Technique(
    id="compile",
    slot="compile",
    title="Compiled (torch.compile)",
    summary="The step that makes one token is turned into machine code; the first use takes a minute or more.",
    promises=(
        Promise(
            "1.5x to 3x faster after a slow first call",
            "1.5x to 3x",
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
    effort=Effort(once_s_per_layer=3.0),
)
