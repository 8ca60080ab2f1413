"""`python -m optimizers.worker --commands FD --events FD`: the loop of a worker; with `--fork FD` a process that forks
such workers.

Reads commands from one inherited pipe and writes events to another; stdout and stderr are for libraries. Ready is sent
before anything heavy is imported. Not for people to start by hand: `runners/` does.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import traceback

from optimizers.protocol import PROTOCOL, Exit, Ready
from optimizers.worker.pipes import Commands, Events, die_with_parent, end_children, own_process_group

# The engine that computes gets its threads from the Load command; every other pool gets one. Nothing is fetched here.
_ENVIRONMENT = {
    "TOKENIZERS_PARALLELISM": "false",
    "RAYON_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


def main(arguments: list[str]) -> int:
    """Run until Exit (0) or until the command pipe ends (killed)."""
    if sys.platform == "win32":
        sys.stderr.write("Levers' workers need a Unix system: Windows has no inherited pipes. Use WSL instead.\n")
        return 2
    options = _options(arguments)
    if options.fork is None:
        return work(options.commands, options.events, options.parent or os.getppid())
    from optimizers.worker import forkserver

    _settle(options.parent or os.getppid())
    os.environ.update(_ENVIRONMENT)
    with socket.socket(fileno=options.fork) as channel:
        return forkserver.serve(channel, _forked)


def work(commands_from: int, events_to: int, parent: int) -> int:
    """A worker's life, in a process of its own whose parent is `parent`."""
    _settle(parent)
    for descriptor in (commands_from, events_to):
        os.set_inheritable(descriptor, False)
    events = Events(events_to)
    commands = Commands(commands_from)
    events.send(Ready(os.getpid(), PROTOCOL))
    os.environ.update(_ENVIRONMENT)
    _serve(commands, events)
    end_children()
    return 0


def _forked(commands_from: int, events_to: int, parent: int) -> int:
    """The same in a forked process, where nothing above it prints what went wrong or empties what it wrote."""
    try:
        return work(commands_from, events_to, parent)
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _settle(parent: int) -> None:
    own_process_group()
    die_with_parent(parent)


def _serve(commands: Commands, events: Events) -> None:
    from optimizers.worker.session import Session, read_command

    session = Session(events.send)
    while True:
        command = read_command(commands.next(), events.send)
        if isinstance(command, Exit):
            return
        if command is not None:
            events.send(session.answer(command))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m optimizers.worker", description="One variant, measured.")
    parser.add_argument("--commands", type=int, help="descriptor that commands are read from")
    parser.add_argument("--events", type=int, help="descriptor that events are written to")
    parser.add_argument("--fork", type=int, help="socket on which to be asked for workers")
    parser.add_argument("--parent", type=int, default=0, help="process id that must be the parent")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
