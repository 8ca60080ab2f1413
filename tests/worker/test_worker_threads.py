"""The engine that computes gets exactly the threads asked for and every other pool one: counted by the kernel, in real
workers, by which of a process's threads used processor time during a request."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import manager_help as help_
import pytest
import tiny
from driver import WorkerProcess

from optimizers.machine import usable_cores
from optimizers.manager import Manager
from optimizers.protocol import Answered, CensusTaken, Load, Loaded, Ready, RunRequest, TakeCensus, WarmedUp, WarmUp
from optimizers.schema import Census
from optimizers.store import Store
from optimizers.worker.census import other_threads

PROMPT = "The old captain looked at the sea and the sea looked at the old captain. " * 4
TOKENS = 8


@pytest.fixture(scope="module")
def wide_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wide enough for its products to be shared out to several threads."""
    return tiny.make_llama(tmp_path_factory.mktemp("checkpoints") / "wide-llama", hidden=256)


def ran_ns(pid: int) -> dict[str, int]:
    """Nanoseconds that each thread of a process has been on a processor, by its number."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks}


def busy(worker: WorkerProcess, reader: set[str]) -> int:
    """How many threads of the worker run during a request like those before it; the one that reads commands, which is
    there before anything is loaded, is none of an engine's."""
    before = ran_ns(worker.pid)
    worker.do(RunRequest(2, PROMPT, TOKENS), Answered)
    after = ran_ns(worker.pid)
    return sum(after[name] > before.get(name, 0) for name in after.keys() - reader)


def census_and_busy(log: Path, folder: Path, techniques: tuple[str, ...], threads: int, python: Path | None = None):
    with WorkerProcess(log, python, threads) as worker:
        assert isinstance(worker.next_event(), Ready)
        reader = ran_ns(worker.pid).keys() - {str(worker.pid)}
        assert len(reader) == 1
        worker.do(Load(tiny.facts(folder), techniques, threads, 0, 200), Loaded)
        worker.do(WarmUp(PROMPT, TOKENS), WarmedUp)
        taken = worker.do(TakeCensus(), CensusTaken)
        assert taken.obstacle is None
        return taken.census, busy(worker, reader)


@pytest.mark.parametrize("started", ["forked", "by itself"])
@pytest.mark.parametrize("threads", [1, 2])
def test_pytorch_computes_with_exactly_so_many(threads: int, started: str, wide_llama: Path, tmp_path: Path) -> None:
    """Forked from one process, whatever count that one was started for."""
    python = None if started == "forked" else Path(sys.executable)
    census, ran = census_and_busy(tmp_path / "log", wide_llama, ("fp32", "sdpa"), threads, python)
    assert (census.threads, ran) == (threads, threads)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_graph_computes_with_exactly_so_many_and_pytorch_with_none_of_its_own(
    threads: int, wide_llama: Path, graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERS_CACHE", str(graphs))
    census, ran = census_and_busy(tmp_path / "log", wide_llama, ("fp32", "onnxruntime"), threads)
    assert (census.threads, ran) == (threads, threads)


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling needs a C++ compiler")
def test_compiled_code_is_of_the_threads_asked_for_whatever_the_cache_holds(
    wide_llama: Path, own_cache: Path, tmp_path: Path
) -> None:
    found: dict[int, Census] = {}
    for threads in (2, 1):
        found[threads], ran = census_and_busy(
            tmp_path / f"{threads}.log", wide_llama, ("fp32", "sdpa", "compile", "static_cache"), threads
        )
        assert (found[threads].threads, ran) == (threads, threads)
        compiled = found[threads].compile
        assert compiled is not None and compiled.from_cache is False  # code for two is none for one
    code = "".join(path.read_text() for path in (own_cache / "compile").rglob("*.cpp"))
    assert set(re.findall(r"num_threads\((\d+)\)", code)) == {"2"}


@pytest.mark.skipif(usable_cores() < 2, reason="two thread counts need two cores")
def test_a_comparison_times_both_counts(tiny_llama: Path, manager: Manager, store: Store) -> None:
    plan = help_.plan_for(tiny_llama, "bf16", "bf16+threads=1", threads=[2], rounds=2)
    run = store.load(manager.wait(manager.start(plan), help_.PATIENCE_S).id)
    assert [(variant.key, variant.status) for variant in run.variants] == [
        ("fp32+sdpa", "measured"),
        ("bf16+sdpa", "measured"),
        ("bf16+sdpa+threads=1", "measured"),
    ]
    assert [(variant.threads, variant.census and variant.census.threads) for variant in run.variants] == [
        (2, 2),
        (2, 2),
        (1, 1),
    ]
    timed = {
        (item.variant, sample.timing.threads) for item in store.record(run.id).measurements for sample in item.samples
    }
    assert timed == {("fp32+sdpa", 2), ("bf16+sdpa", 2), ("bf16+sdpa+threads=1", 1)}
    alone = run.variants[2]
    assert alone.versus_baseline is not None and alone.versus_baseline.decode is not None
    assert alone.near_limit is None and run.variants[1].near_limit is not None
    assert {promise.why for promise in alone.promises} == {
        "Judging it alone takes fp32+sdpa+threads=1 measured beside this."
    }


def test_another_number_than_the_one_asked_for_is_not_applied() -> None:
    assert other_threads(2, 2) is None
    said = other_threads(2, 1)
    assert said is not None
    assert said.reason == "The engine was given 1 thread and computes with 2."
