"""Memory on a GPU by phase. There is none here, so torch's counters are stood in for; the rest is real."""

from __future__ import annotations

import pytest
import torch

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
    assert memory.steady_file_bytes is None
    assert (memory.process_bytes, memory.others_bytes) == (None, None)  # no driver here
