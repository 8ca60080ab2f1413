"""Folders of a cache that are whole or not there: made beside their place, put there by one rename, under a lock.

    ROOT/NAME              what is kept; its marker is written last, so a folder is believed only when it is whole
    ROOT/NAME.lock         held while it is made
    ROOT/.NAME.making-*    work in progress; under the lock, any that exists is a dead process's

Covers locks, remains, room on the disk and the rename. What is made, and what a marker says, is each caller's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from optimizers.errors import LeversError

_LOOK_AGAIN_S = 0.5


@contextmanager
def locked(goal: Path, while_waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of `goal`; the system frees it when its holder dies. `while_waiting` is called twice a second while
    another process has it; when it raises, the error goes on."""
    lock = FileLock(goal.with_name(f"{goal.name}.lock"))
    while not lock.is_locked:
        try:
            lock.acquire(timeout=_LOOK_AGAIN_S)
        except Timeout:
            while_waiting()
    try:
        yield
    finally:
        lock.release()


def put_in_place(goal: Path, make: Callable[[Path], Path]) -> None:
    """Have `make(work)` make a folder somewhere in the empty folder `work` and name it, then put it at `goal`. Whatever
    happens, `work` is removed. To be called under the lock of `goal`."""
    clear_remains(goal)
    work = Path(tempfile.mkdtemp(prefix=f".{goal.name}.making-", dir=goal.parent))
    try:
        made = make(work)
        if goal.exists():
            goal.rename(work / "replaced")
        made.rename(goal)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def clear_remains(goal: Path) -> None:
    """Remove what dead processes left of this folder's making. To be called under the lock of `goal`."""
    for left in goal.parent.glob(f".{goal.name}.making-*"):
        shutil.rmtree(left, ignore_errors=True)


def check_space(work: Path, needed: int, what: str, error: type[LeversError] = LeversError) -> None:
    """Raise `error` when the disk of `work` has less than `needed` bytes free; `what` begins its sentence."""
    free = shutil.disk_usage(work).free
    if free < needed:
        raise error(
            f"{what} needs about {needed / 1e6:.0f} MB in {work.parent}, and {free / 1e6:.0f} MB are free.",
            "Free some disk space or point LEVERS_CACHE at another disk.",
        )


def bytes_under(folder: Path) -> int:
    """Bytes of all files under `folder`; those that vanish meanwhile count nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    return total
