"""What the machine can do at most: measured for real once, kept, and measured again only where it must be."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import planning_records as make
import pytest

from optimizers import leash, machine, planning
from optimizers.analysis.limits import sound
from optimizers.errors import Cancelled
from optimizers.limits import MachineLimits
from optimizers.manager import machine_limits as keeper
from optimizers.schema import Gpu, Plan, from_json, to_json
from optimizers.worker import machine_limits as measuring

LIMITS = MachineLimits("cpu", 2, 1e10, 1 << 28, 3e10, 1 << 24, 1 << 25, {"float32": 1e11})


@pytest.fixture
def plan() -> Plan:
    return planning.plan(make.choice("bf16", threads=2), make.machine(), make.checkpoint(), 10**10)


def child(monkeypatch: pytest.MonkeyPatch, writes: str, code: int = 0) -> list[Sequence[str]]:
    """Stands in for the child process; the words of each start."""
    started: list[Sequence[str]] = []

    def run(words: Sequence[str], **_: Any) -> tuple[int, str]:
        started.append(words)
        Path(words[-1]).write_text(writes)
        return code, "It broke."

    monkeypatch.setattr(leash, "run", run)
    return started


def nothing() -> None:
    """Nobody waits."""


def test_the_machine_is_measured_by_a_process_of_its_own(plan: Plan, own_cache: Path) -> None:
    found = keeper.machine_limits(plan, nothing)
    assert found is not None
    assert sound(found)
    assert (found.threads, found.device) == (2, "cpu")
    assert found.operations_per_s["float32"] > 0
    assert found.memory_array_bytes >= 256 << 20
    assert found.last_level_bytes == machine.last_level_cache(2)
    if found.last_level_bytes is not None:
        assert found.cache_array_bytes < found.last_level_bytes
    (kept,) = (own_cache / keeper.FOLDER).glob("*/limits.json")
    assert from_json(MachineLimits, kept.read_bytes()) == found


def test_the_array_is_no_larger_than_a_quarter_of_the_containers_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(machine, "memory", lambda: (8 << 30, 2 << 30))
    monkeypatch.setattr(machine, "last_level_cache", lambda threads: 1 << 30)
    monkeypatch.setattr(measuring, "_reading", lambda size, device: sizes.append(size) or 1.0)
    monkeypatch.setattr(measuring, "_products", lambda name, device: None)
    assert measuring._measured(2, "cpu").memory_array_bytes == 512 << 20
    assert sizes == [512 << 20, 512 << 20]  # of the memory, and half of the cache


def test_it_is_measured_once(plan: Plan, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = child(monkeypatch, to_json(LIMITS))
    assert keeper.machine_limits(plan, nothing) == LIMITS
    assert keeper.machine_limits(plan, nothing) == LIMITS
    (words,) = started
    assert list(words[:3]) == ["optimizers.worker.machine_limits", "2", "cpu"]


def test_what_was_disturbed_is_used_and_measured_again_the_next_time(
    plan: Plan, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed = replace(LIMITS, memory_bytes_per_s=1e9, disturbed=True)
    child(monkeypatch, to_json(disturbed))
    assert keeper.machine_limits(plan, nothing) == disturbed
    started = child(monkeypatch, to_json(LIMITS))
    assert keeper.machine_limits(plan, nothing) == LIMITS
    assert keeper.machine_limits(plan, nothing) == LIMITS
    assert len(started) == 1


@pytest.mark.parametrize("damaged", ["", "{}", to_json(replace(LIMITS, memory_bytes_per_s=-1.0))])
def test_what_cannot_be_believed_is_measured_again(
    damaged: str, plan: Plan, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(monkeypatch, to_json(LIMITS))
    keeper.machine_limits(plan, nothing)
    (kept,) = (own_cache / keeper.FOLDER).glob("*/limits.json")
    kept.write_text(damaged)
    assert keeper.machine_limits(plan, nothing) == LIMITS
    assert from_json(MachineLimits, kept.read_bytes()) == LIMITS


@pytest.mark.parametrize(("writes", "code"), [("", 0), ("{}", 0), (to_json(LIMITS), 1)])
def test_a_child_that_fails_leaves_the_limits_unknown_and_nothing_behind(
    writes: str, code: int, plan: Plan, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(monkeypatch, writes, code)
    assert keeper.machine_limits(plan, nothing) is None
    assert not list((own_cache / keeper.FOLDER).glob(".*making*"))


def test_a_stop_ends_the_measuring(plan: Plan, own_cache: Path) -> None:
    def stopped() -> None:
        raise Cancelled("The comparison was stopped.")

    with pytest.raises(Cancelled):
        keeper.machine_limits(plan, stopped)
    assert not list((own_cache / keeper.FOLDER).glob(".*making*"))


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: replace(plan, threads=1),
        lambda plan: replace(plan, machine=replace(plan.machine, cpu="another")),
        lambda plan: replace(plan, machine=replace(plan.machine, usable_cores=8)),
        lambda plan: replace(plan, machine=replace(plan.machine, packages={"torch": "9.0"})),
        lambda plan: replace(plan, device="cuda", machine=replace(plan.machine, gpus=(Gpu("g", 1, (9, 0)),))),
    ],
)
def test_another_machine_has_another_key(change: Callable[[Plan], Plan], plan: Plan) -> None:
    assert keeper.key(change(plan)) != keeper.key(plan)
    assert keeper.key(replace(plan, machine=replace(plan.machine, memory_available_bytes=1))) == keeper.key(plan)


def test_last_level_caches_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores with 1 MiB each and, two by two, 16 and 8 MiB between them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert machine.last_level_cache(4, tmp_path) is None
    for core in range(4):
        shared, size = ("0-1", "16384K") if core < 2 else ("2-3", "8M")
        caches = {
            "index0": ("1", "Data", str(core), "32K"),
            "index1": ("1", "Instruction", str(core), "32K"),
            "index2": ("2", "Unified", str(core), "1024K"),
            "index3": ("3", "Unified", shared, size),
        }
        for name, said in caches.items():
            folder = tmp_path / f"sys/devices/system/cpu/cpu{core}/cache/{name}"
            folder.mkdir(parents=True)
            for field, text in zip(("level", "type", "shared_cpu_list", "size"), said, strict=True):
                (folder / field).write_text(f"{text}\n")
    mib = 1 << 20
    assert machine.last_level_cache(1, tmp_path) == 16 * mib
    assert machine.last_level_cache(4, tmp_path) == 24 * mib
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2}, raising=False)
    assert machine.last_level_cache(4, tmp_path) == 8 * mib
