"""Compiled decoding: torch.compile turns the step that makes one token into machine code, once.

The prompt is read by the plain forward, so that a prompt of another length compiles nothing. The first run compiles for
minutes; the code is kept for the next one. With bf16 weights on a processor the code holds a second copy of them, laid
out for its matrix products.
"""

from __future__ import annotations

from optimizers.schema import Explanation
from optimizers.techniques.base import Effort
from optimizers.techniques.shared_decoding import compiled

TECHNIQUE = compiled(
    "compile",
    mode="default",
    title="Compiled (torch.compile)",
    summary="The step that makes one token is turned into machine code; the first use takes a minute or more.",
    about=Explanation(
        "torch.compile traces the step that makes one token and writes code for it: for processors C++, for GPUs "
        "Triton. Small operations are fused, so less is read and written in between, and Python is out of the way. "
        "Shapes must stay fixed, hence the static cache. Compiling takes from half a minute to minutes once; the "
        "table What the speed costs says after how many tokens that is paid back.",
        "PyTorch documentation, torch.compile: docs.pytorch.org/docs/stable/torch.compiler",
    ),
    claim="1.5x to 3x faster after a slow first call",
    promised="1.5x to 3x",
    effort=Effort(once_s_per_layer=3.0),
)
