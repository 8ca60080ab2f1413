"""A checkpoint's tokens without loading it: whether two have the same ones, and how many a text has.

Covers what its tokenizer.json tells. Where there is none nothing is proven: the answer is no, the number not known.
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


def lengths(checkpoint: Checkpoint, prompts: tuple[str, ...]) -> tuple[int, ...] | None:
    """Tokens of each prompt as plain text, None where the tokenizer is of a kind that only the worker can read."""
    path = Path(checkpoint.folder) / "tokenizer.json"
    try:
        return _counted(str(path), path.stat().st_mtime_ns, prompts)
    except OSError:
        return None


@lru_cache(maxsize=16)
def _counted(path: str, changed_ns: int, prompts: tuple[str, ...]) -> tuple[int, ...] | None:
    """Reading a tokenizer takes longer than all else in a plan, and a page plans at every change and again to start."""
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(path)
        return tuple(len(tokenizer.encode(prompt, add_special_tokens=False).ids) for prompt in prompts)
    except Exception:  # the library raises plain Exception; a broken tokenizer is the worker's to report
        return None


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
