"""The backend manager: owns the runs of this process, one going on at a time, the others waiting in line.

Covers starting, watching, stopping and ending. A run belongs to the manager, never to who asked for it. Nothing here
spins: everything blocks on queues, pipes and conditions.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from optimizers.errors import LeversError, RunNotFound
from optimizers.manager.board import Board
from optimizers.manager.conductor import Conductor
from optimizers.manager.live import Live
from optimizers.results import LiveRun
from optimizers.schema import Plan
from optimizers.store import Store, goes_on
from optimizers.votes import Vote

MOST_WAITING = 8
KEPT_RUNS = 16
STOP_S = 2.0


@dataclass(frozen=True)
class _Entry:
    """A run that this process knows: what is shared in it, and whether it is over.

    An event is waited for, and not the thread: an interrupt (Ctrl-C) that comes while a thread is joined makes Python
    3.11 take that thread for ended."""

    board: Board
    live: Live
    over: threading.Event


class Manager:
    """Runs comparisons, one after another in the order in which they were started."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._voting = threading.Lock()
        self._floor = threading.Condition()
        self._line: list[str] = []
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._closed = False

    def start(self, plan: Plan) -> str:
        """Begin a run, or put it in line behind the one that goes on; its id, at once.

        Raises LeversError when too many wait, or when the run cannot be kept on disk."""
        with self._lock:
            if self._closed or len(self._line) > MOST_WAITING:
                raise LeversError(
                    f"{MOST_WAITING} comparisons are waiting already." if not self._closed else "Levers is closing.",
                    "Try again in a few minutes.",
                )
            folder = self._store.create(plan)
            live = Live(folder.id, plan)
            board = Board(plan, folder, live)
            entry = self._entries[folder.id] = _Entry(board, live, threading.Event())
            self._forget_old()
            with self._floor:
                self._line.append(folder.id)
        threading.Thread(target=self._conduct, args=(entry,), name=f"run-{folder.id}", daemon=True).start()
        return folder.id

    def snapshot(self, run_id: str) -> LiveRun:
        """The run as it looks right now. Cheap. Raises RunNotFound for a run that this process did not start."""
        return self._entry(run_id).live.snapshot()

    def wait_change(self, run_id: str, version: int, timeout_s: float) -> LiveRun:
        """The run once its picture is newer than `version`, at the latest after `timeout_s` seconds. Blocks."""
        return self._entry(run_id).live.wait(version, timeout_s)

    def stop(self, run_id: str) -> None:
        """End a run now: what runs is killed, what was measured is kept. Returns when it is over (within 2 seconds)."""
        entry = self._entry(run_id)
        entry.board.stop()
        with self._floor:
            self._floor.notify_all()
        entry.over.wait(STOP_S)

    def wait(self, run_id: str, timeout_s: float | None = None) -> LiveRun:
        """The run when it is over, or as it is after `timeout_s` seconds. Blocks."""
        entry = self._entry(run_id)
        entry.over.wait(timeout_s)
        return entry.live.snapshot()

    def delete(self, run_id: str) -> None:
        """Remove a run of this folder, started here or not, with all its files. Raises RunNotFound, and LeversError
        while it goes on."""
        with self._lock:
            entry = self._entries.get(run_id)
            if entry is not None and not entry.over.is_set():
                raise goes_on(run_id)
            self._store.delete(run_id)
            self._entries.pop(run_id, None)

    def vote(self, run_id: str, vote: Vote) -> None:
        """Put a reader's vote into the log of a run of this folder, going on or over. Raises RunNotFound, UsageError
        for a vote that cannot count, LeversError when it cannot be kept."""
        with self._lock:
            entry = self._entries.get(run_id)
        try:
            if entry is not None and entry.board.vote(vote):
                return
        except OSError as error:
            raise self._store.full(error) from error
        if entry is not None:
            entry.over.wait(STOP_S)  # what ends the run may still be at work
        with self._voting:
            votes = self._store.vote(run_id, vote)
            if entry is not None:
                entry.live.voted(votes)

    def running(self) -> str | None:
        """The id of the run that goes on, None when none does."""
        with self._floor:
            return self._line[0] if self._line else None

    def close(self) -> None:
        """End every run and every worker. Nothing can be started afterwards."""
        with self._lock:
            self._closed = True
            entries = list(self._entries.values())
        for entry in entries:
            entry.board.stop()
        with self._floor:
            self._floor.notify_all()
        for entry in entries:
            entry.over.wait(STOP_S)

    def _conduct(self, entry: _Entry) -> None:
        """Wait for the floor, then conduct. A run that is stopped while it waits ends without having it."""
        board = entry.board
        run_id = board.folder.id
        with self._floor:
            self._floor.wait_for(lambda: self._line[0] == run_id or board.stopped.is_set())
        try:
            Conductor(board).conduct()
        finally:
            with self._floor:
                self._line.remove(run_id)
                self._floor.notify_all()
            entry.over.set()

    def _entry(self, run_id: str) -> _Entry:
        with self._lock:
            entry = self._entries.get(run_id)
        if entry is None:
            raise RunNotFound(
                f"This program is not running {run_id[:60]!r}.", "List the runs with: python -m optimizers runs"
            )
        return entry

    def _forget_old(self) -> None:
        """Let go of the oldest finished runs: they are on disk."""
        over = [run_id for run_id, entry in self._entries.items() if entry.live.over]
        for run_id in over[: max(0, len(self._entries) - KEPT_RUNS)]:
            del self._entries[run_id]
