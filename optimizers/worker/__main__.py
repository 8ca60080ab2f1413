"""`python -m optimizers.worker --commands FD --events FD`: the loop of a worker.

Reads commands from one inherited pipe and writes events to another; stdout and stderr are for libraries. Ready is sent
before anything heavy is imported. Not for people to start by hand: `runners/` does.
"""

from __future__ import annotations

import argparse
import os
import sys

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
    own_process_group()
    die_with_parent(options.parent or os.getppid())
    for descriptor in (options.commands, options.events):
        os.set_inheritable(descriptor, False)
    events = Events(options.events)
    commands = Commands(options.commands)
    events.send(Ready(os.getpid(), PROTOCOL))
    os.environ.update(_ENVIRONMENT)
    _serve(commands, events)
    end_children()
    return 0


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
    parser.add_argument("--commands", type=int, required=True, help="descriptor that commands are read from")
    parser.add_argument("--events", type=int, required=True, help="descriptor that events are written to")
    parser.add_argument("--parent", type=int, default=0, help="process id that must be the parent")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
