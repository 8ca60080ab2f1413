"""Workers that are forked from a process with the libraries imported: asked for here, made in `worker/forkserver.py`.

One such process for each environment, whatever the thread counts of its workers, started when first asked for, gone
after minutes without a worker and with this program. Only where forking is known to be right: Linux, the program's own
interpreter, weights on the CPU (CUDA cannot be used in a forked process once a library has looked for it). Everywhere
else workers start by themselves, slower.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from typing import Any

from optimizers.runners.starting import spawn, worker_environment

FORK_TIMEOUT_S = 30.0
IMPORT_TIMEOUT_S = 60.0
GLANCE_S = 0.1
MESSAGE_BYTES = 1 << 12
# Variables that nothing reads while libraries are imported: a worker gets them as they are when it is forked. OpenMP
# does read its own then, and is told the worker's count again before it computes (torch.set_num_threads).
READ_LATE = {"PATH", "TORCHINDUCTOR_CACHE_DIR", "PYTEST_CURRENT_TEST", "OMP_NUM_THREADS"}
READ_LATE_PREFIX = "LEVERS_"


class Forked:
    """A worker's process that is not a child of this program; told of its end by the one whose child it is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: Future[int] = Future()
        self.orphaned = False  # whether it ended because the process that forked it did

    def poll(self) -> int | None:
        """Its exit code, minus its signal, or None while it runs."""
        return self.code.result() if self.code.done() else None

    def wait(self, timeout: float | None = None) -> int:
        """The same once it has ended. Raises subprocess.TimeoutExpired."""
        try:
            return self.code.result(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None


class ForkServer:
    """The process that forks. `settled` is set once it can, or never will."""

    def __init__(self, threads: int) -> None:
        """Start it, to begin with for workers of so many threads. Raises OSError."""
        self._started_with = worker_environment(threads)
        self.settled = threading.Event()
        self.alive = True
        self.began = False
        self._lock = threading.Lock()
        self._asked: deque[Future[Forked]] = deque()
        self._workers: dict[int, Forked] = {}
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "--fork", str(theirs.fileno())]
            self._process = spawn(words, (theirs.fileno(),), self._started_with, subprocess.DEVNULL)
        threading.Thread(target=self._listen, name="levers-fork-server", daemon=True).start()

    @property
    def usable(self) -> bool:
        """Whether a worker can be asked for now."""
        return self.alive and self.began

    def fork(self, commands: int, events: int, printing: int, threads: int) -> Forked:
        """A new worker of so many threads with these three descriptors. Raises OSError when there is none, or none in
        time; the three must not be given to another then."""
        asked: Future[Forked] = Future()
        request = json.dumps({"environment": self._late(threads)}).encode()
        with self._lock:
            if not self.usable:
                raise OSError(errno.ESRCH, "the process that forks has ended")
            self._asked.append(asked)  # first: the answer may be here before the sending has returned
            try:
                socket.send_fds(self._channel, [request], [commands, events, printing])
            except OSError:
                self._asked.pop()
                raise
        try:
            return asked.result(FORK_TIMEOUT_S)
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, "the process that forks does not answer") from None

    def _late(self, threads: int) -> dict[str, str | None]:
        """The variables that a worker gets as they are now; None where one is gone since this process started."""
        now = {name: value for name, value in worker_environment(threads).items() if _is_late(name)}
        return {name: None for name in self._started_with if _is_late(name)} | now

    def close(self) -> None:
        """End it at once, and the workers that it forked."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _listen(self) -> None:
        """Take what it says, to its end."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            while data := self._channel.recv(MESSAGE_BYTES):
                self._take(json.loads(data))
        self.close()
        with self._lock:
            self.alive = False
            self._channel.close()
        for asked in self._asked:
            asked.set_exception(OSError(errno.ESRCH, "the process that forks has ended"))
        for worker in self._workers.values():  # the kernel ends each of them with its parent
            worker.orphaned = True
            worker.code.set_result(-signal.SIGKILL)
        self.settled.set()

    def _take(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            self.began = True
            self.settled.set()
        elif "pid" in message:
            worker = Forked(int(message["pid"]))
            self._workers[worker.pid] = worker
            self._first_asked().set_result(worker)
        elif "refused" in message:
            number = int(message["refused"])
            self._first_asked().set_exception(OSError(number, os.strerror(number)))
        else:
            self._workers.pop(int(message["ended"])).code.set_result(int(message["code"]))

    def _first_asked(self) -> Future[Forked]:
        """Who has waited longest for an answer. Raises ValueError when nobody waits for one."""
        if not self._asked:
            raise ValueError("an answer that nobody asked for")
        return self._asked.popleft()


_servers: dict[tuple[tuple[str, str], ...], ForkServer] = {}
_lock = threading.Lock()


def start_ahead(threads: int) -> ForkServer | None:
    """The process that forks workers, started for so many threads if it is not here; None where there can be none. One
    that ended before it could begin is not tried again."""
    if sys.platform != "linux":
        return None
    early = {name: value for name, value in worker_environment(threads).items() if not _is_late(name)}
    key = tuple(sorted(early.items()))
    with _lock:
        server = _servers.get(key)
        if server is None or (not server.alive and server.began):
            try:
                server = _servers[key] = ForkServer(threads)
            except OSError:
                return None
        return server


def ready(threads: int, stopped: Callable[[], bool]) -> ForkServer | None:
    """The same once it can fork; None where workers must start by themselves, or when `stopped` says so meanwhile. One
    whose imports do not come to an end is given up."""
    server = start_ahead(threads)
    deadline = time.monotonic() + IMPORT_TIMEOUT_S
    while server is not None and not server.settled.wait(GLANCE_S):
        if stopped():
            return None
        if time.monotonic() > deadline:
            server.close()
    return server if server is not None and server.usable else None


def _is_late(name: str) -> bool:
    return name in READ_LATE or name.startswith(READ_LATE_PREFIX)


@atexit.register
def _close_all() -> None:
    with _lock:
        servers = list(_servers.values())
    for server in servers:
        server.close()
