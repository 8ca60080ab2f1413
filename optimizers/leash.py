"""Child processes that end with their parent: fetching and installing (pip) and converting (torch) run in one each.

The parent keeps the child's standard input open and says nothing; the end of that input, which a parent killed with
SIGKILL causes too, ends the child. Covers starting, watching and reading back a child that does one thing and exits, or
is ended. The workers that measure are not started here (`runners/`).
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

_ROOT = Path(__file__).resolve().parents[1]
_LOOK_AGAIN_S = 0.25
_TAIL_CHARACTERS = 400


def run(
    arguments: Sequence[str],
    *,
    while_waiting: Callable[[], None],
    environment: Mapping[str, str],
    python: str | None = None,
) -> tuple[int, str]:
    """Run `python -m arguments...` on a leash and return its exit code and what it printed, both streams together.

    `python` is the interpreter, by default this program's. `while_waiting` is called about four times a second; when it
    raises, the child is killed and the error goes on."""
    child = start(arguments, environment, python)
    try:
        return _wait(child, while_waiting)
    finally:
        end(child)


def start(
    arguments: Sequence[str], environment: Mapping[str, str] = MappingProxyType({}), python: str | None = None
) -> subprocess.Popen[bytes]:
    """Begin the same and give back the child, which `end` or the end of this program ends. Raises OSError."""
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [python or sys.executable, "-m", "optimizers.leash", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **environment},
    )


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child that `start` gave; it is gone on return."""
    if child.poll() is None:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def _wait(child: subprocess.Popen[bytes], while_waiting: Callable[[], None]) -> tuple[int, str]:
    """Read the child's output in a thread, so that its input stays open until it has ended."""
    said: list[bytes] = []
    assert child.stdout is not None
    reader = threading.Thread(target=lambda: said.extend(child.stdout or ()), daemon=True)
    reader.start()
    while True:
        try:
            code = child.wait(_LOOK_AGAIN_S)
        except subprocess.TimeoutExpired:
            while_waiting()
            continue
        reader.join()
        return code, b"".join(said).decode("utf-8", "replace")


def last_words(said: str) -> str:
    """The end of what a child printed, on one line, for a person to read."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:] or ["it said nothing."]
    return " ".join(errors)[-_TAIL_CHARACTERS:]


def end_with_parent() -> None:
    """Block until standard input ends, then leave at once, whatever else runs in this process."""
    while os.read(0, 1024):
        pass
    os._exit(1)


def _main() -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
