"""Rounds with one core busy, by real workers on a tiny checkpoint: what is kept, and that what keeps the core busy is
there while they go on and gone however they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import manager_help as help_
import psutil
import pytest

from optimizers.errors import WorkerError
from optimizers.manager import Manager
from optimizers.manager.live import Live
from optimizers.runners import busy_core
from optimizers.runners.busy_core import SPINNER, BusyCore
from optimizers.store import Store

ROOT = Path(__file__).parent.parent.parent
BASE, BF16 = "fp32+sdpa", "bf16+sdpa"


def spinners(parent: int) -> list[int]:
    """Process ids of what a program keeps cores busy with."""
    return [child.pid for child in psutil.Process(parent).children() if SPINNER in child.cmdline()]


def ended(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not psutil.pid_exists(pid)


def test_a_core_is_busy_inside_and_not_after() -> None:
    with BusyCore() as core:
        assert spinners(os.getpid()) == [core.pid]
        before = help_.processor_s(core.pid)
        while help_.processor_s(core.pid) < before + 0.1:
            time.sleep(0.01)
        assert psutil.Process(core.pid).nice() == psutil.Process().nice()
    assert ended(core.pid)


def test_what_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_core, "SPINNER", "optimizers.runners.missing")
    with pytest.raises(WorkerError, match=r"could not be started: .*No module named optimizers\.runners\.missing"):
        BusyCore()
    assert spinners(os.getpid()) == []


@pytest.mark.parametrize("resident", [True, False])
def test_the_leaders_answer_five_rounds_more_and_their_samples_stay_apart(
    resident: bool, manager: Manager, store: Store, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[float] = []
    progress = Live.progress

    def seen(live: Live, share: float, left_s: float) -> None:
        if live.snapshot().stage.startswith("one core busy"):
            left.append(left_s)
        progress(live, share, left_s)

    monkeypatch.setattr(Live, "progress", seen)
    plan = help_.plan_for(tiny_llama, "bf16", resident=resident, rounds=2, as_hosted=True)
    run_id = manager.start(plan)
    run = store.load(manager.wait(run_id, help_.PATIENCE_S).id)
    assert run.status == "done"
    kept = [json.loads(line) for line in (store.folder(run_id) / "samples.jsonl").read_text().splitlines()]
    busy = [sample for sample in kept if sample["load"] == "one_busy_core"]
    who = {(sample["variant"], sample["replica"]) for sample in busy}
    assert who == {(BASE, False), (BASE, True), (BF16, False)}
    for one in who:
        mine = [sample for sample in busy if (sample["variant"], sample["replica"]) == one]
        assert [(sample["round"], sample["prompt"]) for sample in mine] == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]
    assert not any(sample["disturbed"] or sample["superseded"] or sample["attempt"] for sample in busy)
    first, half = run.variants
    for variant in (first, half):
        assert variant.as_hosted and variant.as_hosted.decode_tokens_per_s and variant.as_hosted.slowdown
        assert variant.as_hosted.decode_tokens_per_s.n == 5
        assert variant.latency and variant.latency.total_s and variant.latency.total_s.n == 2
    assert half.as_hosted and half.as_hosted.versus_baseline and half.as_hosted.versus_baseline.low is not None
    assert half.where_time_goes is not None
    if resident:
        assert len(left) == len(busy) and min(left) > 0  # each variant's profiled pass is still to come
    assert spinners(os.getpid()) == []


def test_where_no_core_can_be_kept_busy_the_run_goes_on(
    manager: Manager, store: Store, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_core, "SPINNER", "optimizers.runners.missing")
    run_id = manager.start(help_.plan_for(tiny_llama, "bf16", rounds=1, as_hosted=True))
    run = store.load(manager.wait(run_id, help_.PATIENCE_S).id)
    assert [variant.status for variant in run.variants] == ["measured", "measured"]
    assert any(note.startswith("Nothing was timed with one core busy. ") for note in run.notes)
    assert {variant.as_hosted for variant in run.variants} == {None}


def test_stop_ends_what_keeps_the_core_busy_at_once(manager: Manager, store: Store, tiny_llama: Path) -> None:
    run_id = manager.start(help_.plan_for(tiny_llama, "bf16", rounds=1, max_new_tokens=100, as_hosted=True))
    help_.until(manager, run_id, lambda live: live.stage.startswith("one core busy"))
    (spinner,) = spinners(os.getpid())
    began = time.monotonic()
    manager.stop(run_id)
    assert time.monotonic() - began < 2.0
    assert manager.snapshot(run_id).status == "cancelled"
    assert ended(spinner)
    assert [variant.status for variant in store.load(run_id).variants] == ["measured", "measured"]


def test_killing_the_program_ends_what_keeps_the_core_busy(tiny_llama: Path, tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import manager_help as help_
from pathlib import Path
from optimizers.manager import Manager
from optimizers.manager.live import Live
from optimizers.store import Store
manager = Manager(Store(Path({str(tmp_path)!r})))
plan = help_.plan_for(Path({str(tiny_llama)!r}), "bf16", rounds=1, max_new_tokens=100, as_hosted=True)
run_id = manager.start(plan)
help_.until(manager, run_id, lambda live: live.stage.startswith("one core busy"))
print("busy", flush=True)
manager.wait(run_id)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdout.readline() == "busy\n"
        (spinner,) = spinners(program.pid)
        program.send_signal(signal.SIGKILL)
        program.wait()
    assert ended(spinner)
