"""How a worker's process is started: by itself, with an environment in which it fetches nothing and finds its caches.

Covers the thread that starts processes, their environment and what a process must be able to do for `subprocess.py`.
Forking one from a process that has imported the libraries already is in `forking.py`.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import optimizers
from optimizers.settings import settings

P = TypeVar("P")


class Process(Protocol):
    """What is asked of a worker's process; as in subprocess.Popen."""

    @property
    def pid(self) -> int:
        """Process id, which is its process group's too."""

    def poll(self) -> int | None:
        """Its exit code, minus its signal, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """The same once it has ended. Raises subprocess.TimeoutExpired."""


class _Starter:
    """The one thread that starts processes. It never ends, because the kernel's parent-death signal follows the thread
    that spawned; it is a daemon, so that a program's end is not its end first."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="levers-starter", daemon=True).start()

    def start(self, job: Callable[[], P]) -> P:
        """Run the job on that thread; its result or its exception comes back."""
        future: Future[P] = Future()
        self._jobs.put((future, job))
        return future.result()

    def _work(self) -> None:
        while True:
            future, job = self._jobs.get()
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)


@lru_cache(maxsize=1)
def _starter() -> _Starter:
    return _Starter()


def spawn(
    words: list[str], descriptors: tuple[int, ...], environment: dict[str, str], output: int
) -> subprocess.Popen[bytes]:
    """Start `python -m optimizers.worker`, words[0] being the interpreter, in a session and a process group of its own.
    Only `descriptors` are passed on; `output` takes what is printed. Raises OSError."""
    python, *rest = words
    command = [python, "-m", "optimizers.worker", *rest, "--parent", str(os.getpid())]
    return _starter().start(
        lambda: subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=descriptors,
            start_new_session=True,
            env=environment,
        )
    )


def start_worker(commands: int, events: int, printing: int, threads: int, engine: Path | None) -> Process:
    """A worker in a process started for it, in the interpreter of `engine` or this program's own. Raises OSError."""
    words = [str(engine or sys.executable), "--commands", str(commands), "--events", str(events)]
    return spawn(words, (commands, events), worker_environment(threads, engine is None), printing)


def worker_environment(threads: int, own: bool = True) -> dict[str, str]:
    """This program's environment, with nothing that fetches, no second thread pool, this package to be found, and a
    place where compiled code is kept for the next run. Outside the program's `own` interpreter no other path is handed
    on: an engine's packages come before the program's."""
    root = str(Path(optimizers.__file__).parent.parent)
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    paths = [root, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep) if own else ())]
    return environment | {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(threads),
        "TORCHINDUCTOR_CACHE_DIR": str(settings().cache / "compile"),
    }
