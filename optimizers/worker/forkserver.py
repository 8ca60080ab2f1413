"""A process that has imported the heavy libraries once and forks a worker whenever it is asked to.

Spares each worker its three seconds of imports. Forking is safe here because nothing but imports has happened: one
thread, no device touched, no random numbers drawn; a process found otherwise refuses. Each message on the socket is one
JSON object: "ready" once; then each request brings its variables and three descriptors (commands, events, output) and
is answered by the child's "pid"; the "ended" of each child follows. It ends with the program that started it, and by
itself when nobody has worked for a while. What a worker does is in `__main__.py`; who asks is `runners/`'s business.
"""

from __future__ import annotations

import array
import gc
import json
import os
import selectors
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

IDLE_S = 300.0
MESSAGE_BYTES = 1 << 17
DESCRIPTORS = 3

Run = Callable[[int, int, int], int]


def serve(channel: socket.socket, run: Run, idle_s: float = IDLE_S) -> int:
    """Answer requests until the other end closes (0), or nobody has worked for `idle_s` (0). Does not begin when the
    libraries left a second thread running (3). `run` is a worker's life: it gets the two descriptors and the parent's
    process id, and gives the exit code."""
    _import_libraries()
    if len(list(Path("/proc/self/task").iterdir())) != 1:
        return 3
    gc.collect()
    gc.freeze()  # so that a collection in a child does not touch, and so copy, what all share
    _say(channel, {"ready": True})
    children: dict[int, int] = {}
    with selectors.DefaultSelector() as waiting:
        waiting.register(channel, selectors.EVENT_READ)
        while happened := waiting.select(None if children else idle_s):
            for key, _ in happened:
                if key.fileobj is not channel:
                    waiting.unregister(key.fd)
                    _say(channel, _farewell(children.pop(key.fd), key.fd))
                elif (request := _request(channel)) is None:
                    return 0
                else:
                    pid = _fork(*request, run, [channel.fileno(), waiting.fileno(), *children])
                    watch = os.pidfd_open(pid)
                    children[watch] = pid
                    waiting.register(watch, selectors.EVENT_READ)
                    _say(channel, {"pid": pid})
    return 0


def _import_libraries() -> None:
    """What the load and the first request of every PyTorch worker import."""
    import torchao.quantization
    import transformers.modeling_utils
    import transformers.models.auto.modeling_auto

    from optimizers.worker import census, generating, loading, scoring, session, text_scoring

    del torchao, transformers, census, generating, loading, scoring, session, text_scoring


def _say(channel: socket.socket, message: Mapping[str, object]) -> None:
    channel.send(json.dumps(message).encode())


def _request(channel: socket.socket) -> tuple[dict[str, str], list[int]] | None:
    """The variables to set and the three descriptors of the next worker; None when the other end has closed."""
    data, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, DESCRIPTORS)
    if len(descriptors) != DESCRIPTORS:
        return None
    return json.loads(data)["environment"], list(array.array("i", descriptors))


def _farewell(pid: int, watch: int) -> dict[str, int]:
    """How a child ended: its exit code, or minus its signal."""
    os.close(watch)
    _, status = os.waitpid(pid, 0)
    return {"ended": pid, "code": os.waitstatus_to_exitcode(status)}


def _fork(environment: dict[str, str], descriptors: list[int], run: Run, mine: list[int]) -> int:
    """Process id of a new worker. Its three descriptors are its own alone afterwards, and `mine` are not its."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(environment, descriptors, run, mine, parent)
    for descriptor in descriptors:
        os.close(descriptor)
    return pid


def _live(environment: dict[str, str], descriptors: list[int], run: Run, mine: list[int], parent: int) -> NoReturn:
    """In the child: become what a worker started by itself is, and end as one."""
    code = 1
    try:
        os.setsid()
        for descriptor in mine:
            os.close(descriptor)
        commands, events, printing = descriptors
        for standard in (1, 2):
            os.dup2(printing, standard)
        os.close(printing)
        os.environ.update(environment)
        code = run(commands, events, parent)
    finally:
        os._exit(code)
