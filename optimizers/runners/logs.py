"""What a worker's libraries print: kept in a file of limited size, repeated lines counted, the last ones at hand.

Covers cutting into lines, counting, the limit, and making text safe to show. Whose log it is, is the runner's business.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from pathlib import Path

from optimizers.settings import LOG_LIMIT_BYTES, LOG_TAIL_LINES

LONGEST_LINE = 4096
CHUNK_BYTES = 1 << 16
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Text without terminal escapes, control characters (tabs and newlines stay) and direction overrides."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


class Log:
    """One worker's log. `pump` fills it from a pipe in a thread of its own until the pipe ends."""

    def __init__(self, path: Path, limit: int = LOG_LIMIT_BYTES) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._room = limit
        self._left_out = 0
        self._last: str | None = None
        self._repeats = 0
        self._tail: deque[str] = deque(maxlen=LOG_TAIL_LINES)
        self._lock = threading.Lock()

    def pump(self, descriptor: int) -> None:
        """Read the pipe to its end, then close both."""
        rest = b""
        with os.fdopen(descriptor, "rb", buffering=0) as pipe:
            while chunk := pipe.read(CHUNK_BYTES):
                *lines, rest = re.split(rb"[\r\n]+", rest + chunk)
                for line in lines:
                    self.add(line)
                if len(rest) > LONGEST_LINE:
                    self.add(rest)
                    rest = b""
        self.add(rest)
        self.close()

    def add(self, line: bytes) -> None:
        """Take one line; a repeated one is only counted, an empty one passed over."""
        text = plain(line[:LONGEST_LINE].decode("utf-8", "replace")).rstrip()
        if not text:
            return
        with self._lock:
            if text == self._last:
                self._repeats += 1
                return
            self._say_repeats()
            self._last = text
            self._keep(text)

    def tail(self) -> tuple[str, ...]:
        """The last lines, with what is known of a repetition that still goes on."""
        with self._lock:
            repeated = [f"… repeated {self._repeats} times"] if self._repeats else []
            return (*self._tail, *repeated)[-LOG_TAIL_LINES:]

    def close(self) -> None:
        """Write what is pending and close the file; the last lines stay at hand."""
        with self._lock:
            self._say_repeats()
            if self._left_out and not self._file.closed:
                self._file.write(f"… {self._left_out} more lines were left out. The last ones:\n")
                self._file.writelines(f"{line}\n" for line in self._tail)
            self._file.close()

    def _say_repeats(self) -> None:
        if self._repeats:
            self._keep(f"… repeated {self._repeats} times")
            self._repeats = 0

    def _keep(self, text: str) -> None:
        self._tail.append(text)
        size = len(text.encode()) + 1
        if size > self._room or self._left_out:
            self._left_out += 1
        elif not self._file.closed:
            self._file.write(text + "\n")
            self._file.flush()
            self._room -= size
