"""What this machine can do at most: measured once in a process of its own, then kept in the cache.

    <cache>/limits/KEY/limits.json    KEY: processor, cores, threads, GPU, PyTorch's version

Covers keeping and starting; the measuring is `worker/machine_limits.py`. To be called while nobody has a turn.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from optimizers import keeping, leash
from optimizers.analysis.limits import sound
from optimizers.limits import MachineLimits
from optimizers.planning import predictions
from optimizers.runners.starting import worker_environment
from optimizers.schema import Plan, from_json
from optimizers.settings import settings

FOLDER = "limits"
FILE = "limits.json"
LONGEST_S = 60.0
FORMAT = 1  # changes with how the machine is measured

_logger = logging.getLogger(__name__)


def machine_limits(plan: Plan, while_waiting: Callable[[], None]) -> MachineLimits | None:
    """The limits of the plan's machine with the plan's threads, on the plan's device; None where they cannot be
    measured or kept: they are wanted, not needed. What `while_waiting` raises ends the measuring and goes on."""
    goal = settings().cache / FOLDER / key(plan)
    try:
        if (kept := _undisturbed(goal)) is not None:
            return kept
        goal.parent.mkdir(parents=True, exist_ok=True)
        with keeping.locked(goal, while_waiting):
            if _undisturbed(goal) is None:
                keeping.put_in_place(goal, lambda work: _measured(work, plan, while_waiting))
        return _kept(goal)
    except OSError as error:
        _logger.warning("the limits of this machine are not known: %s", error)
        return None


def expected_s(plan: Plan) -> float:
    """About how many seconds `machine_limits` will take: none where they are kept."""
    return 0.0 if _undisturbed(settings().cache / FOLDER / key(plan)) else predictions.LIMITS_S


def key(plan: Plan) -> str:
    """The name under which they are kept: another where anything that they depend on is another."""
    here = plan.machine
    gpus = [gpu.name for gpu in here.gpus] if plan.device == "cuda" else []
    said = [FORMAT, here.cpu, here.usable_cores, plan.threads, plan.device, gpus, here.packages.get("torch")]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def _undisturbed(goal: Path) -> MachineLimits | None:
    """What is kept there, unless other work was in the way when it was measured: then it is measured again."""
    found = _kept(goal)
    return None if found is None or found.disturbed else found


def _kept(goal: Path) -> MachineLimits | None:
    """What is kept there; None where nothing is, or nothing that can be believed."""
    try:
        found: MachineLimits = from_json(MachineLimits, (goal / FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return found if sound(found) else None


def _measured(work: Path, plan: Plan, while_waiting: Callable[[], None]) -> Path:
    """The folder with the figures of a child's. Raises OSError when the child gave none."""
    made = work / "made"
    made.mkdir()
    began = time.monotonic()

    def waiting() -> None:
        while_waiting()
        if time.monotonic() - began > LONGEST_S:
            raise TimeoutError("measuring took too long")

    words = ["optimizers.worker.machine_limits", str(plan.threads), plan.device, str(made / FILE)]
    code, said = leash.run(words, while_waiting=waiting, environment=worker_environment(plan.threads))
    if code != 0:
        raise OSError(leash.last_words(said))
    return made
