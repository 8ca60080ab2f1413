"""A run as its log tells it: log lines in, `schema.Record` out.

Covers every order in which lines can arrive, and logs that were cut short; the lines themselves were checked field by
field when they were read. Computes no figure: that is `comparison.py`.

Of the attempts of one turn (variant, round, prompt) the highest counts. Lines before the plan, after the end, about a
variant that the plan does not know or about a prompt that it does not hold are passed over; only votes may come after
the end. A variant that the run left unfinished is settled by what it has: at least one counted sample and a census make
it "measured" (with few rounds), else the command that failed makes it "failed", else it is "cancelled".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from optimizers import protocol
from optimizers.analysis.votes import Ballots
from optimizers.limits import LimitsMeasured, MachineLimits
from optimizers.profiles import RequestProfile
from optimizers.schema import (
    FINAL_STATUSES,
    Census,
    Cost,
    Measurement,
    Memory,
    Obstacle,
    Output,
    Plan,
    Record,
    RunStatus,
    Sample,
    Variant,
    VariantStatus,
)
from optimizers.scores import PassageScores, StretchScore
from optimizers.votes import Vote, Voted

NO_PROOF = Obstacle(
    "This variant ended without both a timed sample and a census of the loaded model, so nothing proves what ran.",
    "Run the comparison again.",
)
UNFINISHED = Obstacle("The run ended before this variant was measured.", "Run the comparison again.")


class _Turns:
    """Samples in order of arrival; the earlier attempts of a turn are marked as they are overtaken."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._last: dict[tuple[int, int], int] = {}

    def add(self, sample: Sample) -> None:
        turn = (sample.round, sample.prompt)
        rival = self._last.get(turn)
        if rival is not None and sample.attempt < self.samples[rival].attempt:
            self.samples.append(replace(sample, superseded=True))
            return
        if rival is not None:
            self.samples[rival] = replace(self.samples[rival], superseded=True)
        self._last[turn] = len(self.samples)
        self.samples.append(sample)

    @property
    def count(self) -> int:
        """How many samples count."""
        return sum(not sample.superseded for sample in self.samples)


@dataclass
class _Draft:
    """What is known of one variant so far."""

    status: VariantStatus = "waiting"
    reason: str | None = None
    remedy: str | None = None
    cost: Cost | None = None
    census: Census | None = None
    memory: Memory | None = None
    obstacle: Obstacle | None = None
    failure: Obstacle | None = None
    turns: _Turns = field(default_factory=_Turns)
    loaded: _Turns = field(default_factory=_Turns)
    outputs: dict[int, Output] = field(default_factory=dict)
    scores: dict[str, PassageScores] = field(default_factory=dict)
    stretches: dict[str, StretchScore] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    log_tail: tuple[str, ...] = ()
    profile: RequestProfile | None = None


class Folding:
    """A log being read line by line; `record()` may be asked for at any point after the plan. `votes` are
    those that came so far."""

    def __init__(self) -> None:
        self._planned: protocol.Planned | None = None
        self._ended: protocol.Ended | None = None
        self._drafts: dict[str, _Draft] = {}
        self._replica = _Turns()
        self._loaded_replica = _Turns()
        self._notes: dict[str, None] = {}
        self._limits: MachineLimits | None = None
        self.votes = Ballots()

    def add(self, line: protocol.LogLine) -> None:
        """Take one more line. The work does not grow with the lines before it."""
        event = line.event
        if self._planned is None:
            if isinstance(event, protocol.Planned):
                self._planned = event
                self._drafts = {variant.key: _Draft() for variant in event.plan.variants}
        elif isinstance(event, Voted):
            self._voted(event.vote)
        elif self._ended is not None:
            return
        elif isinstance(event, protocol.Ended):
            self._ended = event
        elif line.variant is None:
            if isinstance(event, protocol.Noted):
                self._notes[event.text] = None
            elif isinstance(event, LimitsMeasured):
                self._limits = event.limits
        elif line.variant in self._drafts:
            self._about(line.variant, event, line.replica)

    def record(self, unended: RunStatus = "interrupted") -> Record:
        """The run so far. A log without an end counts as `unended`: "interrupted", or "running" for one that is being
        written, whose unfinished variants then keep their live status. Raises ValueError when no plan came."""
        if self._planned is None:
            raise ValueError("the log of this run holds no plan")
        status = self._ended.status if self._ended else unended
        plan = self._planned.plan
        live = status == "running"
        measured = [_measurement(variant, self._drafts[variant.key], live) for variant in plan.variants]
        return Record(
            id=self._planned.run_id,
            created_at=self._planned.created_at,
            status=status,
            plan=plan,
            measurements=(*measured, *_skipped(plan)),
            replica_samples=tuple(self._replica.samples),
            loaded_replica_samples=tuple(self._loaded_replica.samples),
            reason=self._ended.reason if self._ended else None,
            notes=tuple(self._notes),
            limits=self._limits,
            votes=self.votes.counted,
        )

    def _about(self, key: str, event: Any, replica: bool) -> None:
        if isinstance(event, protocol.SampleTaken):
            self._sample(key, event, replica)
        elif not replica and type(event) in _TAKERS:
            _TAKERS[type(event)](self._drafts[key], event)

    def _voted(self, vote: Vote) -> None:
        assert self._planned is not None
        plan = self._planned.plan
        known = vote.variant in self._drafts and vote.variant != plan.baseline
        if known and 0 <= vote.prompt < len(plan.choice.workload.prompts):
            self.votes.add(vote)

    def _sample(self, key: str, event: protocol.SampleTaken, replica: bool) -> None:
        assert self._planned is not None
        plan = self._planned.plan
        sample = event.sample
        known = 0 <= sample.prompt < len(plan.choice.workload.prompts) and sample.round >= 0
        if sample.variant != key or not known:
            return
        if replica or sample.replica:
            if key == plan.baseline:
                turns = self._replica if sample.load == "none" else self._loaded_replica
                turns.add(replace(sample, replica=True))
            return
        draft = self._drafts[key]
        if sample.load != "none":
            draft.loaded.add(sample)
            return
        draft.turns.add(sample)
        if event.output.prompt == sample.prompt:
            draft.outputs.setdefault(sample.prompt, event.output)


def fold(lines: Iterable[protocol.LogLine]) -> Record:
    """The run that `lines` tell. Raises ValueError when they hold no plan."""
    folding = Folding()
    for line in lines:
        folding.add(line)
    return folding.record()


def _status(draft: _Draft, event: protocol.StatusChanged) -> None:
    draft.status, draft.reason, draft.remedy = event.status, event.reason, event.remedy
    draft.log_tail = event.log_tail or draft.log_tail


def _loaded(draft: _Draft, event: protocol.Loaded) -> None:
    draft.cost = draft.cost or event.cost  # a later load of the same variant finds warm caches
    draft.notes.update(dict.fromkeys(event.notes))


def _warmed_up(draft: _Draft, event: protocol.WarmedUp) -> None:
    if draft.cost is None:
        draft.cost = Cost(load_s=0.0, prepare_s=0.0, warm_up_s=event.warm_up_s)
    elif draft.cost.warm_up_s == 0.0:
        draft.cost = replace(draft.cost, warm_up_s=event.warm_up_s)


def _scored(draft: _Draft, event: protocol.Scored) -> None:
    draft.scores.update({scores.name: scores for scores in event.scores})


def _text_scored(draft: _Draft, event: protocol.TextScored) -> None:
    draft.stretches.update({score.name: score for score in event.scores})


def _census(draft: _Draft, event: protocol.CensusTaken) -> None:
    draft.census, draft.obstacle = event.census, event.obstacle


def _memory(draft: _Draft, event: protocol.MemoryTaken) -> None:
    draft.memory = event.memory


def _profiled(draft: _Draft, event: protocol.Profiled) -> None:
    draft.profile = event.profile


def _noted(draft: _Draft, event: protocol.Noted) -> None:
    draft.notes[event.text] = None


def _failed(draft: _Draft, event: protocol.Failed) -> None:
    draft.failure = Obstacle(event.reason, event.remedy)


_TAKERS: dict[type, Callable[[_Draft, Any], None]] = {
    protocol.StatusChanged: _status,
    protocol.Loaded: _loaded,
    protocol.WarmedUp: _warmed_up,
    protocol.Scored: _scored,
    protocol.TextScored: _text_scored,
    protocol.CensusTaken: _census,
    protocol.MemoryTaken: _memory,
    protocol.Profiled: _profiled,
    protocol.Noted: _noted,
    protocol.Failed: _failed,
}


def _measurement(variant: Variant, draft: _Draft, live: bool) -> Measurement:
    status, obstacle = _settle(draft, live)
    if obstacle is None and status != "measured":  # what was measured after all needs no reason
        obstacle = Obstacle(draft.reason or "", draft.remedy or "")
    return Measurement(
        variant=variant.key,
        title=variant.title,
        techniques=variant.techniques,
        status=status,
        reason=obstacle.reason or None if obstacle else None,
        remedy=obstacle.remedy or None if obstacle else None,
        census=draft.census,
        cost=draft.cost,
        memory=draft.memory,
        samples=tuple(draft.turns.samples),
        loaded_samples=tuple(draft.loaded.samples),
        outputs=tuple(draft.outputs[prompt] for prompt in sorted(draft.outputs)),
        scores=tuple(draft.scores.values()),
        notes=tuple(draft.notes),
        log_tail=draft.log_tail,
        stretches=tuple(draft.stretches.values()),
        profile=draft.profile,
    )


def _settle(draft: _Draft, live: bool) -> tuple[VariantStatus, Obstacle | None]:
    """The status, and the reason and remedy where those of the last status line are not the ones to show."""
    proven = draft.census is not None and draft.turns.count > 0
    if draft.status == "failed":
        return "failed", None if draft.reason else draft.failure
    if draft.obstacle is not None:  # whatever else was said: what was not applied is never shown as if it were
        return "not_applied", draft.obstacle
    if draft.status in ("not_applied", "skipped"):
        return draft.status, None
    if proven:
        return "measured", None
    if live and draft.status not in FINAL_STATUSES:
        return draft.status, None
    if draft.status == "measured":
        return "failed", draft.failure or NO_PROOF
    if draft.failure:
        return "failed", draft.failure
    return "cancelled", None if draft.reason else UNFINISHED


def _skipped(plan: Plan) -> list[Measurement]:
    return [
        Measurement(
            variant=skipped.key,
            title=skipped.title,
            techniques=skipped.techniques,
            status="skipped",
            reason=skipped.obstacle.reason,
            remedy=skipped.obstacle.remedy,
        )
        for skipped in plan.skipped
    ]
