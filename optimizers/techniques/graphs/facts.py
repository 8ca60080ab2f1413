"""What the graph that a session loaded consists of: operators, bytes by dtype as stored, layers left unquantized.

Read from the graph's own file and from the session, never from the recipe. Low-bit weights are packed into uint8.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from optimizers.schema import SkippedModule

_QUANTIZED = ("MatMulNBits", "GatherBlockQuantized")
_LOOK_UPS = {"Gather", "GatherBlockQuantized", "GroupQueryAttention", "RotaryEmbedding"}  # the last two: of angles
_FUSED = "GroupQueryAttention"


@dataclass(frozen=True)
class GraphFacts:
    """`converted` counts layers with low-bit weights, `skipped` those that kept theirs, by cause. `read_bytes` are
    what a pass over one token reads of the weights: of a table that is only looked up in, one row."""

    operators: dict[str, int]
    bytes_by_dtype: dict[str, int]
    converted: int
    skipped: tuple[SkippedModule, ...]
    attention: str
    read_bytes: int


@lru_cache(maxsize=1)
def read(folder: Path) -> GraphFacts:
    """The facts of the graph in `folder`; its weights are not read."""
    import onnx

    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    operators = Counter(node.op_type for node in graph.node)
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    totals: Counter[str] = Counter()
    for tensor in _stored_once(initializers):
        totals[_name(tensor.data_type)] += _bytes(tensor)
    return GraphFacts(
        operators=dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        bytes_by_dtype=dict(sorted(totals.items())),
        converted=sum(operators[name] for name in _QUANTIZED),
        skipped=_skipped(graph, initializers),
        attention=_FUSED if operators[_FUSED] else "unfused",
        read_bytes=sum(totals.values()) - _never_read(graph, initializers),
    )


def _never_read(graph: Any, initializers: dict[str, Any]) -> int:
    """Bytes of all rows but one of the tables that nothing but look-ups use."""
    users: dict[tuple[str, ...], set[str]] = {}
    for node in graph.node:
        for name in initializers.keys() & set(node.input):
            users.setdefault(_place(initializers[name]), set()).add(node.op_type)
    tables = [tensor for tensor in _stored_once(initializers) if users.get(_place(tensor), {""}) <= _LOOK_UPS]
    sizes = [(_bytes(tensor), tensor.dims[0]) for tensor in tables if len(tensor.dims) > 1 and tensor.dims[0] > 1]
    return sum(size - size // rows for size, rows in sizes)


def _name(data_type: int) -> str:
    import onnx

    return str(onnx.helper.tensor_dtype_to_np_dtype(data_type))


def _bytes(tensor: Any) -> int:
    """Bytes of an initializer as stored: what the data file or the graph itself holds, else its shape."""
    import math

    import onnx

    said = {entry.key: entry.value for entry in tensor.external_data}
    if "length" in said:
        return int(said["length"])
    if tensor.raw_data:
        return len(tensor.raw_data)
    return int(math.prod(tensor.dims) * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _stored_once(initializers: dict[str, Any]) -> list[Any]:
    """The initializers, those that share their bytes once."""
    return list({_place(tensor): tensor for tensor in initializers.values()}.values())


def _place(tensor: Any) -> tuple[str, ...]:
    """Where an initializer is stored: two that name the same bytes of the data file are one."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    return (said["location"], said.get("offset", "0")) if "location" in said else (tensor.name,)


def _skipped(graph: Any, initializers: dict[str, Any]) -> tuple[SkippedModule, ...]:
    """Layers whose weights are plain numbers: products, and the table of embeddings."""
    causes: dict[str, list[str]] = {}
    for node in graph.node:
        # a product's constant may hold several matrices, one for each expert; a table is two-dimensional
        widest = max((len(initializers[name].dims) for name in node.input if name in initializers), default=0)
        if node.op_type in ("MatMul", "Gemm") and widest >= 2:
            causes.setdefault("product left in floating point", []).append(node.name)
        elif node.op_type == "Gather" and widest == 2:
            causes.setdefault("embedding table: rows are looked up, not multiplied", []).append(node.name)
    return tuple(SkippedModule(names[0], why, len(names)) for why, names in causes.items())
