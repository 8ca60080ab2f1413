"""ONNX Runtime with 8-bit weights: the graph of `onnxruntime` with every product's weights in 8 bits.

Blocks of 32 weights share one fp32 scale, symmetric; the output head is converted too, the embedding table is not (its
rows are looked up, not multiplied). Products quantize each block of inputs as they come and compute in whole numbers
(MatMulNBits at accuracy level 4), which is what instructions such as VNNI are for. A graph that transformers' exporter
traced is quantized the same way by onnxruntime's own quantizer.
"""

from __future__ import annotations

from optimizers.schema import Explanation, Promise
from optimizers.techniques.graphs.technique import QUANTIZING, graph

TECHNIQUE = graph(
    "onnxruntime_int8",
    precision="int8",
    title="ONNX Runtime, 8-bit weights",
    summary="The ONNX Runtime graph with its weights in 8 bits, each block of 32 with a scale of its own.",
    about=Explanation(
        "The graph with every matrix stored as 8-bit whole numbers, each block of 32 with a scale of its own; inputs "
        "are rounded block by block as they come and the product is computed in whole numbers. Small blocks keep the "
        "error small, and a processor with VNNI or AMX multiplies four such numbers in place of one.",
        QUANTIZING,
    ),
    promises=(
        Promise("Smaller: 8-bit weights", "smaller than fp32", QUANTIZING, "weights_bytes", None, 0.55),
        Promise("Faster on processors with 8-bit instructions", "faster than fp32", QUANTIZING, "decode", 1.0, None),
    ),
    linear_bytes=1 + 4 / 32,
)
