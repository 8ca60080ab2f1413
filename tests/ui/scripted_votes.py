"""The scripted api with votes: kept in memory, held to the rules of the real store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from scripted import Script

from optimizers.analysis.votes import Ballots
from optimizers.results import Run
from optimizers.schema import RunStatus
from optimizers.store import check_vote
from optimizers.votes import Vote


class VotingScript(Script):
    """Of its three measured variants one answers as the baseline does, so there are three pairs to judge."""

    def __init__(self, hostile: bool = False, length_s: float = 4.0, stills: bool = False) -> None:
        super().__init__(hostile, length_s, stills)
        self.ballots: defaultdict[str, Ballots] = defaultdict(Ballots)

    def run(self, run_id: str, status: RunStatus) -> Run:
        return replace(super().run(run_id, status), votes=self.ballots[run_id].counted)

    def votable(self, run_id: str) -> None:
        self.watch(run_id)

    def vote(self, run_id: str, vote: Vote) -> None:
        check_vote(self.load(run_id), vote, self.ballots[run_id].cast)
        self.ballots[run_id].add(vote)
