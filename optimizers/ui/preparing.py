"""Models being read or fetched in threads of their own, so that the page can tell how far they are.

Covers one shared table, bounded in size and in threads. What preparing means is in `api.prepare`.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from optimizers import api
from optimizers.errors import LeversError
from optimizers.schema import Checkpoint
from optimizers.settings import settings
from optimizers.ui import words

KEPT = 32
AT_ONCE = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Preparation:
    """How far a model is: `checkpoint` when it is ready, `error` when it cannot be used, else `text` says what goes on
    and `share` how far it is (None when that is not known)."""

    model: str
    text: str
    checkpoint: Checkpoint | None = None
    error: LeversError | None = None
    share: float | None = None

    @property
    def over(self) -> bool:
        return self.checkpoint is not None or self.error is not None


_turns = threading.BoundedSemaphore(AT_ONCE)
_lock = threading.Lock()
_table: dict[str, Preparation] = {}


def begin(model: str, wait_s: float = 0.0) -> Preparation:
    """Start preparing `model` unless that goes on already; the state after at most `wait_s` seconds."""
    with _lock:
        known = _table.get(model)
        if known and not known.over:
            return known
        if not _make_room():
            return Preparation(model, "", error=LeversError(words.TOO_BUSY, words.TOO_BUSY_REMEDY))
        _table[model] = Preparation(model, words.READING)
    # A daemon: a long download must not hold up the end of the program.
    thread = threading.Thread(target=_work, args=(model,), name="levers-prepare", daemon=True)
    thread.start()
    thread.join(wait_s)
    return _table[model]


def look(model: str) -> Preparation | None:
    """The state of `model`, None when nobody asked for it."""
    return _table.get(model)


def _make_room() -> bool:
    for name in [name for name, entry in _table.items() if entry.over]:
        if len(_table) < KEPT:
            break
        del _table[name]
    return len(_table) < KEPT


def _work(model: str) -> None:
    def progress(text: str, share: float | None = None) -> None:
        _table[model] = Preparation(model, text, share=share)

    with _turns:
        try:
            checkpoint = api.prepare(model, progress, folders=settings().allow_folders)
            _table[model] = Preparation(model, "", checkpoint=checkpoint)
        except LeversError as error:
            _table[model] = Preparation(model, "", error=error)
        except Exception:
            _log.exception("preparing %r failed", model)
            _table[model] = Preparation(model, "", error=LeversError(words.UNEXPECTED, words.UNEXPECTED_REMEDY))
