"""What a model that runs a graph tells about it, whoever wrote the graph and whatever drives it. Light to import."""

from __future__ import annotations

from typing import Any

from optimizers.techniques.graphs import store


class GraphBacked:
    """Mixed into a model whose weights are a graph's.

    `graph` has the graph's `folder` and its `session`; `agreement` is how it was held against PyTorch (a
    gate.Agreement); `notes` are sentences that the reader must see. A model with it has `step(ids, mask,
    state)`: logits (batch, new, vocabulary) of the next `ids`, and the state after them; the mask counts all tokens so
    far, and the first state is None."""

    graph: Any
    prepare_s: float
    agreement: Any
    notes: tuple[str, ...] = ()

    def attach(self, graph: Any, prepare_s: float) -> None:
        """Take the graph; `prepare_s` is how long it took to be written (0 when it was found)."""
        self.graph = graph
        self.prepare_s = prepare_s

    @property
    def disk_bytes(self) -> int:
        """Bytes of the graph and its weights on disk."""
        return store.disk_bytes(self.graph.folder)

    def get_input_embeddings(self) -> Any:
        return None

    def get_output_embeddings(self) -> Any:
        return None
