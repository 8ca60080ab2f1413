"""The timed part: rounds of turns, one request each, disturbed ones repeated.

Covers who answers what, and the samples. While a turn runs nothing else of this program computes; what has to be
computed is computed between rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from optimizers import protocol
from optimizers.errors import Cancelled
from optimizers.manager.board import Board
from optimizers.manager.member import Member
from optimizers.manager.turns import ATTEMPTS, ENOUGH_SHARE, Pace, processor_share, shuffled
from optimizers.schema import Sample, Timing
from optimizers.settings import MAX_ROUNDS

Guard = Callable[[Member, Callable[[Member], bool]], bool]


class Rounds:
    """Plays rounds. `guarded` runs a member's part and turns its failure into a row, not an end; `kept` is the time
    for what comes after, in rounds, that is kept from a budget."""

    def __init__(self, board: Board, pace: Pace, guarded: Guard, kept: int = 0) -> None:
        self._board = board
        self._work = board.plan.choice.workload
        self._pace = pace
        self._guarded = guarded
        self._kept = kept
        self._rates: dict[str, list[float]] = {}
        self._most = self._work.rounds if self._work.seconds is None else MAX_ROUNDS

    def play(self, members: Sequence[Member], share: float = 1.0) -> None:
        """Rounds of these members until the number asked for, or until `share` of the budget is spent.

        A round is only begun when it should fit, and then played to its end, so that every pair is whole; the first
        is always played. Those who play later play at most as many as the first did."""
        done = 0
        while done < self._most and (done == 0 or self._fits(members, share)):
            self._round(members, done)
            done += 1
            self._board.compare_so_far()
        self._most = min(self._most, done)

    def _fits(self, members: Sequence[Member], share: float) -> bool:
        if not any(member.alive for member in members):
            return False
        if self._work.seconds is None:
            return True
        names = [member.name for member in members if member.alive]
        needed = self._pace.round_s(names) * (1 + self._kept)
        return self._pace.elapsed_s + needed <= self._work.seconds * share

    def _round(self, members: Sequence[Member], number: int) -> None:
        of = f" of {self._most}" if self._work.seconds is None else ""
        self._board.live.stage(f"round {number + 1}{of}")
        for member in shuffled(members, self._work.seed, number):
            if self._board.stopped.is_set():
                raise Cancelled("The comparison was stopped.")
            if member.alive:
                began = time.monotonic()
                if self._guarded(member, lambda member: self._turn(member, number)):
                    self._pace.took(member.name, time.monotonic() - began)
                self._board.live.progress(self._pace.share_done(), self._pace.left_s())

    def _turn(self, member: Member, number: int) -> bool:
        """One request, repeated when others took the processor; each attempt is kept, the last one counts."""
        prompt = number % len(self._work.prompts)
        if not member.replica:
            self._board.live.turn(member.key, prompt)
        for attempt in range(ATTEMPTS):
            answered = member.run(self._work.prompts[prompt], self._work.max_new_tokens)
            share = processor_share(answered.timing, self._board.plan.machine.usable_cores)
            again = share < ENOUGH_SHARE and attempt + 1 < ATTEMPTS
            sample = Sample(
                variant=member.key,
                replica=member.replica,
                round=number,
                prompt=prompt,
                attempt=attempt,
                timing=answered.timing,
                processor_share=share,
                disturbed=share < ENOUGH_SHARE,
                superseded=again,
            )
            output = replace(answered.output, prompt=prompt)
            self._board.say(member.key, protocol.SampleTaken(sample, output), member.replica)
            if not again:
                break
        self._show(member, number, answered)
        return True

    def _show(self, member: Member, number: int, answered: protocol.Answered) -> None:
        """The answer and the speed so far, in the member's lane."""
        if member.replica:
            return
        rates = self._rates.setdefault(member.key, [])
        rates += _rate(answered.timing)
        planned = self._most if self._work.seconds is None else number + 1
        self._board.live.rest(member.key, answered.output.text)
        self._board.live.counted(member.key, number + 1, planned, statistics.median(rates) if rates else None)


def _rate(timing: Timing) -> list[float]:
    """Decoded tokens per second, if the request can carry it: it takes two tokens."""
    times = timing.token_times_s
    return [(len(times) - 1) / (times[-1] - times[0])] if len(times) > 1 and times[-1] > times[0] else []
