"""A run as it looks right now: lanes, stage, progress, and the comparison so far.

Covers the picture and its version; safe to change and to read from any thread. What happens is decided elsewhere.
Reading it never computes a comparison: that is put here between turns.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from optimizers.results import Lane, LiveRun, Run
from optimizers.runners.logs import plain
from optimizers.schema import FINAL_STATUSES, Plan, RunStatus, VariantStatus
from optimizers.votes import Vote

STATUS_STAGES: dict[VariantStatus, str] = {
    "waiting": "waiting",
    "loading": "starting",
    "ready": "ready, waiting for its turn",
    "measured": "measured",
    "skipped": "skipped",
    "not_applied": "not applied",
    "failed": "failed",
    "cancelled": "stopped",
}
SHOWN_CHARACTERS = 20_000


class Live:
    """The picture of one run."""

    def __init__(self, run_id: str, plan: Plan) -> None:
        self._changed = threading.Condition()
        self._judged_at = time.monotonic()
        self._left_s = plan.estimate_s
        self._share = 0.0
        self._id = run_id
        self._version = 1
        self._status: RunStatus = "running"
        self._stage = "waiting for another comparison"
        self._reason: str | None = None
        self._run: Run | None = None
        planned = plan.choice.workload.rounds if plan.choice.workload.seconds is None else 0
        lanes = [_lane(variant.key, variant.title, planned) for variant in plan.variants]
        lanes += [
            replace(_lane(s.key, s.title, 0), status="skipped", stage="skipped", reason=s.obstacle.reason)
            for s in plan.skipped
        ]
        remedies = {skipped.key: skipped.obstacle.remedy for skipped in plan.skipped}
        self._lanes = {lane.key: replace(lane, remedy=remedies.get(lane.key)) for lane in lanes}

    def begin(self) -> None:
        """The wait for other comparisons is over: time counts from here."""
        with self._changed:
            self._judged_at = time.monotonic()

    def stage(self, text: str) -> None:
        """What the run as a whole is doing."""
        with self._changed:
            self._stage = text
            self._bump()

    def lane_stage(self, key: str, text: str) -> None:
        """What this variant's worker is doing."""
        self._lane(key, stage=plain(text)[:200])

    def lane_status(
        self, key: str, status: VariantStatus, reason: str | None = None, remedy: str | None = None
    ) -> None:
        """A variant's status; a final one also ends its turn."""
        with self._changed:
            now = self._lanes[key]
            active = now.active and status not in FINAL_STATUSES
            self._lanes[key] = replace(
                now, status=status, stage=STATUS_STAGES[status], reason=reason, remedy=remedy, active=active
            )
            self._bump()

    def turn(self, key: str, prompt: int) -> None:
        """This variant, and no other, is answering this prompt now."""
        with self._changed:
            for name, lane in self._lanes.items():
                if lane.active:
                    self._lanes[name] = replace(lane, active=False)
            self._lanes[key] = replace(self._lanes[key], active=True, prompt=prompt, text="", stage="answering")
            self._bump()

    def text(self, key: str, text: str) -> None:
        """The answer so far."""
        self._lane(key, text=plain(text)[:SHOWN_CHARACTERS])

    def rest(self, key: str, text: str | None = None) -> None:
        """The turn is over; `text` is the natural answer."""
        with self._changed:
            lane = self._lanes[key]
            shown = lane.text if text is None else plain(text)[:SHOWN_CHARACTERS]
            stage = STATUS_STAGES[lane.status] if lane.status == "ready" else lane.stage
            self._lanes[key] = replace(lane, active=False, text=shown, stage=stage)
            self._bump()

    def counted(self, key: str, turns_done: int, turns_planned: int, tokens_per_s: float | None) -> None:
        """A turn of this variant counts."""
        self._lane(key, turns_done=turns_done, turns_planned=turns_planned, tokens_per_s=tokens_per_s)

    def progress(self, share: float, left_s: float) -> None:
        """This share is done (it never shrinks on the page), and the rest will take about so long, from now."""
        with self._changed:
            self._share = max(self._share, share)
            self._left_s, self._judged_at = left_s, time.monotonic()
            self._bump()

    def compared(self, run: Run) -> None:
        """The comparison so far."""
        with self._changed:
            self._run = run
            self._bump()

    def voted(self, votes: tuple[Vote, ...]) -> None:
        """The votes that count so far."""
        with self._changed:
            if self._run is not None:
                self._run = replace(self._run, votes=votes)
                self._bump()

    def end(self, status: RunStatus, run: Run | None, reason: str | None) -> None:
        """The run is over; the lanes follow the finished comparison."""
        with self._changed:
            self._status, self._reason, self._run = status, reason, run
            self._stage = STAGE_OF_END[status]
            if run is not None:
                self._lanes = {lane.key: settled(lane, run) for lane in self._lanes.values()}
            self._bump()

    def snapshot(self) -> LiveRun:
        """The picture. Cheap."""
        with self._changed:
            going = self._status == "running"
            left = max(0.0, self._left_s - (time.monotonic() - self._judged_at))
            return LiveRun(
                id=self._id,
                version=self._version,
                status=self._status,
                stage=self._stage,
                progress=self._share if going else 1.0,
                time_left_s=left if going else None,
                lanes=tuple(self._lanes.values()),
                run=self._run,
                reason=self._reason,
            )

    def wait(self, version: int, timeout_s: float) -> LiveRun:
        """The picture once it is newer than `version`, at the latest after `timeout_s` seconds. Blocks."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version, timeout_s)
        return self.snapshot()

    @property
    def over(self) -> bool:
        """Has the run ended?"""
        return self._status != "running"

    def _lane(self, key: str, **changes: object) -> None:
        with self._changed:
            self._lanes[key] = replace(self._lanes[key], **changes)  # type: ignore[arg-type]
            self._bump()

    def _bump(self) -> None:
        self._version += 1
        self._changed.notify_all()


STAGE_OF_END: dict[RunStatus, str] = {
    "running": "running in another program",
    "done": "done",
    "cancelled": "stopped",
    "interrupted": "interrupted",
    "failed": "failed",
}


def finished(run: Run) -> LiveRun:
    """A kept run in the shape of one that goes on."""
    lanes = (
        settled(replace(_lane(v.key, v.title, 0), text=v.outputs[0].text if v.outputs else ""), run)
        for v in run.variants
    )
    return LiveRun(
        id=run.id,
        version=1,
        status=run.status,
        stage=STAGE_OF_END[run.status],
        progress=0.0 if run.status == "running" else 1.0,
        time_left_s=None,
        lanes=tuple(lanes),
        run=run,
        reason=run.reason,
    )


def settled(lane: Lane, run: Run) -> Lane:
    """The lane as the finished comparison tells it."""
    for variant in run.variants:
        if variant.key == lane.key:
            latency = variant.latency
            rate = latency.decode_tokens_per_s if latency else None
            return replace(
                lane,
                status=variant.status,
                stage=STATUS_STAGES[variant.status],
                reason=variant.reason,
                remedy=variant.remedy,
                tokens_per_s=rate.median if rate else lane.tokens_per_s,
                turns_done=latency.total_s.n if latency and latency.total_s else lane.turns_done,
                active=False,
            )
    return replace(lane, active=False)


def _lane(key: str, title: str, planned: int) -> Lane:
    return Lane(
        key=key,
        title=title,
        status="waiting",
        stage=STATUS_STAGES["waiting"],
        text="",
        prompt=0,
        tokens_per_s=None,
        turns_done=0,
        turns_planned=planned,
        active=False,
    )
