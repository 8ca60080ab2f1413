"""A graph that onnxruntime-genai's builder wrote, as the decoder runs it.

Keys and values live in buffers that the graph reads and writes in place (past and present are one buffer), bound once;
a step binds the new ids, the mask and a row of logits, and copies nothing. Its fused attention (GroupQueryAttention)
counts a row's tokens from the row's start, so that a padded batch runs with its padding moved behind the tokens.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizers.errors import WorkerError
from optimizers.techniques.graphs.names import PAST, POSITIONS, PRESENT
from optimizers.techniques.graphs.sessions import (
    bind_integers,
    bind_logits,
    last_positions,
    open_session,
    vocabulary,
)

CONFIG = "genai_config.json"
_GROWTH = 64
_FLOATS = {"tensor(float)": "float32", "tensor(float16)": "float16"}


@dataclass(eq=False)
class _Buffers:
    """Room for `capacity` positions of `batch` rows, each layer (batch, heads, capacity, width), bound to a session."""

    batch: int
    capacity: int
    values: dict[str, Any]
    binding: Any


class KeyValues:
    """What generate() holds as its cache: the first `length` positions of the buffers are in use.

    `valid` counts each row's own tokens where the batch is padded, else None. When nobody holds it any more, its
    buffers go to `over`, to serve the next request."""

    is_compileable = False

    def __init__(self, buffers: _Buffers, over: Callable[[_Buffers], None]) -> None:
        self.buffers = buffers
        self.length = 0
        self.valid: Any = None
        weakref.finalize(self, over, buffers)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions in use; the same in every layer."""
        return self.length


def _whole(tokens: int) -> int:
    """The capacity of buffers that hold so many positions."""
    return -(-tokens // _GROWTH) * _GROWTH


class BuilderGraph:
    """A session, what its inputs are called, and the buffers that no request uses now."""

    def __init__(self, folder: Path, threads: int, longest_tokens: int) -> None:
        self.folder = folder
        self.session = open_session(folder, threads)
        inputs = self.session.get_inputs()
        self._inputs = {item.name for item in inputs}
        self._past = [item for item in inputs if item.name.startswith(PAST)]
        self._width = vocabulary(self.session)
        said = json.loads((folder / CONFIG).read_text("utf-8"))
        self._head_width = int(said["model"]["decoder"]["head_size"])
        self._longest = longest_tokens
        self.computed = 0  # positions of which the last step computed logits
        self._spare: list[_Buffers] = []

    def start(self, batch: int, tokens: int) -> KeyValues:
        """Empty keys and values with room for `tokens` positions and for the longest request known."""
        return KeyValues(self._room(batch, max(tokens, self._longest)), self._keep)

    def _keep(self, buffers: _Buffers) -> None:
        """Have buffers ready for the next request. Those of a text in one pass, longer than any request, are let go:
        they would count as memory of the requests that follow."""
        if buffers.capacity <= _whole(self._longest):
            self._spare.append(buffers)

    def step(self, state: KeyValues, ids: Any, mask: Any, keep: int) -> Any:
        """Logits (batch, asked, vocabulary) in float32 of the last `keep` (0: all) of the next `ids`, (batch, new);
        the state moves on. `mask` (batch, length + new) has a one for each token that is not padding."""
        batch, new = ids.shape
        self._make_room(state, state.length + new)
        padded = batch > 1 and not bool(mask.all())
        if padded and not state.length:
            return self._padded(state, ids, mask, keep)
        if padded and new > 1:
            raise WorkerError(
                "Several tokens at a time were asked of a padded batch that has begun already.",
                "Use a batch without padding, or one token at a time.",
            )
        return self._run(state, ids.contiguous(), mask.contiguous(), last_positions(new, keep))

    def _make_room(self, state: KeyValues, tokens: int) -> None:
        """Move to larger buffers when `tokens` positions do not fit."""
        old = state.buffers
        if tokens <= old.capacity:
            return
        new = self._room(old.batch, max(tokens, 2 * old.capacity))
        for name, value in old.values.items():
            new.values[name][:, :, : state.length] = value[:, :, : state.length]
        state.buffers = new

    def _run(self, state: KeyValues, ids: Any, mask: Any, positions: Any) -> Any:
        """The logits at `positions`. The mask counts each row's tokens, wherever its ones stand."""
        import torch

        binding = state.buffers.binding
        # The first step's padding stands last; later each row goes on where its own tokens end.
        before = mask.sum(1, keepdim=True) - ids.shape[1] if state.length else torch.zeros_like(ids[:, :1])
        counted = before + torch.arange(ids.shape[1])
        feeds = {"input_ids": ids, "attention_mask": mask, "position_ids": counted, POSITIONS: positions}
        bind_integers(binding, self._inputs, feeds)
        logits = bind_logits(binding, self._inputs, ids, positions, self._width)
        self.session.run_with_iobinding(binding)
        self.computed = logits.shape[1]
        state.length += ids.shape[1]
        return logits if POSITIONS in self._inputs else logits[:, positions]

    def _room(self, batch: int, tokens: int) -> _Buffers:
        for index, spare in enumerate(self._spare):
            if spare.batch == batch and spare.capacity >= tokens:
                return self._spare.pop(index)
        self._spare.clear()
        return self._allocate(batch, _whole(tokens))

    def _allocate(self, batch: int, capacity: int) -> _Buffers:
        import numpy
        import onnxruntime

        values = {}
        binding = self.session.io_binding()
        for item in self._past:
            shape = (batch, item.shape[1], capacity, self._head_width)
            values[item.name] = numpy.zeros(shape, _FLOATS[item.type])
            bound = onnxruntime.OrtValue.ortvalue_from_numpy(values[item.name])
            binding.bind_ortvalue_input(item.name, bound)
            binding.bind_ortvalue_output(item.name.replace(PAST, PRESENT), bound)
        return _Buffers(batch, capacity, values, binding)

    def _padded(self, state: KeyValues, ids: Any, mask: Any, keep: int) -> Any:
        """The first step of a padded batch. The graph counts a row's tokens from its start, so each row's own tokens go
        first and its padding last; the logits go back to where the tokens stood. Later steps need nothing."""
        import torch

        batch, new = ids.shape
        order = mask.argsort(dim=1, descending=True, stable=True)
        moved = ids.gather(1, order).contiguous()
        if keep == 1 and bool(mask[:, -1].all()):
            last = mask.sum(1) - 1
            asked, row = last.unique(return_inverse=True)
            logits = self._run(state, moved, mask.contiguous(), asked)
            return logits[torch.arange(batch), row].unsqueeze(1)
        logits = self._run(state, moved, mask.contiguous(), torch.arange(new))
        back = order.argsort(dim=1)
        placed = logits.gather(1, back.unsqueeze(-1).expand_as(logits))
        return placed[:, -keep:] if keep else placed
