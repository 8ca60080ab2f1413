"""Memory on a GPU by phase. There is none here, so torch's counters are stood in for; the rest is real."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
import torch

from optimizers.worker import device_memory
from optimizers.worker.memory import MemoryRecord


def test_the_phases_are_those_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"memory_allocated": 0, "max_memory_allocated": 0, "max_memory_reserved": 0}
    for name in now:
        monkeypatch.setattr(torch.cuda, name, lambda name=name: now[name])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: now.update(max_memory_allocated=0))
    record = MemoryRecord()
    record.start_loading("cuda")
    now |= {"memory_allocated": 100, "max_memory_allocated": 130, "max_memory_reserved": 150}
    record.loaded()
    for allocated, peak, reserved in ((110, 140, 160), (112, 190, 200), (112, 170, 180)):
        record.start_request()
        assert now["max_memory_allocated"] == 0
        now |= {"memory_allocated": allocated, "max_memory_allocated": peak, "max_memory_reserved": reserved}
        record.end_request()
    memory = record.memory(weights_bytes=90, disk_bytes=80)
    assert (memory.device, memory.runtime_bytes, memory.load_peak_bytes) == ("cuda", 0, 130)
    assert (memory.steady_bytes, memory.run_peak_bytes, memory.reserved_peak_bytes) == (110, 190, 200)
    assert memory.steady_file_bytes is None and memory.process_bytes is None  # no driver here


def test_the_drivers_account_of_this_process() -> None:
    def process(pid: int, used: int | None) -> SimpleNamespace:
        return SimpleNamespace(pid=pid, usedGpuMemory=used)

    assert device_memory.own_bytes([process(1, 5), process(os.getpid(), 7)], os.getpid()) == 7
    assert device_memory.own_bytes([process(os.getpid(), None)], os.getpid()) is None
    assert device_memory.own_bytes([], os.getpid()) is None
