"""Energy and memory by the driver of a GPU. There is none here, so the driver's library is stood in for; who asks it
is real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from driver import ROOT, THREADS, WorkerProcess, facts

from optimizers.protocol import Load
from optimizers.worker import device_memory, generating, loading, nvml

OTHER = 1  # the system's first process is never ours


class FakeNvml:
    """As much of the module pynvml as is used: one card, whose counter moves by 1500 mJ each time it is read."""

    def __init__(self, *, counter: bool = True) -> None:
        self.counter = counter
        self.millijoules = 0
        self.asked: list[str] = []
        self.processes: list[Any] = []

    def nvmlInit(self) -> None:  # noqa: N802
        self.asked.append("init")

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:  # noqa: N802
        self.asked.append(name)
        return "handle"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:  # noqa: N802
        assert handle == "handle"
        if not self.counter:
            raise RuntimeError("Not Supported")
        self.millijoules += 1500
        return self.millijoules

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        assert handle == "handle"
        return self.processes


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=f"uuid-of-{index}"))
    nvml.card.cache_clear()
    yield fake
    nvml.card.cache_clear()


def holds(pid: int, used: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


def test_the_card_is_the_one_that_pytorch_uses_and_is_looked_for_once(driver: FakeNvml) -> None:
    assert nvml.card() is nvml.card() is not None
    assert driver.asked == ["init", "GPU-uuid-of-1"]


def test_without_a_driver_there_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml.card.cache_clear()
    assert nvml.card() is None
    meter = nvml.Meter(None)
    meter.start()
    assert meter.joules() is None
    assert device_memory.by_the_driver() == (None, None)
    nvml.card.cache_clear()


def test_a_card_whose_counter_is_not_told_has_no_energy(driver: FakeNvml) -> None:
    driver.counter = False
    meter = nvml.Meter(nvml.card())
    meter.start()
    assert meter.joules() is None


def test_a_request_is_given_the_energy_between_its_ends(driver: FakeNvml, tiny_llama: Path) -> None:
    request = loading.prepare(Load(facts(tiny_llama), ("fp32", "sdpa"), THREADS, 0, 64))
    generator = generating.Generator(loading.load(request, lambda text: None))
    with torch.inference_mode():
        assert generator.answer(0, "The old captain", 2).timing.joules is None  # weights on a processor
        generator.meter = nvml.Meter(nvml.card())
        assert generator.answer(1, "The old captain", 2).timing.joules == pytest.approx(1.5)
    assert driver.millijoules == 3000


def test_memory_by_the_driver_tells_this_process_from_others(driver: FakeNvml) -> None:
    driver.processes = [holds(os.getpid(), 700), holds(OTHER, 50), holds(OTHER, None)]
    assert device_memory.by_the_driver() == (700, 50)
    driver.processes = [holds(os.getpid(), 700)]
    assert device_memory.by_the_driver() == (700, 0)
    driver.processes = [holds(OTHER, 50)]  # the numbers of another namespace: nobody is known
    assert device_memory.by_the_driver() == (None, None)
    driver.processes = []
    assert device_memory.by_the_driver() == (None, None)


def test_workers_of_one_program_are_not_others(tmp_path: Path) -> None:
    """As a worker of this program sees real ones, and as a worker of another program does."""
    asks = "import sys; sys.path.insert(0, sys.argv[1]); from optimizers.worker import nvml; "
    asks += "print([nvml.of_this_program(int(pid)) for pid in sys.argv[2].split()])"
    python = Path(sys.executable)
    with WorkerProcess(tmp_path / "a") as forked, WorkerProcess(tmp_path / "b", python) as spawned:
        assert spawned.next_event().kind == "ready"
        assert forked.next_event().kind == "ready"
        pids = f"{forked.pid} {spawned.pid} {OTHER}"
        for parent, seen in ((os.getpid(), "[True, True, False]"), (12345678, "[False, False, False]")):
            words = [str(python), "-c", asks, str(ROOT), pids, "optimizers.worker", "--parent", str(parent)]
            assert subprocess.check_output(words, text=True).strip() == seen
