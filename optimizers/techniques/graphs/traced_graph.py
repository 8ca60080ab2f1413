"""A graph that transformers' exporter traced, as the decoder runs it.

Each step takes all keys and values so far and gives them back longer by the new tokens: nothing is written in place, so
that the runtime copies them once a step. Padding may stand on the left: the graph reads the mask, and positions are
counted from each row's own first token. Stepping back in the cache is refused, as for the other kind of graph.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizers.techniques.graphs.names import PAST, POSITIONS, PRESENT
from optimizers.techniques.graphs.sessions import (
    bind_integers,
    bind_logits,
    last_positions,
    open_session,
    vocabulary,
)

_FLOATS = {"tensor(float)": "float32", "tensor(float16)": "float16"}


class GrowingKeyValues:
    """What generate() holds as its cache: each layer's keys and values, (batch, heads, `length`, width), as the last
    step gave them."""

    is_compileable = False

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.length = 0

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions in use; the same in every layer."""
        return self.length


class TracedGraph:
    """A session and what its inputs are called."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.folder = folder
        self.session = open_session(folder, threads, patterns=False)  # no two steps have the same shapes
        inputs = self.session.get_inputs()
        self._inputs = {item.name for item in inputs}
        self._past = [item for item in inputs if item.name.startswith(PAST)]
        self._width = vocabulary(self.session)
        self.computed = 0  # positions of which the last step computed logits

    def start(self, batch: int, tokens: int) -> GrowingKeyValues:
        """No keys and values yet; they grow to what is needed."""
        import numpy
        import onnxruntime

        values = {}
        for item in self._past:
            empty = numpy.zeros((batch, item.shape[1], 0, item.shape[3]), _FLOATS[item.type])
            values[item.name] = onnxruntime.OrtValue.ortvalue_from_numpy(empty)
        return GrowingKeyValues(values)

    def step(self, state: GrowingKeyValues, ids: Any, mask: Any, keep: int) -> Any:
        """Logits (batch, asked, vocabulary) in float32 of the last `keep` (0: all) of the next `ids`, (batch, new);
        the state moves on. `mask` (batch, length + new) has a one for each token that is not padding."""
        new = ids.shape[1]
        positions = last_positions(new, keep)
        feeds = {
            "input_ids": ids.contiguous(),
            "attention_mask": mask.contiguous(),
            "position_ids": (mask.cumsum(1) - 1).clamp(min=0)[:, -new:].contiguous(),
            POSITIONS: positions,
        }
        binding = self.session.io_binding()
        bind_integers(binding, self._inputs, feeds)
        for name, value in state.values.items():
            binding.bind_ortvalue_input(name, value)
        logits = bind_logits(binding, self._inputs, ids, positions, self._width)
        for name in state.values:
            binding.bind_output(name.replace(PAST, PRESENT), "cpu")
        self.session.run_with_iobinding(binding)
        state.values = dict(zip(state.values, binding.get_outputs()[1:], strict=True))
        state.length += new
        self.computed = logits.shape[1]
        return logits if POSITIONS in self._inputs else logits[:, positions]


class Steps:
    """A traced graph without a model around it: what the gate asks for, in the process that writes graphs."""

    def __init__(self, folder: Path) -> None:
        self._graph = TracedGraph(folder, threads=1)

    def step(self, ids: Any, mask: Any, state: GrowingKeyValues | None) -> tuple[Any, GrowingKeyValues]:
        """Logits of the next `ids`, and the state after them."""
        after = self._graph.start(*ids.shape) if state is None else state
        return self._graph.step(after, ids, mask, 0), after
