"""Eager attention: attention step by step as its formula says. It has nothing to do with being compiled or not."""

from __future__ import annotations

from optimizers.schema import Explanation
from optimizers.techniques.base import LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import attention_ran


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(attention="eager")


TECHNIQUE = Technique(
    id="eager",
    slot="attention",
    title="Plain attention (eager attention)",
    summary="Attention computed step by step, the way its formula reads; no fused kernel.",
    about=Explanation(
        "Attention lets each token look at those before it: scores of every token for every other, a softmax over "
        "them, a weighted sum of their values. Eager attention computes these as three steps of plain PyTorch and "
        "writes the whole table of scores to memory in between. With n tokens the table has n times n entries for "
        "each head, so a long prompt costs time and memory; a short one hardly anything.",
        "transformers documentation, Attention interface: huggingface.co/docs/transformers/attention_interface",
    ),
    promises=(),
    options=_options,
    holds_scores=True,
    verify=attention_ran("eager", "Plain attention"),
)
