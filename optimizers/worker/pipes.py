"""The worker's two pipes and the ways in which it ends.

Covers reading commands, writing events, and ending with the parent. The meaning of a command is in `session.py`.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import sys
import threading
from typing import NoReturn

from optimizers.protocol import WorkerEvent, line

_PR_SET_PDEATHSIG = 1
_READ_BYTES = 1 << 16


def own_process_group() -> None:
    """Lead a process group, so that ending the group ends the worker and its children and nobody else."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)


def end_group_now() -> NoReturn:
    """Kill this process and everything it started, whatever it is doing."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def end_children() -> None:
    """Ask what this process started to end, and stay."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends (Linux); end at once when that has happened already.

    The signal follows the thread that spawned; elsewhere than on Linux the end of the command pipe does this alone.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        end_group_now()


class Commands:
    """The lines that arrive. A thread owns the pipe: when it ends, the process group ends, whatever it does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def next(self) -> bytes:
        """The next line; blocks, using no processor time, until there is one."""
        return self._lines.get()

    def _read(self) -> None:
        rest = b""
        while chunk := self._chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for text in lines:
                self._lines.put(text)
        end_group_now()

    def _chunk(self) -> bytes:
        try:
            return os.read(self._descriptor, _READ_BYTES)
        except OSError:
            return b""


class Events:
    """Where events go. A reader that is gone ends the worker."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, event: WorkerEvent) -> None:
        """Write one event as one line."""
        data = memoryview(line(event))
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except BrokenPipeError:
                end_group_now()
