"""Whether two checkpoints speak in the same tokens: the same tokenizer.json and the same width of the vocabulary.

Covers the comparison of files only. Where a checkpoint has no tokenizer.json nothing is proven, and the answer is no.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path

from optimizers.checkpoints import kinds
from optimizers.schema import Checkpoint

# Set anew by transformers at each call, and written out with whatever the last call had.
_NOT_OF_THE_TOKENS = ("truncation", "padding")


def same_tokenizer(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether token ids mean the same in both, so that probabilities can be compared token by token."""
    ours, theirs = _content(one), _content(other)
    return ours is not None and ours == theirs and one.vocab_size == other.vocab_size


def _content(checkpoint: Checkpoint) -> str | None:
    path = Path(checkpoint.folder) / "tokenizer.json"
    try:
        found = path.stat()
    except OSError:
        return None
    return _digest(str(path), found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=32)
def _digest(path: str, changed_ns: int, size: int) -> str | None:
    """The digest of what a tokenizer.json says, however it is laid out; None when it cannot be read."""
    said = kinds.read_object(Path(path))
    if said is None:
        return None
    kept = {name: value for name, value in said.items() if name not in _NOT_OF_THE_TOKENS}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
