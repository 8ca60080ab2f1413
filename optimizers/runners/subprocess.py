"""A worker as a process of its own: started, spoken to by two pipes, ended for certain.

Covers the process and its pipes. What to say to it, and when, is the manager's business. Every line that comes back is
untrusted: one that is too long or does not check ends that worker, never this program.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from optimizers.errors import WorkerError
from optimizers.protocol import Command, WorkerEvent, line
from optimizers.runners.forking import Forked, ForkServer
from optimizers.runners.logs import Log
from optimizers.runners.starting import Process, start_worker
from optimizers.schema import from_json
from optimizers.settings import EXIT_GRACE_S

LONGEST_LINE = 64 << 20
CHUNK_BYTES = 1 << 16
LAST_WORDS_S = 1.0
_ORPHANED = (
    "Its worker process ended because the process that it was forked from ended, perhaps because memory ran out.",
    "Run the comparison again; if it happens again, close other programs or compare fewer variants at once.",
)


@dataclass(frozen=True)
class Gone:
    """A worker has ended, or said something that cannot be understood; `reason` is a sentence."""

    reason: str
    remedy: str


class Worker:
    """One worker process. `events` gets all that it says, in order, and Gone once at the end."""

    def __init__(
        self,
        log_path: Path,
        threads: int,
        listen: Callable[[WorkerEvent], bool] | None = None,
        engine: Path | None = None,
        server: ForkServer | None = None,
    ) -> None:
        """Start it. `listen` sees each event first, on the reader's thread, and keeps it when it returns True. `engine`
        is the interpreter of another environment, where the worker is to run in one; `server` is what it is to be
        forked from, where it is.

        Raises WorkerError when the process cannot be started."""
        self.events: queue.SimpleQueue[WorkerEvent | Gone] = queue.SimpleQueue()
        self._listen = listen
        self._closing = False
        self._lock = threading.Lock()
        self._sweeping = threading.Lock()
        self._swept = False
        self.log = Log(log_path)
        try:
            printed = self._start(threads, engine, server)
        except OSError as error:
            self.log.close()
            raise WorkerError(
                f"A worker process could not be started: {error.strerror}.", "Close other programs and try again."
            ) from error
        self._pump = threading.Thread(target=self.log.pump, args=(printed,), name="levers-log", daemon=True)
        self._reader = threading.Thread(target=self._read, name="levers-events", daemon=True)
        self._pump.start()
        self._reader.start()

    def _start(self, threads: int, engine: Path | None, server: ForkServer | None) -> int:
        """Start the process; the end of the pipe that its output comes from. A fork that fails has pipes of its own, in
        which it may have spoken already. Raises OSError."""
        commands, self._commands = os.pipe()
        self._events, events = os.pipe()
        printed, printing = os.pipe()
        try:
            start = server.fork if server else partial(start_worker, engine=engine)
            self._process: Process = start(commands, events, printing, threads)
        except OSError:
            for descriptor in (self._commands, self._events, printed):
                os.close(descriptor)
            if server is None:
                raise
        else:
            return printed
        finally:
            for descriptor in (commands, events, printing):
                os.close(descriptor)
        return self._start(threads, engine, None)

    @property
    def pid(self) -> int:
        """Process id, which is its process group's too."""
        return self._process.pid

    def send(self, command: Command) -> None:
        """Hand over one command. A worker that has ended says so through `events`."""
        data = memoryview(line(command))
        with self._lock, contextlib.suppress(BrokenPipeError, OSError):
            while data and self._commands >= 0:
                data = data[os.write(self._commands, data) :]

    def close(self, grace_s: float = EXIT_GRACE_S) -> None:
        """End it: close its input, wait a little, then kill the whole process group. Returns when it is gone."""
        self._closing = True
        if grace_s <= 0 or not self._lock.acquire(timeout=grace_s):
            self._kill()  # also frees a writer that waits for a worker which does not read
            self._lock.acquire()
        try:
            first = self._commands >= 0
            if first:
                os.close(self._commands)
                self._commands = -1
        finally:
            self._lock.release()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._sweep()
        self._reader.join(LAST_WORDS_S)
        self._pump.join(LAST_WORDS_S)

    def _sweep(self) -> None:
        """Once it has ended: end what it started and what outlived it, at once, while the number of the group can be no
        other's."""
        with self._sweeping:
            if not self._swept:
                self._kill_group()
            self._swept = True

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._kill_group()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _read(self) -> None:
        """Take events until the pipe ends or a line does not check."""
        rest = bytearray()
        reason: Gone | None = None
        with os.fdopen(self._events, "rb", buffering=0) as pipe:
            while reason is None and (chunk := pipe.read(CHUNK_BYTES)):
                rest += chunk
                if b"\n" in chunk:
                    *lines, last = bytes(rest).split(b"\n")
                    rest = bytearray(last)
                    reason = next((gone for gone in map(self._take, lines) if gone), None)
                if len(rest) > LONGEST_LINE:
                    reason = _nonsense()
        if reason is not None:
            self._kill()
            self._process.wait()
            self._sweep()
        self.events.put(reason or self._obituary())

    def _take(self, text: bytes) -> Gone | None:
        try:
            event = from_json(WorkerEvent, text)
        except ValueError:
            return _nonsense()
        if self._listen is None or self._listen(event):
            self.events.put(event)
        return None

    def _obituary(self) -> Gone:
        """How it ended, in words. Waits for the exit code and for the last lines of its log."""
        try:
            code = self._process.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            self._kill()
            code = self._process.wait()
        self._sweep()
        if not self._closing:
            self._pump.join(LAST_WORDS_S)
        if isinstance(self._process, Forked) and self._process.orphaned:
            return Gone(*_ORPHANED)
        return Gone(*_ending(code))


def _nonsense() -> Gone:
    return Gone(
        "Its worker sent something that is not an event of the protocol, so it was ended.",
        "Run the comparison again; if it happens again, leave this variant out.",
    )


def _ending(code: int) -> tuple[str, str]:
    """Reason and remedy for an exit code (negative: the signal)."""
    again = "Look at the last lines of its log; run it again, or leave this variant out."
    if code == -signal.SIGKILL:
        return (
            "Its worker process was killed, most likely because memory ran out.",
            "Close other programs, compare fewer variants at once, or choose a smaller model.",
        )
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"Its worker process crashed ({name}).", again
    return f"Its worker process ended by itself with exit code {code}.", again
