"""Jobs run a few at a time, in order, on threads that do not hold up the end of the program.

concurrent.futures would wait for its jobs before anything registered with atexit may run, so a page that is closed
while variants load would stay until they have loaded. Knows nothing of workers.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence


def abreast(jobs: Sequence[Callable[[], object]], at_once: int) -> None:
    """Run every job, at most `at_once` at a time, the first ones first, and return when all are over.

    Raises what the first of the failed ones raised, first by place."""
    waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    errors: dict[int, BaseException] = {}

    def work() -> None:
        while (place := waiting.get()) is not None:
            try:
                jobs[place]()
            except BaseException as error:
                errors[place] = error

    for place in range(len(jobs)):
        waiting.put(place)
    threads = [threading.Thread(target=work, name="levers-prepare", daemon=True) for _ in range(at_once)]
    for thread in threads:
        waiting.put(None)
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
