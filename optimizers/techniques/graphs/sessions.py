"""What the two kinds of graph share: how a session is opened, and how tensors are given to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizers.techniques.graphs.names import GRAPH, POSITIONS


def open_session(folder: Path, threads: int, *, patterns: bool = True) -> Any:
    """A session on the processor. `patterns`: let it plan its memory by the inputs' shapes, which pays only where the
    same shapes come again."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_mem_pattern = patterns
    return onnxruntime.InferenceSession(str(folder / GRAPH), options, providers=["CPUExecutionProvider"])


def vocabulary(session: Any) -> int:
    """How many logits a position has."""
    return next(int(output.shape[-1]) for output in session.get_outputs() if output.name == "logits")


def bind_integers(binding: Any, known: set[str], feeds: dict[str, Any]) -> None:
    """Give the int64 tensors whose names the graph knows. They must live and be contiguous until it has run."""
    import numpy

    for name, tensor in feeds.items():
        if name in known:
            binding.bind_input(name, "cpu", 0, numpy.int64, tuple(tensor.shape), tensor.data_ptr())


def bind_logits(binding: Any, known: set[str], ids: Any, positions: Any, width: int) -> Any:
    """Room for the logits in float32: (batch, asked positions, width) where the graph computes only those, else
    (batch, new, width)."""
    import numpy
    import torch

    asked = len(positions) if POSITIONS in known else ids.shape[1]
    logits = torch.empty((len(ids), asked, width), dtype=torch.float32)
    binding.bind_output("logits", "cpu", 0, numpy.float32, tuple(logits.shape), logits.data_ptr())
    return logits


def last_positions(new: int, keep: int) -> Any:
    """The last `keep` of `new` positions, all of them when `keep` is 0."""
    import torch

    return torch.arange(max(0, new - keep) if keep else 0, new)
