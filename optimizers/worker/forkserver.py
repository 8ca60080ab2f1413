"""A process that has imported the heavy libraries once and forks a worker whenever it is asked to.

Spares each worker its three seconds of imports. Forking is safe here because nothing but imports has happened: one
thread, no device touched, no random numbers drawn; a process found otherwise refuses. Each message on the socket is one
JSON object: "ready" once; then each request brings its variables and three descriptors (commands, events, output) and
is answered by the child's "pid" or by "refused" with an error number; the "ended" of each child follows. It ends with
the program that started it, and by itself when nobody has worked for a while. What a worker does is in `__main__.py`;
who asks is `runners/`'s business.
"""

from __future__ import annotations

import array
import gc
import json
import os
import selectors
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

IDLE_S = 300.0
MESSAGE_BYTES = 1 << 17
DESCRIPTORS = 3

Run = Callable[[int, int, int], int]
Variables = dict[str, str | None]


def serve(channel: socket.socket, run: Run, idle_s: float = IDLE_S) -> int:
    """Answer requests until the other end closes (0), or nobody has worked for `idle_s` (0). Does not begin when the
    libraries left a second thread running, or the kernel cannot tell of a child's end (3). `run` is a worker's life: it
    gets the two descriptors and the parent's process id, and gives the exit code."""
    _import_libraries()
    if len(list(Path("/proc/self/task").iterdir())) != 1 or not _tells_of_ends():
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
                    _say(channel, _answer(request, run, channel, waiting, children))
    return 0


def _tells_of_ends() -> bool:
    """Whether a child's end can be waited for along with the socket (Linux 5.3, and allowed in this container)."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def _answer(
    request: tuple[Variables, list[int]],
    run: Run,
    channel: socket.socket,
    waiting: selectors.DefaultSelector,
    children: dict[int, int],
) -> dict[str, int]:
    """A new worker, or why there is none; those that live are not touched by it."""
    variables, descriptors = request
    try:
        pid = _fork(variables, descriptors, run, [channel.fileno(), waiting.fileno(), *children])
        watch = _watched(pid)
    except OSError as error:
        return {"refused": error.errno or 0}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    children[watch] = pid
    waiting.register(watch, selectors.EVENT_READ)
    return {"pid": pid}


def _watched(pid: int) -> int:
    """A descriptor that tells of the child's end; a child that cannot be watched is ended. Raises OSError."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _import_libraries() -> None:
    """What the load and the first request of every PyTorch worker import."""
    import torchao.quantization
    import transformers.modeling_utils
    import transformers.models.auto.modeling_auto

    from optimizers.worker import census, generating, loading, scoring, session, text_scoring

    del torchao, transformers, census, generating, loading, scoring, session, text_scoring


def _say(channel: socket.socket, message: Mapping[str, object]) -> None:
    channel.send(json.dumps(message).encode())


def _request(channel: socket.socket) -> tuple[Variables, list[int]] | None:
    """The variables to set (None: to take away) and the three descriptors of the next worker; None when the other end
    has closed."""
    data, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, DESCRIPTORS)
    if len(descriptors) != DESCRIPTORS:
        return None
    return json.loads(data)["environment"], list(array.array("i", descriptors))


def _farewell(pid: int, watch: int) -> dict[str, int]:
    """How a child ended: its exit code, or minus its signal."""
    os.close(watch)
    _, status = os.waitpid(pid, 0)
    return {"ended": pid, "code": os.waitstatus_to_exitcode(status)}


def _fork(variables: Variables, descriptors: list[int], run: Run, mine: list[int]) -> int:
    """Process id of a new worker, in which `mine` are closed. Raises OSError."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(variables, descriptors, run, mine, parent)
    return pid


def _live(variables: Variables, descriptors: list[int], run: Run, mine: list[int], parent: int) -> NoReturn:
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
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        code = run(commands, events, parent)
    finally:
        os._exit(code)
