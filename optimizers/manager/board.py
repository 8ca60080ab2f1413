"""What everybody in one run shares: its log, its picture, the comparison so far, and whether it was stopped.

Covers telling and stopping. What there is to tell is found out by members, rounds and the conductor.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from optimizers import protocol
from optimizers.analysis import Folding, compare
from optimizers.analysis.hosted import leading
from optimizers.errors import Cancelled
from optimizers.manager.live import Live
from optimizers.results import Run
from optimizers.schema import FINAL_STATUSES, Plan
from optimizers.store import RunFolder, check_vote
from optimizers.votes import Vote, Voted

COMPARE_EVERY_S = 2.0
STOPPED = "The comparison was stopped."


class Board:
    """The shared part of one run; safe to use from any thread."""

    def __init__(self, plan: Plan, folder: RunFolder, live: Live) -> None:
        self.plan = plan
        self.folder = folder
        self.live = live
        self.stopped = threading.Event()
        self._folding = Folding()
        self._folding.add(folder.planned)
        self._closers: list[Callable[[float], None]] = []
        self._lock = threading.Lock()
        self._compared_at = -COMPARE_EVERY_S
        self._finished = False

    def say(self, variant: str | None, event: protocol.LogEvent, replica: bool = False) -> None:
        """Put an event into the log and into what is known. Raises OSError when the disk is full."""
        with self._lock:
            self._folding.add(self.folder.append(variant, event, replica))

    def vote(self, vote: Vote) -> bool:
        """Put a reader's vote into the log while the run goes on; False once it is over. Raises UsageError for a vote
        that cannot count, OSError when the disk is full."""
        with self._lock:
            if self._finished or self.live.over:
                return False
            check_vote(self.live.snapshot().run, vote, self._folding.votes.cast)
            self._folding.add(self.folder.append(vote.variant, Voted(vote)))
            self.live.voted(self._folding.votes.counted)
        return True

    def enlist(self, close: Callable[[float], None]) -> None:
        """Count a started worker in, by what ends it. Raises Cancelled, and ends it, when the run was stopped."""
        with self._lock:
            self._closers.append(close)
            stopped = self.stopped.is_set()
        if stopped:
            close(0.0)
            raise Cancelled(STOPPED)

    def must_go_on(self) -> None:
        """Raise Cancelled when the run was stopped."""
        if self.stopped.is_set():
            raise Cancelled(STOPPED)

    def stop(self) -> None:
        """End every worker at once, whatever it is doing."""
        with self._lock:
            self.stopped.set()
            closers = list(self._closers)
        for close in closers:
            close(0.0)

    def compare_so_far(self) -> None:
        """Bring the comparison up to date, at most every few seconds, once each variant has a sample. Computes: only to
        be called while no timed turn runs."""
        if time.monotonic() - self._compared_at < COMPARE_EVERY_S:
            return
        with self._lock:
            record = self._folding.record("running")
        if all(m.status in FINAL_STATUSES or m.samples for m in record.measurements):
            compared = compare(record)
            with self._lock:
                run = replace(compared, votes=self._folding.votes.counted)  # some may have come meanwhile
                self.live.compared(run)
            self.folder.write_run(run)
            self._compared_at = time.monotonic()

    def leading(self, keys: Collection[str]) -> tuple[str, ...]:
        """The variants of these that write fastest so far, besides the baseline (analysis.hosted)."""
        with self._lock:
            record = self._folding.record("running")
        return leading(record, keys)

    def finish(self) -> Run:
        """The finished comparison, after the log's last line; it is written beside the log. Votes are the store's
        business from then on."""
        with self._lock:
            self._finished = True
            run: Run = compare(self._folding.record())
            self.folder.write_run(run)
        return run
