"""One processor core kept busy by a process of its own, for as long as it is wanted and never longer.

Covers starting and ending it. The process is `spin.py` on the program's leash, so that it ends with the program,
however that ends. It runs at normal priority, on whichever core the system gives it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from optimizers import leash
from optimizers.errors import WorkerError

SPINNER = "optimizers.runners.spin"


class BusyCore(AbstractContextManager["BusyCore"]):
    """A core is busy from here to the end of the `with`; `pid` is the process that keeps it so."""

    def __init__(self) -> None:
        """Start it and wait until it spins. Raises WorkerError when it does not."""
        try:
            self._child = leash.start([SPINNER])
        except OSError as error:
            raise _failed(f"{error.strerror}.") from error
        assert self._child.stdout is not None
        said = self._child.stdout.readline()
        if said != b"spinning\n":
            said += self._child.stdout.read()
            leash.end(self._child)
            raise _failed(leash.last_words(said.decode("utf-8", "replace")))
        self.pid = self._child.pid

    def __exit__(self, *_: object) -> None:
        leash.end(self._child)


def _failed(why: str) -> WorkerError:
    return WorkerError(f"The program that keeps a core busy could not be started: {why}", "Run the comparison again.")
