"""Whole comparisons by real workers on a tiny checkpoint: what is measured, in which order, and what is left behind."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import manager_help as help_
import pytest

from optimizers.errors import LeversError, RunNotFound
from optimizers.manager import Manager, conductor
from optimizers.manager.member import Member
from optimizers.results import LiveRun
from optimizers.store import Store

ROUNDS = 3
BASE, BF16, EAGER = "fp32+sdpa", "bf16+sdpa", "fp32+eager"


class Seen:
    """One run, watched to its end."""

    def __init__(self, manager: Manager, store: Store, run_id: str) -> None:
        self.pictures: list[LiveRun] = []
        self.pids: dict[str, int] = {}
        live = manager.snapshot(run_id)
        while live.status == "running":
            self.pictures.append(live)
            self.pids |= help_.workers(manager, run_id)
            live = manager.wait_change(run_id, live.version, 1.0)
        self.pictures.append(manager.wait(run_id, 10.0))
        self.folder = store.folder(run_id)
        self.run = store.load(run_id)
        self.events = help_.events(self.folder)

    def places(self, kind: str, key: str, replica: bool = False) -> list[int]:
        """Where in the log the events of a kind about a variant stand."""
        return [
            place
            for place, line in enumerate(self.events)
            if line["event"]["kind"] == kind and line["variant"] == key and line["replica"] == replica
        ]

    def samples(self) -> list[dict[str, Any]]:
        """Samples that count, in order."""
        found = [line["event"]["sample"] for line in self.events if line["event"]["kind"] == "sample_taken"]
        return [sample for sample in found if not sample["superseded"]]


@pytest.fixture(scope="module")
def together(manager: Manager, store: Store, tiny_llama: Path) -> Seen:
    plan = help_.plan_for(tiny_llama, "bf16", "eager", rounds=ROUNDS)
    return Seen(manager, store, manager.start(plan))


@pytest.fixture(scope="module")
def apart(manager: Manager, store: Store, tiny_llama: Path) -> Seen:
    plan = help_.plan_for(tiny_llama, "bf16", rounds=2, resident=False)
    return Seen(manager, store, manager.start(plan))


def test_every_variant_is_measured(together: Seen) -> None:
    assert together.run.status == "done", together.run.reason
    assert [(v.key, v.status) for v in together.run.variants] == [
        (BASE, "measured"),
        (BF16, "measured"),
        (EAGER, "measured"),
    ]
    for variant in together.run.variants:
        assert (
            variant.latency and variant.latency.decode_tokens_per_s and variant.latency.decode_tokens_per_s.n == ROUNDS
        )
        assert variant.memory and variant.memory.run_peak_bytes and variant.memory.load_peak_bytes
        assert [output.prompt for output in variant.outputs] == [0, 1]
        assert variant.cost and variant.cost.load_s > 0 and variant.cost.warm_up_s > 0
    for variant in together.run.variants[1:]:
        assert variant.quality and variant.quality.kl_divergence and variant.quality.text
        assert variant.quality.positions > 0
    assert together.run.variants[2].census and together.run.variants[2].census.attention == "eager"


def test_each_round_gives_everybody_one_turn_on_the_same_prompt(together: Seen) -> None:
    for number in range(ROUNDS):
        turns = [sample for sample in together.samples() if sample["round"] == number]
        assert sorted((turn["variant"], turn["replica"]) for turn in turns) == [
            (BF16, False),
            (EAGER, False),
            (BASE, False),
            (BASE, True),
        ]
        assert {turn["prompt"] for turn in turns} == {number % 2}
        assert all(len(turn["timing"]["token_times_s"]) == 8 for turn in turns)


def test_nothing_loads_or_scores_while_turns_are_timed(together: Seen) -> None:
    first = min(place for place, line in enumerate(together.events) if line["event"]["kind"] == "sample_taken")
    for kind in ("loaded", "warmed_up", "scored", "census_taken"):
        for key, replica in ((BASE, False), (BF16, False), (EAGER, False), (BASE, True)):
            assert all(place < first for place in together.places(kind, key, replica))


def test_where_the_time_goes_is_looked_at_once_each_after_every_timed_turn(together: Seen) -> None:
    last = max(place for place, line in enumerate(together.events) if line["event"]["kind"] == "sample_taken")
    for variant in together.run.variants:
        (place,) = together.places("profiled", variant.key)
        assert place > last
        assert not together.places("profiled", variant.key, True)
        found = variant.where_time_goes
        assert found is not None
        assert (found.new_tokens, found.passes) == (8, 8)
        assert sum(astuple(found.shares)) == pytest.approx(1.0)
        assert variant.latency and variant.latency.total_s and variant.latency.total_s.n == ROUNDS


def test_the_machine_is_measured_after_every_turn_and_each_variant_held_against_it(together: Seen) -> None:
    kinds = [line["event"]["kind"] for line in together.events]
    last = max(place for place, kind in enumerate(kinds) if kind == "sample_taken")
    assert kinds.index("limits_measured") > last
    assert together.run.limits is not None
    for variant in together.run.variants:
        near = variant.near_limit
        assert near and near.decode and near.prompt
        assert near.decode.share > 0 and near.prompt.share > 0


def test_a_variant_whose_profile_fails_stays_measured(
    manager: Manager, store: Store, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Member.profile

    def failing(member: Member, prompt: str, tokens: int) -> None:
        profile(member, prompt, tokens if member.key == BASE else 0)  # no token is refused

    def measured(*_: object) -> None:
        ended.append([help_.gone(pid) for pid in help_.workers(manager, run_id).values()])

    ended: list[list[bool]] = []
    monkeypatch.setattr(Member, "profile", failing)
    monkeypatch.setattr(conductor, "machine_limits", measured)
    run_id = manager.start(help_.plan_for(tiny_llama, "bf16", rounds=1))
    seen = Seen(manager, store, run_id)
    assert seen.run.status == "done", seen.run.reason
    assert ended == [[True, True, True]]  # nobody holds memory while the machine is measured
    assert [variant.status for variant in seen.run.variants] == ["measured", "measured"]
    assert [variant.where_time_goes is None for variant in seen.run.variants] == [False, True]
    said = "Where its time goes is not known, because it failed while that was looked at."
    assert [caveat.variant for caveat in seen.run.caveats if caveat.text.startswith(said)] == [BF16]
    assert all(help_.gone(pid) for pid in seen.pids.values())


def test_the_baseline_answers_first_alone_and_the_page_sees_it(together: Seen) -> None:
    streaming = next(live for live in together.pictures if any(lane.active for lane in live.lanes))
    assert [lane.status for lane in streaming.lanes] == ["loading", "waiting", "waiting"]
    assert streaming.lanes[0].active
    assert together.places("loaded", BASE)[0] < min(
        together.places("loaded", BF16) + together.places("loaded", EAGER) + together.places("loaded", BASE, True)
    )


def test_progress_only_grows_and_one_lane_is_active_at_a_time(together: Seen) -> None:
    shares = [live.progress for live in together.pictures]
    assert shares == sorted(shares)
    assert shares[0] == 0.0 and shares[-1] == 1.0
    versions = [live.version for live in together.pictures]
    assert versions == sorted(versions)
    assert all(sum(lane.active for lane in live.lanes) <= 1 for live in together.pictures)
    last = together.pictures[-1]
    assert [(lane.turns_done, lane.turns_planned) for lane in last.lanes] == [(ROUNDS, ROUNDS)] * 3
    assert last.run == together.run and last.time_left_s is None


def test_one_process_each_and_none_is_left(together: Seen) -> None:
    assert set(together.pids) == {BASE, BF16, EAGER, f"{BASE} again"}
    assert len(set(together.pids.values())) == 4
    assert all(help_.gone(pid) for pid in together.pids.values())


def test_the_folder_holds_the_run_and_no_reference(together: Seen) -> None:
    names = sorted(path.name for path in together.folder.iterdir())
    assert names == ["events.jsonl", "logs", "run.json", "samples.jsonl"]
    assert json.loads((together.folder / "run.json").read_text())["schema"] == "levers.run/1"
    raw = [json.loads(line) for line in (together.folder / "samples.jsonl").read_text().splitlines()]
    assert [line for line in raw if not line["superseded"]] == together.samples()
    logs = sorted(path.name for path in (together.folder / "logs").iterdir())
    assert logs == [f"{BF16}.log", f"{EAGER}.log", f"{BASE}.log", f"{BASE}.second.log"]


def test_one_after_another_the_baseline_is_measured_first_and_last(apart: Seen) -> None:
    assert apart.run.status == "done", apart.run.reason
    assert [(sample["variant"], sample["replica"], sample["round"]) for sample in apart.samples()] == [
        (BASE, False, 0),
        (BASE, False, 1),
        (BF16, False, 0),
        (BF16, False, 1),
        (BASE, True, 0),
        (BASE, True, 1),
    ]
    assert [variant.status for variant in apart.run.variants] == ["measured", "measured"]


def test_one_after_another_each_is_over_before_the_next_loads(apart: Seen) -> None:
    assert max(apart.places("sample_taken", BASE)) < min(apart.places("loaded", BF16))
    assert max(apart.places("status_changed", BASE)) < min(apart.places("status_changed", BF16))
    assert max(apart.places("status_changed", BF16)) < min(apart.places("loaded", BASE, True))


def test_the_second_run_waits_for_the_first_and_can_be_stopped_meanwhile(
    manager: Manager, store: Store, tiny_llama: Path
) -> None:
    plan = help_.plan_for(tiny_llama, "bf16")
    first, second = manager.start(plan), manager.start(plan)
    assert manager.running() == first
    help_.until(manager, first, lambda live: live.lanes[0].stage == "starting PyTorch")
    assert manager.snapshot(second).stage == "waiting for another comparison"
    manager.stop(second)
    assert manager.snapshot(second).status == "cancelled"
    assert help_.workers(manager, second) == {}
    assert manager.snapshot(first).status == "running"
    pids = help_.workers(manager, first)
    assert set(pids) == {BASE}
    with pytest.raises(LeversError, match=r"still goes on\. Stop it first"):
        manager.delete(first)
    manager.stop(first)
    assert manager.snapshot(first).status == "cancelled"
    assert all(help_.gone(pid) for pid in pids.values())
    assert manager.running() is None
    assert {variant.status for variant in store.load(second).variants} == {"cancelled"}
    manager.delete(second)  # neither on disk nor in what the manager keeps of runs that it has just had
    for look in (manager.snapshot, store.load):
        with pytest.raises(RunNotFound):
            look(second)
    assert manager.snapshot(first).status == "cancelled"
