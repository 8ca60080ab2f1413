"""ONNX Runtime in fp32: the decoder as one graph with fused operators, run by a C++ engine.

The graph comes from onnxruntime-genai's model builder, which writes it operator by operator (GroupQueryAttention,
SkipSimplifiedLayerNormalization) instead of tracing it, or, for architectures that the builder does not know, from
transformers' exporter, which traces the model in minutes; transformers' generate() drives both. Before anything is
measured the loaded graph must agree with PyTorch, on a single prompt and on a padded batch.
"""

from __future__ import annotations

from optimizers.schema import Promise
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
    why_not,
)

_SOURCE = "ONNX Runtime documentation: onnxruntime.ai/docs/performance"

TECHNIQUE = Technique(
    id="onnxruntime",
    slot="runtime",
    title="ONNX Runtime",
    summary="The model as one fixed graph with fused steps, run by ONNX Runtime in place of PyTorch.",
    promises=(
        Promise(
            "Faster inference than the framework it came from", "faster than PyTorch", _SOURCE, "decode", 1.0, None
        ),
    ),
    also_fills=TAKEN_SLOTS,
    why_not=why_not,
    warn=warn,
    options=import_early,
    load=loader(Recipe("fp32")),
    verify=graph_ran(quantized=False),
    slow_to_prepare=True,
    conflicts=conflicts("onnxruntime"),
    effort=Effort(slowdown=0.8, once_s_per_parameter=GRAPH_S_PER_PARAMETER, once_s=tracing_s),
)
