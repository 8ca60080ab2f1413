"""Whole comparisons under a time budget, by real workers on a tiny checkpoint whose clocks are set, so that what is
settled and what is not is certain: the early end, the turns of each, the first table, the budget, the stop."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import manager_help as help_
import pytest

from optimizers import protocol
from optimizers.manager import Manager, machine_limits
from optimizers.manager import rounds as rounds_module
from optimizers.manager.live import Live
from optimizers.manager.member import Member
from optimizers.planning import predictions
from optimizers.results import Run
from optimizers.store import Store

BASE, BF16, EAGER = "fp32+sdpa", "bf16+sdpa", "fp32+eager"
STEPS = {BASE: (0.02,), BF16: (0.01,), EAGER: (0.005, 0.08)}  # seconds a token, by turns; the last is never settled
LONG_S = 600.0


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Sets the clocks of all answers; gives the comparisons that were shown, in their order."""
    answers: dict[str, int] = defaultdict(int)
    shown: list[Run] = []
    run, compared = Member.run, Live.compared

    def clocked(member: Member, *asked: Any) -> protocol.Answered:
        answered, steps = run(member, *asked), STEPS[member.key]
        step = steps[answers[member.name] % len(steps)]
        answers[member.name] += 1
        times = tuple(0.1 + step * place for place in range(len(answered.timing.token_times_s)))
        timing = replace(
            answered.timing, ttft_s=0.1, token_times_s=times, total_s=times[-1], waited_s=0.0, others_s=0.0
        )
        return replace(answered, timing=timing)

    def seen(live: Live, found: Run) -> None:
        shown.append(found)
        compared(live, found)

    monkeypatch.setattr(Member, "run", clocked)
    monkeypatch.setattr(Live, "compared", seen)
    return shown


def turns(store: Store, run_id: str) -> dict[str, list[int]]:
    """The rounds in which each process had a turn."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in help_.events(store.folder(run_id)):
        if line["event"]["kind"] == "sample_taken":
            found[f"{line['variant']} again" if line["replica"] else line["variant"]].append(
                line["event"]["sample"]["round"]
            )
    return found


def samples(run: Run) -> list[int]:
    """How many samples of each variant count, in the order of the plan."""
    latencies = [variant.latency for variant in run.variants]
    return [latency.total_s.n if latency and latency.total_s else 0 for latency in latencies]


def test_a_run_ends_when_every_verdict_is_settled(
    manager: Manager, store: Store, tiny_llama: Path, tables: list[Run]
) -> None:
    plan = help_.plan_for(tiny_llama, "bf16", seconds=LONG_S)
    live = manager.wait(manager.start(plan), help_.PATIENCE_S)
    run = store.load(live.id)
    assert run.status == "done", run.reason
    assert set(map(tuple, turns(store, live.id).values())) == {(0, 1, 2, 3, 4, 5)}
    (said,) = [note for note in run.notes if "settled" in note]
    assert re.fullmatch(
        r"Every verdict on decoding speed was settled after 6 rounds, \d+ s of 600 s, so no more were played\.", said
    )
    versus = run.variants[1].versus_baseline
    assert versus and versus.decode and versus.decode.verdict == "faster"
    assert versus.decode.ratio == pytest.approx(2.0)
    assert [variant.where_time_goes is None for variant in run.variants] == [False, False]
    assert [(lane.turns_done, lane.turns_planned) for lane in live.lanes] == [(6, 6), (6, 6)]
    assert samples(tables[0]) == [1, 1]  # complete after the first round
    assert samples(run) == [6, 6]


def test_the_settled_have_fewer_turns_and_the_result_says_so(
    manager: Manager, store: Store, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch, tables: list[Run]
) -> None:
    monkeypatch.setattr(rounds_module, "MAX_ROUNDS", 12)
    plan = help_.plan_for(tiny_llama, "bf16", "eager", seconds=LONG_S)
    live = manager.wait(manager.start(plan), help_.PATIENCE_S)
    run, had = store.load(live.id), turns(store, live.id)
    assert run.status == "done", run.reason
    assert had[BF16] == [0, 1, 2, 3, 4, 5, 8, 9]
    assert had[BASE] == had[f"{BASE} again"] == had[EAGER] == list(range(12))
    assert any(note.endswith("no run has more; not settled by then: fp32+eager.") for note in run.notes)
    (caveat,) = [caveat for caveat in run.caveats if caveat.id == "fewer_rounds"]
    assert caveat.text == "Settled early, so on fewer rounds than the baseline's 12: bf16+sdpa on 8."
    verdicts = [variant.versus_baseline.decode.verdict for variant in run.variants if variant.versus_baseline]  # type: ignore[union-attr]
    assert verdicts == ["baseline", "faster", "within noise"]
    assert samples(tables[0]) == [1, 1, 1]
    assert samples(run) == [12, 8, 12]


def test_a_budget_that_is_spent_says_what_is_not_settled(manager: Manager, store: Store, tiny_llama: Path) -> None:
    plan = help_.plan_for(tiny_llama, "bf16", seconds=0.5)
    live = manager.wait(manager.start(plan), help_.PATIENCE_S)
    run = store.load(live.id)
    assert run.status == "done", run.reason
    assert set(map(tuple, turns(store, live.id).values())) == {(0,)}
    (said,) = [note for note in run.notes if "settled" in note]
    assert re.fullmatch(
        r"The rounds ended after 1 round, \d+ s of 0\.5 s: another would not have fit; not settled by then: "
        r"bf16\+sdpa\.",
        said,
    )
    versus = run.variants[1].versus_baseline
    assert versus and versus.decode and versus.decode.verdict == "too few rounds"
    assert "few_rounds" in {caveat.id for caveat in run.caveats}


def test_a_stop_in_the_middle_keeps_what_was_measured_and_settles_nothing(
    manager: Manager, store: Store, tiny_llama: Path
) -> None:
    run_id = manager.start(help_.plan_for(tiny_llama, "eager", seconds=LONG_S))
    live = help_.until(manager, run_id, lambda live: live.lanes[1].turns_done >= 3)
    assert live.lanes[1].turns_planned > live.lanes[1].turns_done
    pids = help_.workers(manager, run_id)
    manager.stop(run_id)
    assert manager.snapshot(run_id).status == "cancelled"
    assert all(help_.gone(pid) for pid in pids.values())
    run = store.load(run_id)
    assert [variant.status for variant in run.variants] == ["measured", "measured"]
    assert not [note for note in run.notes if "settled" in note]
    assert "fewer_rounds" not in {caveat.id for caveat in run.caveats}


def test_a_budget_keeps_the_time_for_the_machines_limits_until_they_are_known(
    manager: Manager, tiny_llama: Path, own_cache: Path
) -> None:
    plan = help_.plan_for(tiny_llama, "bf16", seconds=0.5)
    assert machine_limits.expected_s(plan) == predictions.LIMITS_S
    live = manager.wait(manager.start(plan), help_.PATIENCE_S)
    assert live.run and live.run.limits
    assert machine_limits.expected_s(plan) == (predictions.LIMITS_S if live.run.limits.disturbed else 0.0)
