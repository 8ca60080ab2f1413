"""Processor time: this process's own, the time its threads waited for a core, and what everybody else used.

Covers reading the system's accounts (Linux tells all three, other systems only the first). Wall time is
time.perf_counter in `generating.py`.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

_TASKS = Path("/proc/self/task")
_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class Account:
    """Seconds since some beginning; only differences mean anything. None where the system does not tell."""

    processor_s: float
    waited_s: float | None
    busy_s: float | None


@dataclass(frozen=True)
class Usage:
    """Seconds used between two readings: by this process with all its threads, waited by them, by all others."""

    processor_s: float
    waited_s: float | None
    others_s: float | None


def account() -> Account:
    """The accounts as they stand."""
    return Account(time.process_time(), _waited_s(), _busy_s())


def usage(before: Account, after: Account) -> Usage:
    """What was used between two readings. What others used is floored at 0 (the system counts in whole ticks)."""
    own = after.processor_s - before.processor_s
    return Usage(own, _difference(before.waited_s, after.waited_s), _others(before, after, own))


def _others(before: Account, after: Account, own: float) -> float | None:
    busy = _difference(before.busy_s, after.busy_s)
    return None if busy is None else max(0.0, busy - own)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else max(0.0, after - before)


def _waited_s() -> float | None:
    """Time that this process's threads were ready to run and did not: second field of schedstat, nanoseconds (Linux
    Documentation/scheduler/sched-stats.rst)."""
    if not _TASKS.with_name("schedstat").exists():
        return None
    total = 0
    try:
        for task in _TASKS.iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
                total += int((task / "schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return total / 1e9


def _busy_s() -> float | None:
    """Busy time of all cores with stolen time: user, nice, system, irq, softirq and steal of /proc/stat (proc(5))."""
    try:
        ticks = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    if len(ticks) < 8:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
