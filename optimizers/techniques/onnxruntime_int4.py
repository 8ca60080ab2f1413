"""ONNX Runtime with 4-bit weights: the graph of `onnxruntime` with every product's weights in 4 bits.

Blocks of 32 weights share one fp32 scale. Output head and embedding are converted too, and a tied pair is stored once.
Products quantize each block of inputs as they come and compute in whole numbers (MatMulNBits at accuracy level 4).

The recipe is the builder's plain one (round to nearest, symmetric), chosen by speed. Measured on SmolLM2-135M with one
thread: processor time for a token, megabytes, mean KL (onnxruntime 1.32, 40 tokens on each of 3 prompts; the fp32 graph
takes 37.2 ms):

    plain                            11.8 ms    86 MB   0.44
    k_quant                          12.8 ms    88 MB   0.44
    k_quant, head in 8 bits          14.3 ms   102 MB   0.36
    k_quant, head and some layers    14.1 ms   112 MB   0.25

That checkpoint was 4-bit before, so the KL figures say little about others. The plain recipe with the head in 8 bits
writes a graph that does not load where embedding and head are tied (builder 0.18).
"""

from __future__ import annotations

from optimizers.schema import Explanation, Promise
from optimizers.techniques.graphs.technique import QUANTIZING, graph

TECHNIQUE = graph(
    "onnxruntime_int4",
    precision="int4",
    title="ONNX Runtime, 4-bit weights",
    summary="The ONNX Runtime graph with its weights in 4 bits, each block of 32 with a scale of its own.",
    about=Explanation(
        "The graph with every matrix stored in 4 bits, each block of 32 with a scale of its own, output head and "
        "embedding included. An eighth of the bytes are read for each token, which is what decides the speed of "
        "writing on a processor. It is the same idea as llama.cpp's Q4_0. Sixteen levels lose something: look at the "
        "quality.",
        QUANTIZING,
    ),
    promises=(
        Promise("Much smaller: 4-bit weights", "under 0.25x the bytes", QUANTIZING, "weights_bytes", None, 0.25),
        Promise("Faster where memory is the limit", "faster than fp32", QUANTIZING, "decode", 1.0, None),
    ),
    linear_bytes=0.5 + 4 / 32,
)
