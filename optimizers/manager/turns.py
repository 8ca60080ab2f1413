"""Turns: who goes when in a round, how much of its threads a turn got, and how long things will still take.

Pure, but for `Pace`, which remembers durations. Taking the turns is the conductor's business.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Sequence
from typing import TypeVar

from optimizers.schema import Plan, Timing

ENOUGH_SHARE = 0.95
ATTEMPTS = 3
TICK_S = 0.01

T = TypeVar("T")


def shuffled(members: Sequence[T], seed: int, number: int) -> list[T]:
    """The order of round `number`: the same for the same seed, on every machine."""
    order = list(members)
    random.Random(f"{seed}:{number}").shuffle(order)
    return order


def processor_share(timing: Timing, usable_cores: int) -> float:
    """The part of its threads that a request got, between 0 and 1.

    Lost are the seconds that its threads waited for a core, or what others used beyond the cores that it leaves free,
    whichever is more. Others' time is counted by the system in ticks of a hundredth of a second on each core, so one
    tick a core is not held against anybody. What the system does not tell counts as nothing lost."""
    asked = timing.threads * timing.total_s
    if asked <= 0:
        return 1.0
    spare = max(0, usable_cores - timing.threads) * timing.total_s + usable_cores * TICK_S
    lost = max(timing.waited_s or 0.0, (timing.others_s or 0.0) - spare)
    return min(1.0, max(0.0, 1.0 - lost / asked))


class Pace:
    """How long the parts took so far, and from that how long the rest will take. Seconds; safe in any thread.

    A member is named by its variant's key, the baseline's second process by a name of its own."""

    def __init__(self, plan: Plan, names: Sequence[str], kept: int = 0, after_s: float = 0.0) -> None:
        """`kept` is how long what comes after the rounds of each variant takes, in rounds, and `after_s` the seconds
        of what comes at the very end."""
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._names = tuple(names)
        self._budget = plan.choice.workload.seconds
        self._rounds = plan.choice.workload.rounds
        self._planned_s = max(0.0, plan.estimate_s - after_s)
        self._planned_turns = len(names) * self._rounds + kept * len(plan.variants)
        self._kept = {variant.key: kept for variant in plan.variants}
        self._after_s = after_s
        self._out: set[str] = set()
        self._prepared: set[str] = set()
        self._answered_first = False
        self._over_at: float | None = None
        self._turns: dict[str, list[float]] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def answered_first(self) -> None:
        """The baseline has loaded and answered: half of its preparation."""
        with self._lock:
            self._answered_first = True

    def prepared(self, name: str, fit: bool) -> None:
        """A member is ready for its turns, or out."""
        with self._lock:
            self._prepared.add(name)
            if not fit:
                self._out.add(name)

    def out(self, name: str) -> None:
        """A member takes no more turns."""
        with self._lock:
            self._out.add(name)

    def keeps(self, name: str, rounds: int) -> None:
        """What is still to come after the rounds of this variant takes as long as so many of them."""
        with self._lock:
            if name in self._kept:
                self._kept[name] = rounds

    def took(self, name: str, seconds: float) -> None:
        """One turn took so long, repetitions included."""
        with self._lock:
            self._turns.setdefault(name, []).append(seconds)

    def rounds_over(self, after_s: float) -> None:
        """No more rounds are played; what comes after them takes about so long."""
        with self._lock:
            self._over_at = self.elapsed_s + after_s

    def round_s(self, names: Sequence[str]) -> float:
        """What one round of these members takes."""
        with self._lock:
            return sum(self._turn_s(name) for name in names)

    def ending_s(self, names: Sequence[str]) -> float:
        """What comes after the rounds of these members."""
        with self._lock:
            return self._ending_s(names)

    def left_s(self) -> float:
        """What everything that is left will take; under a budget at the most."""
        with self._lock:
            return self._left_s()

    def share_done(self) -> float:
        """The share of the work that is done, between 0 and 1: preparations and turns by what was planned for them, or,
        under a budget, the time spent of all that it will take."""
        with self._lock:
            if self._budget is not None:
                spent = self.elapsed_s
                return min(0.99, spent / max(spent + self._left_s(), 1e-9))
            ready = len(self._prepared) / len(self._names)
            if self._answered_first and not self._prepared:
                ready = 0.5 / len(self._names)
            turns = [self._rounds if name in self._out else len(self._turns.get(name, ())) for name in self._names]
            return min(0.99, 0.5 * ready + 0.5 * sum(turns) / (self._rounds * len(self._names)))

    def _left_s(self) -> float:
        waiting = [name for name in self._names if name not in self._prepared]
        spent = self.elapsed_s - sum(sum(turns) for turns in self._turns.values())
        each = spent / len(self._prepared) if self._prepared else 0.5 * self._planned_s / len(self._names)
        if self._over_at is not None:
            return max(0.0, self._over_at - self.elapsed_s)
        if self._budget is not None:
            return max(self._budget - self.elapsed_s, each * len(waiting))
        turns = 0.0
        for name in self._names:
            if name not in self._out:
                turns += self._turn_s(name) * max(0, self._rounds - len(self._turns.get(name, ())))
        return each * len(waiting) + turns + self._ending_s(self._names)

    def _ending_s(self, names: Sequence[str]) -> float:
        going = [name for name in names if name not in self._out]
        return self._after_s + sum(self._kept.get(name, 0) * self._turn_s(name) for name in going)

    def _turn_s(self, name: str) -> float:
        """What a turn of this member takes: its own median, else everybody's, else what was planned."""
        if name in self._turns:
            return statistics.median(self._turns[name])
        if self._turns:
            return statistics.median(value for values in self._turns.values() for value in values)
        return 0.5 * self._planned_s / self._planned_turns
