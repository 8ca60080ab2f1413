"""Memory on a GPU: what PyTorch allocated there, the most it held, and what the driver counts for this process.

Covers torch.cuda's own counters and what `nvml.py` tells. Phases are `memory.py`'s. Read only in a worker whose
weights are on the GPU.
"""

from __future__ import annotations

import os

import torch

from optimizers.worker import nvml
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


def by_the_driver() -> tuple[int | None, int | None]:
    """What the driver counts for this process, and for programs other than this one; None where NVML is missing or does
    not tell (in many containers)."""
    card = nvml.card()
    found = card.processes() if card else []
    pid = os.getpid()
    return nvml.own_bytes(found, pid), nvml.others_bytes(found, pid, nvml.of_this_program)
