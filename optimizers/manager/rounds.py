"""The timed part: rounds of turns, one request each, disturbed ones repeated.

Covers who answers what, the samples, and when the rounds are over. A number of rounds is played by everybody. Under a
time budget, where all are loaded, rounds go on until every verdict on decoding speed is settled or the budget is spent,
and the settled variants play in one round of three; where they run one after another, each has its share of the budget
and none is settled early, since A' comes last. While a turn runs nothing else of this program computes; what has to be
computed is computed between rounds.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

from optimizers import protocol
from optimizers.analysis import requests
from optimizers.manager.asking import ask
from optimizers.manager.board import Board
from optimizers.manager.member import Member
from optimizers.manager.settling import Settling
from optimizers.manager.turns import ATTEMPTS, Pace, shuffled
from optimizers.schema import Sample
from optimizers.settings import MAX_ROUNDS

Guard = Callable[[Member, Callable[[Member], bool]], bool]


class Rounds:
    """Plays rounds. `guarded` runs a member's part and turns its failure into a row, not an end; `pace` knows the time
    for what comes after, which is kept from a budget."""

    def __init__(self, board: Board, pace: Pace, guarded: Guard) -> None:
        self._board = board
        self._work = board.plan.choice.workload
        self._pace = pace
        self._guarded = guarded
        self._rates: dict[str, list[float]] = {}
        self._turns: dict[str, int] = {}
        self._coming = 0
        self._settling = Settling(board.plan.baseline, alone=len(board.plan.variants) == 1)
        self._adapts = self._work.seconds is not None and board.plan.resident
        self._most = self._work.rounds if self._work.seconds is None else MAX_ROUNDS

    def play(self, members: Sequence[Member], share: float = 1.0) -> None:
        """Rounds of these members until the number asked for, until every verdict on decoding speed is settled or no
        variant is left to judge, or until `share` of the budget is spent.

        A round is only begun when it should fit, and then played to its end, so that every pair is whole; the first
        is always played. Those who play later play at most as many as the first did."""
        done = 0
        while done < self._most and (done == 0 or self._goes_on(members, done, share)):
            self._expect(members, done, share)
            self._round(members, done)
            done += 1
            self._board.compare_so_far()
            if self._adapts:
                self._settling.look([member.key for member in members if member.alive])
        self._most = min(self._most, done)
        self._close(members, done)

    def _goes_on(self, members: Sequence[Member], done: int, share: float) -> bool:
        """Whether another round is to be played after so many."""
        if not any(member.alive for member in members) or self._settling.over:
            return False
        if self._work.seconds is None:
            return True
        coming = [member.name for member in members if self._plays(member, done)]
        return self._pace.round_s(coming) <= self._left_s(members, share)

    def _left_s(self, members: Sequence[Member], share: float) -> float:
        """Seconds of the budget that are left for rounds."""
        return (self._work.seconds or 0.0) * share - self._pace.elapsed_s - self._ending_s(members)

    def _ending_s(self, members: Sequence[Member]) -> float:
        """Seconds of what comes after the rounds."""
        return self._pace.ending_s([member.name for member in members if member.alive])

    def _plays(self, member: Member, number: int) -> bool:
        return member.alive and self._settling.has_turn(member.key, number)

    def _expect(self, members: Sequence[Member], number: int, share: float) -> None:
        """How many rounds are still to come, this one included, for the lanes; under a budget at the most."""
        self._coming = self._most - number
        if self._work.seconds is not None:
            a_round = self._pace.round_s([member.name for member in members if member.alive])
            fitting = math.floor(self._left_s(members, share) / a_round) if a_round > 0 else 1
            self._coming = min(self._coming, max(1, fitting))

    def _round(self, members: Sequence[Member], number: int) -> None:
        self._board.live.stage(self._stage(number))
        for member in shuffled(members, self._work.seed, number):
            self._board.must_go_on()
            if self._plays(member, number):
                began = time.monotonic()
                if self._guarded(member, lambda member: self._turn(member, number)):
                    self._pace.took(member.name, time.monotonic() - began)
                self._board.live.progress(self._pace.share_done(), self._pace.left_s())

    def _turn(self, member: Member, number: int) -> bool:
        """One request, repeated when others took the processor; each attempt is kept, the last one counts."""
        for attempt in range(ATTEMPTS):
            sample = ask(self._board, member, number, attempt, ATTEMPTS)
            if not sample.superseded:
                break
        self._settling.took(sample)
        if not member.replica:
            self._show(member, sample)
        return True

    def _show(self, member: Member, sample: Sample) -> None:
        """The turns and the speed so far, in the member's lane."""
        rate = requests.decode_tokens_per_s(sample.timing)
        self._rates.setdefault(member.key, []).extend([] if rate is None else [rate])
        self._turns[member.key] = self._turns.get(member.key, 0) + 1
        self._count(member, math.ceil((self._coming - 1) * self._settling.share(member.key)))

    def _count(self, member: Member, more: int) -> None:
        """The turns of this member: those that it had, and so many more to come."""
        rates, turns = self._rates.get(member.key), self._turns.get(member.key, 0)
        self._board.live.counted(member.key, turns, turns + more, statistics.median(rates) if rates else None)

    def _stage(self, number: int) -> str:
        if self._work.seconds is None:
            return f"round {number + 1} of {self._most}"
        judged = self._settling.judged
        settled = judged - len(self._settling.open)
        return f"round {number + 1}" + (f", {settled} of {judged} verdicts on decoding speed settled" if judged else "")

    def _close(self, members: Sequence[Member], done: int) -> None:
        """The rounds are over: under a budget, why, in words."""
        if self._work.seconds is None:
            return
        for member in members:
            if member.alive and not member.replica:
                self._count(member, 0)
        if self._adapts:
            why = _why_over(done, self._pace.elapsed_s, self._work.seconds, self._settling)
            self._board.say(None, protocol.Noted(why))
            self._pace.rounds_over(self._ending_s(members))
            self._board.live.progress(self._pace.share_done(), self._pace.left_s())


def _why_over(done: int, elapsed_s: float, budget_s: float, settling: Settling) -> str:
    """Why the rounds under a budget ended, as a sentence."""
    after = f"after {done} {'round' if done == 1 else 'rounds'}, {elapsed_s:.0f} s of {budget_s:g} s"
    if settling.over and not settling.judged:
        return f"The rounds ended {after}: no variant was left to hold against the baseline."
    if settling.over:
        return f"Every verdict on decoding speed was settled {after}, so no more were played."
    why = "no run has more" if done == MAX_ROUNDS else "another would not have fit"
    still = f"; not settled by then: {', '.join(settling.open)}" if settling.open else ""
    return f"The rounds ended {after}: {why}{still}."
