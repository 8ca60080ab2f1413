"""Memory on a GPU: what PyTorch allocated there, the most it held, and what the driver counts for this process.

Covers reading torch.cuda's own counters and NVML's account. Phases are `memory.py`'s. Read only in a worker whose
weights are on the GPU.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from optimizers.worker.memory import Resident


def resident() -> Resident:
    """Bytes allocated now and at the most since the last reset (torch.cuda.memory_allocated)."""
    return Resident(torch.cuda.memory_allocated(), None, torch.cuda.max_memory_allocated())


def reset_peak() -> bool:
    """Set the high-water marks back to what is allocated now."""
    torch.cuda.reset_peak_memory_stats()
    return True


def reserved_peak() -> int:
    """The most that PyTorch's allocator held of the GPU since the last reset, freed blocks that it keeps included."""
    return int(torch.cuda.max_memory_reserved())


def process_bytes() -> int | None:
    """What the driver counts for this process, None where NVML is missing or does not tell (in many containers)."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
            return own_bytes(pynvml.nvmlDeviceGetComputeRunningProcesses(handle), os.getpid())
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # the library raises kinds of its own; without it there is simply no figure
        return None


def own_bytes(processes: list[Any], pid: int) -> int | None:
    """The bytes of process `pid` in NVML's list; None when it is not there or its figure is not told."""
    found = next((process.usedGpuMemory for process in processes if process.pid == pid), None)
    return None if found is None else int(found)
