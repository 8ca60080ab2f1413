"""Whose verdict on decoding speed is settled while a run goes on, and who therefore plays in a round.

Covers remembering the samples and asking the rule (`analysis/effort.py`), between rounds, never while a turn runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizers.analysis import effort, requests
from optimizers.schema import Sample

EVERY = 3


class Settling:
    """The baseline and its second process are held to nothing: they play in every round, so that pairs are whole."""

    def __init__(self, baseline: str, alone: bool = False) -> None:
        """`alone` says that nobody but the baseline was to be measured: then nothing is ever over."""
        self._baseline = baseline
        self._alone = alone
        self._looked = False
        self._rounds: dict[tuple[str, bool], dict[int, Sample]] = {}
        self._judged: tuple[str, ...] = ()
        self._settled: frozenset[str] = frozenset()

    def took(self, sample: Sample) -> None:
        """The sample of a turn, the last of its attempts."""
        self._of(sample.variant, sample.replica).update(requests.counted([sample]))

    def look(self, playing: Sequence[str]) -> None:
        """Judge those who still play, by key. What was settled may be so no more: the floor and the machine drift."""
        self._looked = True
        base, again = self._of(self._baseline), self._of(self._baseline, True)
        self._judged = tuple(dict.fromkeys(key for key in playing if key != self._baseline))
        self._settled = frozenset(key for key in self._judged if effort.settled(self._of(key), base, again))

    @property
    def judged(self) -> int:
        """How many verdicts there are to settle."""
        return len(self._judged)

    @property
    def open(self) -> tuple[str, ...]:
        """Those that are not settled, in the order of the plan."""
        return tuple(key for key in self._judged if key not in self._settled)

    @property
    def over(self) -> bool:
        """Whether all that there was to settle is, or is out."""
        return self._looked and not self._alone and not self.open

    def share(self, key: str) -> float:
        """The part of the coming rounds that this one plays in."""
        return 1 / EVERY if key in self._settled else 1.0

    def has_turn(self, key: str, number: int) -> bool:
        """Whether this one plays in round `number`: everybody does but the settled, who play in one of three rounds.

        It is another of the three each time, so that they do not meet the same prompt for ever, and the same for all
        of them, so that they can be held against each other: by the steps of a ladder, by promises."""
        return key not in self._settled or number % EVERY == number // EVERY % EVERY

    def _of(self, key: str, replica: bool = False) -> dict[int, Sample]:
        return self._rounds.setdefault((key, replica), {})
