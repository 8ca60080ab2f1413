"""A worker never outlives its reason to be: its input, its parent, its group. Real processes, killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny
from driver import ROOT, WorkerProcess

from optimizers.protocol import Exit, Ready, RunRequest, Tokens

LONG = 3000


def gone(pid: int, patience_s: float = 60.0) -> bool:
    """Whether the process ends (a zombie has ended) before patience does."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def long_llama(tmp_path: Path) -> Path:
    folder = tiny.make_llama(tmp_path / "long-llama")
    tiny.edit_config(folder, max_position_embeddings=2 * LONG)
    return folder


def test_exit_ends_it_cleanly(tmp_path: Path) -> None:
    with WorkerProcess(tmp_path / "log") as worker:
        assert isinstance(worker.next_event(), Ready)
        worker.send(Exit())
        assert worker.process.wait(timeout=240) == 0


def test_the_end_of_its_input_ends_it_in_the_middle_of_a_request(long_llama: Path, tmp_path: Path) -> None:
    with WorkerProcess(tmp_path / "log") as worker:
        worker.load(long_llama, "fp32", "sdpa")
        worker.send(RunRequest(0, "Tell me everything", LONG))
        assert isinstance(worker.next_event(), Tokens)
        worker.close_input()
        assert worker.process.wait(timeout=240) == -signal.SIGKILL
        rest = b""
        while chunk := os.read(worker.events, 1 << 16):
            rest += chunk
        assert b'"answered"' not in rest


def test_what_it_started_ends_with_it() -> None:
    """The end of the pipe kills the whole group, without asking."""
    code = (
        "import subprocess, sys, time\n"
        "from optimizers.worker.pipes import Commands, own_process_group\n"
        "own_process_group()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "Commands(0)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        child = int(process.stdout.readline())
        assert os.getpgid(child) == process.pid
        process.stdin.close()
        assert process.wait(timeout=240) == -signal.SIGKILL
        assert gone(child)


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_it_ends_with_its_parent_though_its_pipes_stay_open() -> None:
    command_read, command_write = os.pipe()
    event_read, event_write = os.pipe()
    code = (
        "import subprocess, sys, time\n"
        f"fds = ({command_read}, {event_write})\n"
        "worker = subprocess.Popen([sys.executable, '-m', 'optimizers.worker', '--commands', str(fds[0]),\n"
        "    '--events', str(fds[1])], pass_fds=fds, start_new_session=True)\n"
        "print(worker.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    try:
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, pass_fds=(command_read, event_write), cwd=ROOT
        ) as parent:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert b'"ready"' in os.read(event_read, 1 << 16)
            parent.kill()
            parent.wait(timeout=240)
            assert gone(pid)
    finally:
        for descriptor in (command_read, command_write, event_read, event_write):
            os.close(descriptor)


def test_another_parent_than_the_named_one_ends_it_at_once() -> None:
    command_read, command_write = os.pipe()
    event_read, event_write = os.pipe()
    command = [sys.executable, "-m", "optimizers.worker", "--commands", str(command_read), "--events", str(event_write)]
    try:
        with subprocess.Popen(
            [*command, "--parent", "1"],
            pass_fds=(command_read, event_write),
            cwd=ROOT,
        ) as process:
            assert process.wait(timeout=240) == -signal.SIGKILL
    finally:
        for descriptor in (command_read, command_write, event_read, event_write):
            os.close(descriptor)
