"""Saving a variant as a checkpoint that from_pretrained reads, and how large the file of a model's state is.

Covers what transformers can write; what it cannot is refused with a sentence.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from optimizers.errors import WorkerError
from optimizers.techniques.graphs.backed import GraphBacked
from optimizers.worker.failures import first_line
from optimizers.worker.loading import Loaded


def save(loaded: Loaded, folder: Path) -> int:
    """Write model and tokenizer into `folder`; returns the bytes written. Raises WorkerError when it cannot be."""
    if loaded.prepared:
        names = " and ".join(item.title for item in loaded.techniques if item.transform or item.load)
        raise WorkerError(
            f"A model changed by {names} cannot be written as a checkpoint.",
            "Save the variant without it and apply it after loading.",
        )
    greedy = loaded.model.generation_config
    loaded.model.generation_config = loaded.own_generation
    try:
        loaded.model.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)
    except Exception as error:
        raise WorkerError(
            f"The checkpoint could not be saved: {first_line(error).rstrip('.')}.", "The variant's log says more."
        ) from error
    finally:
        loaded.model.generation_config = greedy
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class _Counter(io.RawIOBase):
    """A file that only counts what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.count += size
        return size


def saved_bytes(model: Any) -> int | None:
    """Bytes of the file that torch.save writes of the model's state, as PyTorch's guides weigh it. Nothing is kept.
    None of a graph, whose state is no such file."""
    import torch

    if isinstance(model, GraphBacked):
        return None
    file = _Counter()
    torch.save(model.state_dict(), file)
    return file.count
