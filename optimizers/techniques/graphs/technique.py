"""What every technique that runs a graph written here is, but for its name, its words and the width of its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from optimizers.schema import Checkpoint, Explanation, Machine, Promise
from optimizers.techniques.base import Effort, Technique
from optimizers.techniques.graphs.loading import import_early, loader
from optimizers.techniques.graphs.recipes import (
    GRAPH_S_PER_PARAMETER,
    TAKEN_SLOTS,
    Recipe,
    conflicts,
    graph_ran,
    tracing_s,
    warn,
    warn_quantized,
    why_not,
)
from optimizers.techniques.graphs.written import writer

QUANTIZING = "ONNX Runtime documentation, Quantize ONNX models: onnxruntime.ai/docs/performance/model-optimizations"


def graph(
    id_: str,
    precision: Literal["fp32", "int8", "int4"],
    title: str,
    summary: str,
    about: Explanation,
    promises: tuple[Promise, ...],
    linear_bytes: float | None = None,
) -> Technique:
    """The technique of the graph in this precision; `linear_bytes` as in Technique."""
    recipe = Recipe(precision)
    warned: Callable[[Machine, Checkpoint | None], str | None] = warn_quantized if recipe.quantized else warn
    return Technique(
        id=id_,
        slot="runtime",
        title=title,
        summary=summary,
        about=about,
        promises=promises,
        also_fills=TAKEN_SLOTS,
        why_not=why_not,
        warn=warned,
        options=import_early,
        load=loader(recipe),
        recipe=writer(recipe),
        verify=graph_ran(quantized=recipe.quantized),
        linear_bytes=linear_bytes,
        holds_scores=True,
        slow_to_prepare=True,
        conflicts=conflicts(id_),
        effort=Effort(
            slowdown=0.4 if recipe.quantized else 0.8,
            once_s_per_parameter=GRAPH_S_PER_PARAMETER,
            once_s=tracing_s,
        ),
    )
