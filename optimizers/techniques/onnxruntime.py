"""ONNX Runtime in fp32: the decoder as one graph with fused operators, run by a C++ engine.

The graph comes from onnxruntime-genai's model builder, which writes it operator by operator (GroupQueryAttention,
SkipSimplifiedLayerNormalization) instead of tracing it, or, for architectures that the builder does not know, from
transformers' exporter, which traces the model in minutes; transformers' generate() drives both. Before anything is
measured the loaded graph must agree with PyTorch, on a single prompt and on a padded batch.
"""

from __future__ import annotations

from optimizers.schema import Explanation, Promise
from optimizers.techniques.graphs.technique import graph

_SOURCE = "ONNX Runtime documentation: onnxruntime.ai/docs/performance"

TECHNIQUE = graph(
    "onnxruntime",
    precision="fp32",
    title="ONNX Runtime",
    summary="The model as one fixed graph with fused steps, run by ONNX Runtime in place of PyTorch.",
    about=Explanation(
        "The model is written down once as a graph of fixed operators, with whole steps fused (attention with its "
        "rotation and cache is one), and ONNX Runtime plans memory and kernels for it ahead. Nothing of Python is "
        "left between the layers, which on small models and few cores is much of the time. The numbers are the same "
        "32-bit ones, so answers should not move; the first use writes the graph.",
        _SOURCE,
    ),
    promises=(
        Promise(
            "Faster inference than the framework it came from", "faster than PyTorch", _SOURCE, "decode", 1.0, None
        ),
    ),
)
