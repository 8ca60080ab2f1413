"""As hosted: the leading variants answer again while another program keeps one processor core busy.

Covers these rounds. Their samples are marked and never count among the ordinary ones. A turn is taken once, as it
comes: being disturbed is what it is about. Who leads, and what came out, is `analysis/hosted.py`'s business.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

from optimizers import protocol
from optimizers.busy import LOADED_ROUNDS
from optimizers.errors import WorkerError
from optimizers.manager.asking import ask
from optimizers.manager.board import Board
from optimizers.manager.member import Member
from optimizers.manager.turns import Pace, shuffled
from optimizers.runners.busy_core import BusyCore

Guard = Callable[[Member, Callable[[Member], bool]], bool]


class HostedRounds:
    """Plays these rounds. `guarded` runs a member's part and turns its failure into a row, not an end."""

    def __init__(self, board: Board, pace: Pace, guarded: Guard) -> None:
        self._board = board
        self._work = board.plan.choice.workload
        self._pace = pace
        self._guarded = guarded

    def play(self, members: Sequence[Member], after_s: float) -> None:
        """Rounds of these members with one core busy; what comes after them takes about `after_s`. Where nothing can
        keep a core busy that is said, and the run goes on.

        Raises Cancelled, and WorkerError when the baseline fails."""
        self._board.must_go_on()
        try:
            core = BusyCore()
        except WorkerError as error:
            self._board.say(None, protocol.Noted(f"Nothing was timed with one core busy. {error}"))
            return
        with core:
            self._rounds(members, after_s)

    def _rounds(self, members: Sequence[Member], after_s: float) -> None:
        turns = [(number, member) for number in range(LOADED_ROUNDS) for member in self._order(members, number)]
        took: list[float] = []
        for place, (number, member) in enumerate(turns, 1):
            self._board.must_go_on()
            self._board.live.stage(f"one core busy: round {number + 1} of {LOADED_ROUNDS}")
            began = time.monotonic()
            if member.alive and self._guarded(member, partial(self._turn, number)):
                took.append(time.monotonic() - began)
            left_s = (len(turns) - place) * (statistics.median(took) if took else 0.0)
            self._board.live.progress(self._pace.share_done(), left_s + after_s)

    def _order(self, members: Sequence[Member], number: int) -> list[Member]:
        """Shuffled, and not as the ordinary round of that number was."""
        return shuffled(members, self._work.seed, -1 - number)

    def _turn(self, number: int, member: Member) -> bool:
        """One request with a core busy."""
        ask(self._board, member, number, load="one_busy_core")
        return True
