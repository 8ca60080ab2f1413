"""Workers forked from a process that has imported the libraries: like workers that start by themselves, without the
wait; and every way in which that process can fail to be there."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import manager_help as help_
import psutil
import pytest
from tiny import facts

from optimizers import protocol
from optimizers.runners import forking
from optimizers.runners.subprocess import Gone, Worker

THREADS = 2


@pytest.fixture
def server() -> forking.ForkServer:
    found = forking.ready(THREADS, lambda: False)
    assert found is not None
    return found


def load(folder: Path) -> protocol.Load:
    return protocol.Load(facts(folder), ("fp32", "sdpa"), 1, 0, 64)


def closing(worker: Worker) -> object:
    while isinstance(event := worker.events.get(timeout=help_.PATIENCE_S), protocol.Ready | protocol.Stage):
        pass
    return event


def ended(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not psutil.pid_exists(pid)


def test_a_forked_worker_answers_in_a_session_of_its_own_and_ends(
    server: forking.ForkServer, tiny_llama: Path, tmp_path: Path
) -> None:
    worker = Worker(tmp_path / "log", THREADS, server=server)
    worker.send(load(tiny_llama))
    assert isinstance(closing(worker), protocol.Loaded)
    process = psutil.Process(worker.pid)
    assert process.ppid() == server._process.pid
    assert os.getsid(worker.pid) == os.getpgid(worker.pid) == worker.pid
    pipes = {str(link.readlink()) for link in Path(f"/proc/{worker.pid}/fd").iterdir()}
    assert not any(name.startswith("socket:") for name in pipes)  # it cannot ask for workers itself
    worker.close()
    assert help_.gone(worker.pid)
    assert worker._process.poll() == -signal.SIGKILL  # a command pipe that ends is the end at once


def test_an_end_by_a_signal_is_told_and_the_server_lives_on(server: forking.ForkServer, tmp_path: Path) -> None:
    worker = Worker(tmp_path / "log", THREADS, server=server)
    os.kill(worker.pid, signal.SIGSEGV)
    while not isinstance(event := worker.events.get(timeout=help_.PATIENCE_S), Gone):
        pass
    assert "SIGSEGV" in event.reason
    assert worker._process.wait(10) == -signal.SIGSEGV
    with pytest.raises(subprocess.TimeoutExpired):
        forking.Forked(1).wait(0.01)
    assert server.usable
    assert forking.ready(THREADS, lambda: False) is server


def test_a_worker_sees_the_variables_of_now(
    server: forking.ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERS_CACHE", str(tmp_path / "elsewhere"))
    assert forking.ready(THREADS, lambda: False) is server
    assert forking.late_environment(THREADS)["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "elsewhere" / "compile")
    assert "HOME" not in forking.late_environment(THREADS)


def test_a_server_that_is_killed_takes_its_workers_along_and_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMETHING_ELSE", "an environment of its own")
    server = forking.ready(THREADS, lambda: False)
    assert server is not None
    worker = Worker(tmp_path / "log", THREADS, server=server)
    os.kill(server._process.pid, signal.SIGKILL)
    while not isinstance(event := worker.events.get(timeout=help_.PATIENCE_S), Gone):
        pass
    assert "killed" in event.reason
    assert ended(worker.pid)
    again = forking.ready(THREADS, lambda: False)
    assert again is not None and again is not server
    with pytest.raises(OSError, match="has ended"):
        server.fork(0, 1, 2, {})
    alone = Worker(tmp_path / "alone.log", THREADS, server=server)
    assert isinstance(alone._process, subprocess.Popen)
    alone.close()
    again.close()


def test_libraries_that_cannot_be_imported_leave_workers_to_start_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchao").mkdir()
    (tmp_path / "torchao" / "__init__.py").write_text("raise ImportError('broken here')")
    monkeypatch.setattr("optimizers.runners.forking.worker_environment", _with_path(tmp_path))
    assert forking.ready(THREADS, lambda: False) is None
    first = forking.start_ahead(THREADS)
    assert first is not None and not first.began
    assert forking.start_ahead(THREADS) is first  # what failed is not tried again


def _with_path(folder: Path):
    root = Path(forking.__file__).parent.parent.parent
    return lambda threads: {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{root}"}


def test_a_stop_does_not_wait_for_the_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING_ELSE", "not imported yet")
    assert forking.ready(THREADS, lambda: True) is None
    server = forking.start_ahead(THREADS)
    assert server is not None
    server.close()


def test_other_systems_start_each_worker_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert forking.start_ahead(THREADS) is None
    assert forking.ready(THREADS, lambda: False) is None


@pytest.mark.parametrize("said", [b"not JSON", b'{"pid": "x"}', b'{"ended": 7, "code": 0}', b"[]", b'{"pid": 7}'])
def test_a_server_that_talks_nonsense_is_ended(said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "optimizers" / "worker"
    package.mkdir(parents=True)
    (tmp_path / "optimizers" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        f"import socket, sys, time\nsocket.socket(fileno=int(sys.argv[2])).send({said!r})\ntime.sleep(600)\n"
    )
    server = forking.ForkServer({**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"})
    assert server.settled.wait(help_.PATIENCE_S)
    assert not server.usable
    assert ended(server._process.pid)


@pytest.mark.parametrize(("idle_s", "closed"), [(0.1, False), (600.0, True)])
def test_it_ends_when_nobody_works_for_a_while_and_when_nobody_can_ask(idle_s: float, closed: bool) -> None:
    code = (
        "import socket, sys\nfrom optimizers.worker.forkserver import serve\n"
        "sys.exit(serve(socket.socket(fileno=int(sys.argv[1])), lambda *_: 0, float(sys.argv[2])))"
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        words = [sys.executable, "-c", code, str(theirs.fileno()), str(idle_s)]
        process = subprocess.Popen(words, pass_fds=(theirs.fileno(),), env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        theirs.close()
        assert ours.recv(100) == b'{"ready": true}'
        if closed:
            ours.close()
        assert process.wait(help_.PATIENCE_S) == 0
