"""Compiled decoding with a longer search: torch.compile tries several forms of each product and keeps the fastest.

As `compile`, with torch.compile's mode "max-autotune" (without CUDA graphs where there is no GPU).
"""

from __future__ import annotations

from optimizers.schema import Explanation
from optimizers.techniques.base import Effort
from optimizers.techniques.shared_decoding import compiled

TECHNIQUE = compiled(
    "compile_max_autotune",
    mode="max-autotune",
    title="Compiled, longer search (max-autotune)",
    summary="As compiled, but the compiler also tries several forms of each product and keeps the fastest.",
    about=Explanation(
        "As the compiled step, but for each matrix product several programs are written and timed on this machine, "
        "and the fastest is kept. On GPUs it also replays the whole step as one recorded graph where it can. It takes "
        "longer the first time and gains where the default choice was not the best.",
        "PyTorch documentation, torch.compile: docs.pytorch.org/docs/stable/torch.compiler",
    ),
    claim="At least as fast as plain torch.compile, for a longer first call",
    promised="1.5x to 3x, or more",
    effort=Effort(once_s_per_layer=6.0),
)
