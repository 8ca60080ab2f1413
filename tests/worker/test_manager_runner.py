"""The runner against workers that misbehave, and the arithmetic of turns. The workers here are small scripts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import manager_help as help_
import pytest

from optimizers import protocol
from optimizers.errors import WorkerError
from optimizers.manager.turns import processor_share, shuffled
from optimizers.runners import subprocess as runner
from optimizers.runners.logs import Log, plain
from optimizers.runners.subprocess import Gone, Worker
from optimizers.schema import Timing

HEAD = "import os, signal, subprocess, sys, time\nevents = {events}\n"


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Start a worker whose process runs the script given instead."""
    started: list[Worker] = []

    def begin(script: str) -> Worker:
        def spawn(commands: int, events: int, printing: int, *_: object, **__: object) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [sys.executable, "-c", HEAD.format(events=events) + script],
                stdin=subprocess.DEVNULL,
                stdout=printing,
                stderr=printing,
                pass_fds=(commands, events),
                start_new_session=True,
            )

        monkeypatch.setattr(runner, "start_worker", spawn)
        started.append(Worker(tmp_path / f"{len(started)}.log", 1))
        return started[-1]

    yield begin
    for worker in started:
        worker.close(0.0)


def last(worker: Worker) -> Gone:
    """What is said when it ends."""
    while True:
        event = worker.events.get(timeout=240)
        if isinstance(event, Gone):
            return event


@pytest.mark.parametrize(
    "said",
    [
        r"b'not json\n'",
        r"b'[]\n'",
        r"""b'{"kind": "stage"}\n'""",
        r"""b'{"kind": "planned", "run_id": "x"}\n'""",
        r"""b'{"kind": "warmed_up", "warm_up_s": "<script>"}\n'""",
        r"b'\xff\xfe\n'",
    ],
)
def test_a_worker_that_talks_nonsense_is_ended_and_nothing_else(start, said: str) -> None:
    worker = start(f"os.write(events, {said}); time.sleep(600)")
    assert "not an event of the protocol" in last(worker).reason
    assert help_.gone(worker.pid)


def test_a_line_without_end_is_cut_off(start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LONGEST_LINE", 200_000)
    worker = start("while True: os.write(events, b'x' * 60000)")
    assert "not an event of the protocol" in last(worker).reason


def test_a_message_in_pieces_is_one_message(start) -> None:
    worker = start(
        'for piece in (b\'{"kind": "sta\', b\'ge", "text": "a\\\\nb"}\', b\'\\n{"kind": "warmed_up", '
        '"warm_up_s": 1.5}\\n\'):\n    os.write(events, piece); time.sleep(0.05)'
    )
    assert worker.events.get(timeout=240) == protocol.Stage("a\nb")
    assert worker.events.get(timeout=240) == protocol.WarmedUp(1.5)
    last(worker)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("print('the last words'); sys.exit(3)", "Its worker process ended by itself with exit code 3."),
        (
            "print('the last words', flush=True); os.kill(os.getpid(), 9)",
            "was killed, most likely because memory ran out",
        ),
        ("print('the last words', flush=True); os.kill(os.getpid(), 11)", "Its worker process crashed (SIGSEGV)."),
    ],
)
def test_how_it_ended_is_said_and_its_last_words_are_kept(start, script: str, reason: str) -> None:
    worker = start(script)
    assert reason in last(worker).reason
    assert worker.log.tail() == ("the last words",)


def test_a_worker_that_will_not_end_is_killed_with_all_it_started(start) -> None:
    worker = start(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        'print(child.pid, flush=True)\nos.write(events, b\'{"kind": "warmed_up", "warm_up_s": 1}\\n\')\n'
        "time.sleep(600)"
    )
    worker.events.get(timeout=240)
    os.killpg(worker.pid, 0)
    worker.close(0.2)
    assert help_.gone(worker.pid)
    worker.close()  # twice does no harm


def test_a_worker_that_does_not_read_cannot_hold_up_its_end(start) -> None:
    worker = start("time.sleep(600)")
    sender = threading.Thread(target=worker.send, args=(protocol.Tokenize("x" * 1_000_000),))
    sender.start()
    worker.close(0.2)
    sender.join(5)
    assert not sender.is_alive()
    assert help_.gone(worker.pid)


def test_a_process_that_cannot_be_started_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(WorkerError, match="A worker process could not be started: No such file"):
        Worker(tmp_path / "log", 1)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_repeated_lines_are_counted_and_escapes_removed(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    for line in [b"first", *[b"\x1b[31magain\x1b[0m\x07"] * 77_000, b"", b"last \x1b]0;title\x07word"]:
        log.add(line)
    assert log.tail() == ("first", "again", "… repeated 76999 times", "last word")
    log.close()
    assert (tmp_path / "log").read_text() == "first\nagain\n… repeated 76999 times\nlast word\n"


def test_a_log_is_cut_at_its_limit_and_keeps_its_last_lines(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", limit=1000)
    for number in range(10_000):
        log.add(b"line %d" % number)
    assert log.tail()[-1] == "line 9999"
    log.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "line 0" and lines[-1] == "line 9999"
    assert any(line.endswith("more lines were left out. The last ones:") for line in lines)
    assert (tmp_path / "log").stat().st_size < 1400


def test_text_for_a_terminal_is_plain() -> None:
    assert plain("a\x1b[2J\x1b]8;;http://x\x1b\\b\x00\x9b\u202e\tc\n") == "ab\tc\n"


def timing(total: float, waited: float | None, others: float | None, threads: int = 2) -> Timing:
    return Timing(4, 0.0, 0.1, 0.1, 0.0, total, (0.1, total), 0.0, waited, others, threads)


@pytest.mark.parametrize(
    ("cores", "taken", "share"),
    [
        (2, timing(1.0, 0.0, 0.0), 1.0),
        (2, timing(1.0, 0.5, 0.0), 0.75),  # half a second of two
        (2, timing(1.0, 0.0, 0.42), 0.8),  # 0.4 s beyond a tick on each core
        (2, timing(1.0, 0.3, 0.42), 0.8),  # the larger of the two
        (4, timing(1.0, 0.0, 1.9), 1.0),  # two cores are free for others
        (4, timing(1.0, 0.0, 3.04), 0.5),
        (2, timing(1.0, None, None), 1.0),
        (2, timing(1.0, 5.0, 0.0), 0.0),
        (2, timing(0.0, 1.0, 1.0), 1.0),
        (1, timing(2.0, 0.0, 0.51, 1), 0.75),
    ],
)
def test_the_share_of_its_threads_that_a_turn_got(cores: int, taken: Timing, share: float) -> None:
    assert processor_share(taken, cores) == pytest.approx(share)


def test_the_order_of_turns_follows_the_seed_and_changes_from_round_to_round() -> None:
    orders = [tuple(shuffled("abcde", 0, number)) for number in range(20)]
    assert orders == [tuple(shuffled("abcde", 0, number)) for number in range(20)]
    assert all(sorted(order) == list("abcde") for order in orders)
    assert len({order[0] for order in orders}) > 2
    assert orders != [tuple(shuffled("abcde", 1, number)) for number in range(20)]
