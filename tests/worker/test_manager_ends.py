"""Bad ends: a worker is killed, a run is stopped, the program is killed, the baseline breaks. Nothing is left behind
and nothing measured is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import manager_help as help_
import pytest

from optimizers import protocol
from optimizers.manager import Manager
from optimizers.runners import forking
from optimizers.runners.subprocess import Worker
from optimizers.store import Store

ROOT = Path(__file__).parent.parent.parent
BASE, BF16 = "fp32+sdpa", "bf16+sdpa"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def manager(store: Store) -> Iterator[Manager]:
    manager = Manager(store)
    yield manager
    manager.close()


def test_a_killed_worker_is_a_failed_row_and_the_others_go_on_until_stopped(
    manager: Manager, store: Store, tiny_llama: Path
) -> None:
    """Killed in its turns; then the run, which would go on for long, is stopped."""
    run_id = manager.start(help_.plan_for(tiny_llama, "bf16", "eager", rounds=200))
    help_.until(manager, run_id, lambda live: live.lanes[1].turns_done >= 2)
    pids = help_.workers(manager, run_id)
    os.killpg(pids[BF16], signal.SIGKILL)
    live = help_.until(manager, run_id, lambda live: live.lanes[1].status == "failed")
    assert live.lanes[1].reason == "Its worker process was killed, most likely because memory ran out."
    before = live.lanes[2].turns_done
    live = help_.until(manager, run_id, lambda live: live.lanes[2].turns_done >= before + 2)
    assert live.lanes[0].turns_done >= before

    began = time.monotonic()
    manager.stop(run_id)
    assert time.monotonic() - began < 2.0
    assert manager.snapshot(run_id).status == "cancelled"
    assert all(help_.gone(pid) for pid in pids.values())
    run = store.load(run_id)
    assert [variant.status for variant in run.variants] == ["measured", "failed", "measured"]
    assert run.variants[1].remedy and "memory" in (run.variants[1].reason or "")
    assert run.variants[2].latency and run.variants[2].latency.total_s
    assert run.variants[2].latency.total_s.n >= before + 2


def test_a_baseline_that_breaks_ends_the_run_with_its_reason(
    manager: Manager, store: Store, tiny_llama: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_llama, tmp_path / "model")
    plan = help_.plan_for(folder, "bf16")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    live = manager.wait(manager.start(plan), help_.PATIENCE_S)
    assert live.status == "failed"
    assert live.reason and live.reason.startswith("The baseline failed. ")
    assert [lane.status for lane in live.lanes] == ["failed", "cancelled"]
    assert live.lanes[1].reason == "The baseline failed, so there is nothing to compare with."
    assert store.load(live.id).variants[0].status == "failed"


def test_killing_the_program_ends_its_workers(tiny_llama: Path, tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import manager_help as help_
from pathlib import Path
from optimizers.manager import Manager
from optimizers.store import Store
manager = Manager(Store(Path({str(tmp_path)!r})))
run_id = manager.start(help_.plan_for(Path({str(tiny_llama)!r}), "bf16", rounds=200))
help_.until(manager, run_id, lambda live: live.lanes[1].turns_done >= 1)
print(run_id, *help_.workers(manager, run_id).values(), flush=True)
manager.wait(run_id)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        run_id, *pids = program.stdout.readline().split()
        assert len(pids) == 3
        assert not any(help_.gone(int(pid), 0.1) for pid in pids)
        program.send_signal(signal.SIGKILL)
        program.wait()
    assert all(help_.gone(int(pid)) for pid in pids)
    run = Store(tmp_path).load(run_id)
    assert run.status == "interrupted"
    assert run.variants[1].status == "measured"
    assert run.variants[1].latency and run.variants[1].latency.total_s and run.variants[1].latency.total_s.n >= 1


def test_a_resident_that_waits_uses_no_processor_time(tiny_llama: Path, tmp_path: Path) -> None:
    """Both have loaded and answered; one goes on answering. The other's own account shows what it used meanwhile."""
    plan = help_.plan_for(tiny_llama)
    load = protocol.Load(plan.checkpoint, ("fp32", "sdpa"), 2, 0, 100)
    server = forking.ready(2, lambda: False)
    busy, idle = (Worker(tmp_path / name, 2, server=server) for name in ("busy.log", "idle.log"))
    try:
        for worker in (busy, idle):
            for command in (load, protocol.RunRequest(1, "Alice was", 16)):
                worker.send(command)
            while not isinstance(event := worker.events.get(timeout=help_.PATIENCE_S), protocol.Answered):
                assert not isinstance(event, protocol.Failed), event
        time.sleep(0.5)  # a pool that spins for a moment after its last run is not one that spins while it waits
        before = [help_.processor_s(worker.pid) for worker in (busy, idle)]
        began = time.monotonic()
        number = 2
        while time.monotonic() - began < 3.0:
            busy.send(protocol.RunRequest(number, "Alice was", 100))
            while not isinstance(busy.events.get(timeout=help_.PATIENCE_S), protocol.Answered):
                pass
            number += 1
        used = [help_.processor_s(w.pid) - start for w, start in zip((busy, idle), before, strict=True)]
        assert used[1] <= 0.03, used
        assert used[0] > 10 * used[1]
    finally:
        for worker in (busy, idle):
            worker.close()
    assert help_.gone(busy.pid) and help_.gone(idle.pid)
