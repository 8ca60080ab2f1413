"""How often a page asks while a run goes on, and that two tabs on the same moment are not drawn twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr
import pytest
from scripted import Script

from optimizers.results import Lane, LiveRun
from optimizers.ui import drawn, handlers, lanes, watching


def lane(key: str, **changes: Any) -> Lane:
    made = Lane(key, key, "loading", "answering", "", 0, None, 0, 6, False)
    return replace(made, **changes)


def live(*shown: Lane, version: int = 7) -> LiveRun:
    return LiveRun("run-1", version, "running", "round 1 of 6", 0.1, 30.0, shown, None)


def polled(monkeypatch: pytest.MonkeyPatch, moment: LiveRun, seen: str = "") -> tuple[Any, ...]:
    monkeypatch.setattr("optimizers.api.watch", lambda run_id: moment)
    return watching.poll(moment.id, seen)


@pytest.mark.parametrize(
    ("shown", "interval_s"),
    [
        ((lane("a"), lane("b", status="waiting")), 0.5),
        ((lane("a", active=True), lane("b", status="waiting")), 0.5),  # its recorded answer: not timed
        ((lane("a", status="ready"), lane("b")), 10.0),
        ((lane("a", status="ready", active=True), lane("b", status="ready")), 10.0),  # the first timed turn
        ((lane("a", status="ready", turns_done=1), lane("b", status="ready", active=True)), 10.0),
        ((lane("a", status="measured", turns_done=6), lane("b")), 10.0),  # one at a time: the second loads
    ],
)
def test_once_timed_turns_may_come_the_page_asks_gradio_now_and_then_only(
    shown: tuple[Lane, ...], interval_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = polled(monkeypatch, live(*shown))[5]
    assert isinstance(timer, gr.Timer)
    assert (timer.value, timer.active) == (interval_s, True)


def test_nothing_is_drawn_for_a_moment_that_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = live(lane("a", status="ready"))
    seen = polled(monkeypatch, moment)[6]
    again = polled(monkeypatch, moment, seen)
    assert len(again) == 8
    assert all(update == gr.skip() for update in again)


def test_two_tabs_on_the_same_moment_cost_one_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    versions: list[int] = []

    def counted(moment: LiveRun) -> str:
        versions.append(moment.version)
        return lanes.lanes(moment)

    monkeypatch.setattr(drawn, "LANES", drawn.Drawn(counted))
    moment = live(lane("a", status="ready", text="word"), version=8)
    first, second = (polled(monkeypatch, moment)[1] for _ in range(2))
    assert first == second and "word" in first
    later = polled(monkeypatch, live(lane("a", status="ready", text="word by word"), version=9))[1]
    assert "word by word" in later
    assert versions == [8, 9]
    polled(monkeypatch, replace(moment, id="run-2"))
    assert versions == [8, 9, 8]


def test_two_runs_that_stand_at_the_same_version_are_not_taken_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(stills=True)
    tables = [polled(monkeypatch, script.watch(run))[3] for run in ("between", "done", "ladder")]
    assert "Results so far" in tables[0] and "Results so far" not in tables[1]
    assert "This step" in tables[2] and "This step" not in tables[1]


def test_another_model_leaves_ticks_alone_but_for_what_it_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    monkeypatch.setattr("optimizers.api.techniques", script.techniques)
    rows = script.techniques().techniques
    boxes = handlers.techniques_for("smollm2-135m", rows)[::2]
    told = {row.id: box.constructor_args for row, box in zip(rows, boxes, strict=True)}
    assert told["bf16"] == {"interactive": True}
    assert told["bnb_nf4"] == {"interactive": False, "value": False}


def test_a_race_is_offered_once_all_have_answered_and_then_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(stills=True)
    early, late = script.watch("loading"), replace(script.watch("between"), version=2)
    nothing = polled(monkeypatch, early)
    assert early.run is None and nothing[2] == gr.skip()
    first = polled(monkeypatch, late, nothing[6])
    assert "Race them" in first[2]
    assert polled(monkeypatch, replace(late, version=late.version + 1), first[6])[2] == gr.skip()
    assert polled(monkeypatch, replace(late, version=late.version + 2, status="done"), first[6])[2] == ""
