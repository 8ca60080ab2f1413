"""A real worker process at the end of two pipes, for tests."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tiny import facts

from optimizers.protocol import Command, Failed, Load, Loaded, Ready, Stage, Tokens, WorkerEvent, line
from optimizers.runners import forking
from optimizers.runners.starting import Process, start_worker
from optimizers.schema import from_json

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 240.0
THREADS = 2


class WorkerProcess:
    """A worker, started as a runner starts it: forked, or by itself where `python` says which interpreter. `tokens` and
    `stages` collect what came before each closing event."""

    def __init__(self, log: Path, python: Path | None = None, threads: int = THREADS) -> None:
        command_read, self.commands = os.pipe()
        self.events, event_write = os.pipe()
        self.log = log
        self.tokens: list[Tokens] = []
        self.stages: list[Stage] = []
        self._rest = b""
        with log.open("wb") as sink:
            ends = (command_read, event_write, sink.fileno())
            if python is None:
                server = forking.ready(THREADS, lambda: False)
                assert server is not None
                self.process: Process = server.fork(*ends, threads)
            else:
                self.process = start_worker(*ends, threads, python)
        os.close(command_read)
        os.close(event_write)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close_input()
        self.process.wait(timeout=240)
        os.close(self.events)

    @property
    def pid(self) -> int:
        return self.process.pid

    def close_input(self) -> None:
        if self.commands >= 0:
            os.close(self.commands)
            self.commands = -1

    def send(self, command: Any) -> None:
        self.send_raw(line(command, Command))

    def send_raw(self, data: bytes) -> None:
        os.write(self.commands, data)

    def next_event(self) -> Any:
        """The next event; raises when the worker ends or stays silent."""
        deadline = time.monotonic() + PATIENCE_S
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.events], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self.events, 1 << 16) if ready else b""
            if not chunk:
                raise AssertionError(f"the worker is gone or silent: {self.log.read_text()[-3000:]}")
            self._rest += chunk
        text, self._rest = self._rest.split(b"\n", 1)
        return from_json(WorkerEvent, text)

    def closing(self) -> Any:
        """The next event that closes a command."""
        while True:
            event = self.next_event()
            if isinstance(event, Tokens):
                self.tokens.append(event)
            elif isinstance(event, Stage):
                self.stages.append(event)
            elif not isinstance(event, Ready):
                return event

    def ask(self, command: Any) -> Any:
        """Send one command and return its closing event, whatever it is."""
        self.tokens, self.stages = [], []
        self.send(command)
        return self.closing()

    def do(self, command: Any, kind: type) -> Any:
        """Like `ask`; fails unless the closing event is a `kind`."""
        event = self.ask(command)
        assert isinstance(event, kind), event if isinstance(event, Failed) else type(event)
        return event

    def load(self, folder: Path, *techniques: str, threads: int = 1) -> Loaded:
        event: Loaded = self.do(Load(facts(folder), techniques, threads, 0, 64), Loaded)
        return event
