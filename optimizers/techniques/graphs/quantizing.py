"""A traced fp32 graph with its weights in 8 or 4 bits, made in the child process of export.py by onnxruntime's own
weight-only quantizer (MatMulNBits: blocks of 32, symmetric, inputs quantized as they come).

The quantizer converts products with a constant matrix and nothing else, so they are brought into that form first: a
Gemm (GPT-2's Conv1D becomes one) turns into a product and a sum, and a matrix that is transposed in the graph (a head
tied to the embedding) is turned once. In 4 bits the embedding table is converted too. For 8 bits as well, weights alone
are quantized: onnxruntime's dynamic quantization takes one range for all inputs of a layer, which a language model's
outlying activations spoil.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from optimizers.techniques.graphs.names import DATA, GRAPH, REFERENCE

BITS = {"int8": 8, "int4": 4}
BLOCK = 32
INTEGER_ARITHMETIC = 4


def make(folder: Path, goal: Path, precision: str) -> None:
    """Write the graph in `folder` with quantized weights into `goal`, and the same reference beside it."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    model = onnx.load(folder / GRAPH)
    as_products(model.graph)
    how = DefaultWeightOnlyQuantConfig(
        block_size=BLOCK,
        is_symmetric=True,
        accuracy_level=INTEGER_ARITHMETIC,
        bits=BITS[precision],
        op_types_to_quantize=("MatMul", "Gather") if precision == "int4" else ("MatMul",),
    )
    quantizer = MatMulNBitsQuantizer(model, algo_config=how, nodes_to_exclude=other_tables(model.graph))
    quantizer.process()
    made = quantizer.model.model
    without_unused(made.graph)
    onnx.save(made, goal / GRAPH, save_as_external_data=True, location=DATA, size_threshold=1024)
    shutil.copyfile(folder / REFERENCE, goal / REFERENCE)


def other_tables(graph: Any) -> list[str]:
    """Names of the nodes that look up anything but the embedding of a token: learned positions stay as they are."""
    words = next(output.type.tensor_type.shape.dim[-1].dim_value for output in graph.output if output.name == "logits")
    tables = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2 and tensor.dims[0] == words}
    return [node.name for node in graph.node if node.op_type == "Gather" and node.input[0] not in tables]


def as_products(graph: Any) -> None:
    """Turn every Gemm and every product with a transposed constant into a product with a constant, in place."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    turned = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Transpose" and node.input[0] in constants and len(constants[node.input[0]].dims) == 2
    }
    nodes = []
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in turned:
            node.input[1] = _transposed(graph, constants, turned[node.input[1]])
        nodes += _split(graph, constants, node) if _is_plain_gemm(node, constants) else [node]
    del graph.node[:]
    graph.node.extend(nodes)


def without_unused(graph: Any) -> None:
    """Drop constants, and transposes of constants, that nothing reads any more."""
    read = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    idle = [node for node in graph.node if node.op_type == "Transpose" and node.output[0] not in read]
    for node in idle:
        graph.node.remove(node)
    read = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _is_plain_gemm(node: Any, constants: dict[str, Any]) -> bool:
    """Whether it is inputs times a constant matrix (perhaps transposed), plus perhaps a bias."""
    said = {attribute.name: attribute for attribute in node.attribute}
    scaled = any(name in said and said[name].f != 1.0 for name in ("alpha", "beta"))
    turned = "transA" in said and said["transA"].i
    return node.op_type == "Gemm" and node.input[1] in constants and not scaled and not turned


def _split(graph: Any, constants: dict[str, Any], node: Any) -> list[Any]:
    from onnx import helper

    weight = node.input[1]
    if any(attribute.name == "transB" and attribute.i for attribute in node.attribute):
        weight = _transposed(graph, constants, weight)
    biased = len(node.input) > 2 and bool(node.input[2])
    product = f"{node.output[0]}_product" if biased else node.output[0]
    made = [helper.make_node("MatMul", [node.input[0], weight], [product], name=node.name)]
    if biased:
        made.append(helper.make_node("Add", [product, node.input[2]], [node.output[0]], name=f"{node.name}_bias"))
    return made


def _transposed(graph: Any, constants: dict[str, Any], name: str) -> str:
    """The name of a constant that is the transpose of the one called `name`; made on first use."""
    from onnx import numpy_helper

    turned = f"{name}_transposed"
    if turned not in constants:
        array = numpy_helper.to_array(constants[name]).T.copy()
        constants[turned] = numpy_helper.from_array(array, turned)
        graph.initializer.append(constants[turned])
    return turned
