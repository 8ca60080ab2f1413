"""Child processes that write what a graph needs: started, listened to line by line, ended with their parent.

A child ends when its standard input ends, which a parent that is killed causes too. Covers the parent's side (`run`)
and the frame of a child (`does`); what a child does is its module's business.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from optimizers import leash
from optimizers.errors import LeversError, WorkerError

_ROOT = Path(__file__).resolve().parents[3]
_FAILED = "Not written: "
_SAVED_LINES = 40
_LONGEST_LINE = 300


def run(
    words: Sequence[str],
    goal: Path,
    *,
    heard: Callable[[str], None],
    wanted: Sequence[str],
    limit_s: float,
    python: str | None = None,
) -> None:
    """Run `python -m words...` in the folder `goal`; `heard` gets each line that it prints. `python` is another
    interpreter than this process's.

    Raises WorkerError unless it ends well within `limit_s` and has left the files `wanted`."""
    child = subprocess.Popen(
        [python or sys.executable, "-m", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(python is None),
        cwd=goal,
    )
    begun = time.monotonic()
    timer = threading.Timer(limit_s, child.kill)
    timer.start()
    last: deque[str] = deque(maxlen=_SAVED_LINES)
    try:
        for text in _lines(child):
            last.append(text)
            heard(text)
        code = child.wait()
    finally:
        timer.cancel()
        leash.end(child)
    if code != 0 or not all((goal / name).is_file() for name in wanted):
        sys.stderr.write("\n".join(last) + "\n")
        late = time.monotonic() - begun >= limit_s
        why = f"it was not done after {limit_s:.0f} seconds." if late else _reason(last, code)
        raise WorkerError(
            f"The ONNX graph could not be written: {why}",
            "Leave ONNX Runtime out for this model; the end of this variant's log says more.",
        )


def does(job: Callable[[], None]) -> int:
    """In a child: do the job, and leave at once when standard input ends. The exit code: 0 when it is done, else 1, and
    the last line says why."""
    threading.Thread(target=leash.end_with_parent, daemon=True).start()
    try:
        job()
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = error.reason if isinstance(error, LeversError) else f"{type(error).__name__}: {lines[0]}"
        sys.stdout.write(f"{_FAILED}{said}\n")
        return 1
    return 0


def _lines(child: subprocess.Popen[bytes]) -> Iterator[str]:
    """What the child writes, a line at a time; of a line that it writes over, the last version."""
    assert child.stdout is not None
    for raw in child.stdout:
        yield raw.decode("utf-8", "replace").rsplit("\r", 1)[-1].strip()[:_LONGEST_LINE]


def _reason(last: deque[str], code: int) -> str:
    if code < 0:
        return f"the process that writes it was killed (signal {-code}), perhaps because memory ran out."
    said = [text.removeprefix(_FAILED) for text in last if text.startswith(_FAILED)]
    said = said or [text for text in last if "Error" in text or "Exception" in text] or [text for text in last if text]
    return (said[-1] if said else "the process that writes it said nothing").rstrip(".") + "."


def _environment(own: bool) -> dict[str, str]:
    """This process's environment, quiet and offline. Another interpreter has paths of its own."""
    paths = [str(_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep) if own else ())]
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONIOENCODING": "utf-8"}
    return {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PYTHONUNBUFFERED": "1"}
