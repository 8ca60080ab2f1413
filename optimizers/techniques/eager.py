"""Eager attention: attention step by step as its formula says. It has nothing to do with being compiled or not."""

from __future__ import annotations

from optimizers.techniques.base import LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import attention_ran


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(attention="eager")


TECHNIQUE = Technique(
    id="eager",
    slot="attention",
    title="Plain attention (eager attention)",
    summary="Attention computed step by step, the way its formula reads; no fused kernel.",
    promises=(),
    options=_options,
    holds_scores=True,
    verify=attention_ran("eager", "Plain attention"),
)
