"""What the driver of an NVIDIA GPU tells (NVML): the energy that the card used, and who holds its memory.

Covers finding the card that PyTorch uses and reading its counters; where the library or a counter is missing there is
simply no figure. What PyTorch itself counts is in `device_memory.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import psutil
import torch

_PARENT = "--parent"


class Card:
    """One graphics card, as the driver knows it. Raises whatever NVML raises where there is none."""

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        # By its own name: the numbers that PyTorch counts by shift with CUDA_VISIBLE_DEVICES, the driver's do not.
        name = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{name}")

    def joules(self) -> float | None:
        """Energy of the whole card since the driver was loaded (nvmlDeviceGetTotalEnergyConsumption, Volta or newer)
        in joules; the driver counts millijoules."""
        try:
            return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1000
        except Exception:  # the library raises kinds of its own
            return None

    def processes(self) -> list[Any]:
        """The processes that compute on the card, each with `pid` and `usedGpuMemory`; empty where it is not told."""
        try:
            return list(self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        except Exception:  # as above
            return []


@lru_cache(maxsize=1)
def card() -> Card | None:
    """The card that this process uses, None where NVML does not tell. Looked for once."""
    try:
        return Card()
    except Exception:  # no library, no driver, or a part of a card, which has no energy of its own
        return None


class Meter:
    """The card's energy from one moment to another; without a card it measures nothing."""

    def __init__(self, card: Card | None) -> None:
        self._card = card
        self._began: float | None = None

    def start(self) -> None:
        self._began = self._card.joules() if self._card else None

    def joules(self) -> float | None:
        """Joules since `start`, of the whole card, with nothing taken off for what it uses when idle."""
        now = self._card.joules() if self._card else None
        return None if now is None or self._began is None else now - self._began


def own_bytes(processes: Sequence[Any], pid: int) -> int | None:
    """The bytes of process `pid` in NVML's list; None when it is not there or its figure is not told."""
    found = next((process.usedGpuMemory for process in processes if process.pid == pid), None)
    return None if found is None else int(found)


def others_bytes(processes: Sequence[Any], pid: int, ours: Callable[[int], bool]) -> int | None:
    """The bytes of all that are not `ours`. None where process `pid` is not in the list itself: then its numbers are of
    another namespace (a container's), and nobody can be told apart."""
    if not any(process.pid == pid for process in processes):
        return None
    return sum(int(process.usedGpuMemory or 0) for process in processes if not ours(process.pid))


def of_this_program(pid: int) -> bool:
    """Whether a process is this one or a worker of the same program: all name that program among their words."""
    mine = _program(os.getpid())
    return pid == os.getpid() or (mine is not None and _program(pid) == mine)


def _program(pid: int) -> str | None:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return None
    named = "optimizers.worker" in words and _PARENT in words[:-1]
    return words[words.index(_PARENT) + 1] if named else None
