"""What the manager's tests share: plans for tiny checkpoints, who works for whom, and what is left of a process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from optimizers import api
from optimizers.manager import Manager
from optimizers.results import LiveRun
from optimizers.schema import Plan

PATIENCE_S = 240.0


def plan_for(folder: Path, *stacks: str, resident: bool = True, **workload: Any) -> Plan:
    """A plan for a tiny checkpoint, whatever this machine's memory says."""
    choice = api.choose(str(folder), stacks, **({"prompts": ["Alice was", "So she"], "max_new_tokens": 8} | workload))
    return replace(api.plan(choice), resident=resident)


def workers(manager: Manager, run_id: str) -> dict[str, int]:
    """Process ids of the run's workers by name; A' is "KEY again"."""
    members = [close.__self__ for close in manager._entry(run_id).board._closers]
    return {member.name: member._worker.pid for member in members}


def until(manager: Manager, run_id: str, happened: Callable[[LiveRun], bool]) -> LiveRun:
    """The run's first picture in which something has happened. Fails when the run ends without it."""
    deadline = time.monotonic() + PATIENCE_S
    live = manager.snapshot(run_id)
    while not happened(live):
        assert live.status == "running", (live.status, live.reason)
        assert time.monotonic() < deadline, live
        live = manager.wait_change(run_id, live.version, 5.0)
    return live


def gone(pid: int, patience_s: float = 5.0) -> bool:
    """Is nothing left of the process group?"""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def events(folder: Path) -> list[dict[str, Any]]:
    """The log of a run as plain data."""
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def processor_s(pid: int) -> float:
    """Processor seconds that a process with all its threads has used, by its own account."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
