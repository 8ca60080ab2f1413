"""Fused attention (SDPA): PyTorch's scaled_dot_product_attention, one kernel in place of several steps."""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Obstacle, Promise
from optimizers.techniques.base import LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import attention_ran, lacks_attention


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(attention="sdpa")


def _why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    return lacks_attention(checkpoint, "sdpa")


TECHNIQUE = Technique(
    id="sdpa",
    slot="attention",
    title="Fused attention (SDPA)",
    summary="Attention in one fused kernel of PyTorch; the same result, with less memory traffic.",
    about=Explanation(
        "The same sum as plain attention in one call of PyTorch's, which picks a fused kernel (on processors and GPUs "
        "a form of flash attention). It goes through keys and values block by block and keeps a running softmax, so "
        "the table of scores is never written to memory. The gain is on long prompts; writing one token at a time has "
        "one row of scores, where there is little to save.",
        "PyTorch documentation, torch.nn.functional.scaled_dot_product_attention",
    ),
    promises=(
        Promise(
            "Faster than plain attention",
            "faster prompt reading",
            "PyTorch documentation, torch.nn.functional.scaled_dot_product_attention",
            "prefill",
            1.0,
            None,
        ),
    ),
    why_not=_why_not,
    options=_options,
    verify=attention_ran("sdpa", "Fused attention"),
)
