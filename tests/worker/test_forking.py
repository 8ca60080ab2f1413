"""Workers forked from a process that has imported the libraries: like workers that start by themselves, without the
wait; and every way in which that process can fail to be there."""

from __future__ import annotations

import errno
import json
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


def test_variables_that_are_read_late_start_no_other_server_and_are_handed_on_as_they_are_now(
    server: forking.ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERS_CACHE", str(tmp_path / "elsewhere"))
    assert forking.ready(THREADS, lambda: False) is forking.ready(1, lambda: False) is server
    late = server._late(1)
    assert late["OMP_NUM_THREADS"] == "1"
    assert late["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "elsewhere" / "compile")
    assert "HOME" not in late
    monkeypatch.setattr(server, "_started_with", {"LEVERS_PORT": "1", "HOME": "/"})
    assert server._late(1)["LEVERS_PORT"] is None
    assert "HOME" not in server._late(1)


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
    assert event.reason.startswith("Its worker process ended because the process that it was forked from ended")
    assert ended(worker.pid)
    again = forking.ready(THREADS, lambda: False)
    assert again is not None and again is not server
    with pytest.raises(OSError, match="has ended"):
        server.fork(0, 1, 2, THREADS)
    alone = Worker(tmp_path / "alone.log", THREADS, server=server)
    assert isinstance(alone._process, subprocess.Popen)
    alone.close()
    again.close()


def test_libraries_that_cannot_be_imported_leave_workers_to_start_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchao").mkdir()
    (tmp_path / "torchao" / "__init__.py").write_text("raise ImportError('broken here')")
    monkeypatch.setattr(forking, "worker_environment", _with_path(tmp_path))
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


@pytest.mark.parametrize(
    "said", [b"not JSON", b'{"pid": "x"}', b'{"ended": 7, "code": 0}', b"[]", b'{"pid": 7}', b'{"refused": 11}']
)
def test_a_server_that_talks_nonsense_is_ended(said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "optimizers" / "worker"
    package.mkdir(parents=True)
    (tmp_path / "optimizers" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        f"import socket, sys, time\nsocket.socket(fileno=int(sys.argv[2])).send({said!r})\ntime.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}
    monkeypatch.setattr(forking, "worker_environment", lambda threads: environment)
    server = forking.ForkServer(THREADS)
    assert server.settled.wait(help_.PATIENCE_S)
    assert not server.usable
    assert ended(server._process.pid)


class Channel:
    """Stands in for the socket: answers, or breaks, inside the sending."""

    def __init__(self, server: forking.ForkServer, broken: bool = False) -> None:
        self._server, self._broken = server, broken

    def sendmsg(self, *_: object) -> int:
        if self._broken:
            raise OSError(errno.EPIPE, "broken")
        self._server._take({"pid": 7})
        return 1


def test_an_answer_that_is_here_before_the_sending_has_returned_finds_who_asked(
    server: forking.ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(server, "_channel", Channel(server))
        assert server.fork(0, 1, 2, THREADS).pid == 7
        patch.setattr(server, "_channel", Channel(server, broken=True))
        with pytest.raises(OSError, match="broken"):
            server.fork(0, 1, 2, THREADS)
    del server._workers[7]
    assert not server._asked
    worker = Worker(tmp_path / "log", THREADS, server=server)  # who asks next gets an answer of its own
    assert isinstance(worker._process, forking.Forked)
    worker.close()


def test_a_server_that_starts_while_all_are_closed_does_not_disturb_that(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late:
        closed = 0

        def close(self) -> None:
            Late.closed += 1
            servers[(("late", str(Late.closed)),)] = Late()

    servers: dict[object, object] = {(("first", ""),): Late()}
    monkeypatch.setattr(forking, "_servers", servers)
    forking._close_all()
    assert Late.closed == 1


class Served:
    """The worker's half in a process of its own, with `run` as a worker's life, and the socket to ask it on."""

    def __init__(self, run: str = "lambda *_: 0", before: str = "", idle_s: float = 600.0) -> None:
        code = (
            "import errno, json, os, socket, sys\nfrom optimizers.worker import forkserver\n"
            f"{before}\nsys.exit(forkserver.serve(socket.socket(fileno=int(sys.argv[1])), {run}, {idle_s}))"
        )
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-c", code, str(theirs.fileno())]
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "LEVERS_PORT": "1"}
            self.process = subprocess.Popen(words, pass_fds=(theirs.fileno(),), env=environment)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.process.wait(help_.PATIENCE_S)

    def says(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(self.socket.recv(1000))
        return found

    def ask(self, variables: dict[str, str | None]) -> int:
        """Ask for a worker; the end of its events."""
        (commands, _), (events, theirs) = os.pipe(), os.pipe()
        socket.send_fds(self.socket, [json.dumps({"environment": variables}).encode()], [commands, theirs, theirs])
        os.close(theirs)
        return events


def test_variables_are_set_and_taken_away_before_the_worker_lives() -> None:
    told = 'lambda c, e, p: os.write(e, json.dumps([os.environ.get("LEVERS_PORT"), os.environ["X"], p]).encode()) * 0'
    with Served(told) as served:
        assert served.says() == {"ready": True}
        events = served.ask({"LEVERS_PORT": None, "X": "1"})
        pid = served.says()["pid"]
        assert json.loads(os.read(events, 100)) == [None, "1", served.process.pid]
        assert served.says() == {"ended": pid, "code": 0}


@pytest.mark.parametrize("broken", ["fork", "pidfd_open"])
def test_a_fork_that_fails_is_refused_and_those_that_live_live_on(broken: str) -> None:
    """The first worker lives; for the second the system has no room; the third can be had again."""
    before = (
        f"real, times = os.{broken}, []\n"
        "def scarce(*arguments):\n"
        "    times.append(1)\n"
        f"    if len(times) == {2 if broken == 'fork' else 3}:\n"  # the first pidfd_open is a trial
        "        raise OSError(errno.EAGAIN, 'no room')\n"
        "    return real(*arguments)\n"
        f"os.{broken} = scarce\n"
    )
    with Served('lambda c, e, p: len(os.read(c, 1)) if os.environ["X"] == "1" else 7', before) as served:
        assert served.says() == {"ready": True}
        served.ask({"X": "1"})
        first = served.says()["pid"]
        events = served.ask({"X": "2"})
        assert served.says() == {"refused": errno.EAGAIN}
        assert os.read(events, 1) == b""
        served.ask({"X": "3"})
        third = served.says()["pid"]
        assert served.says() == {"ended": third, "code": 7}
        assert psutil.pid_exists(first)


def test_it_does_not_begin_where_it_could_not_tell_of_an_end() -> None:
    with Served(before="def none(pid):\n    raise OSError(errno.ENOSYS, 'not here')\nos.pidfd_open = none") as served:
        assert served.socket.recv(100) == b""
        assert served.process.wait(help_.PATIENCE_S) == 3


def test_it_ends_when_nobody_works_for_a_while() -> None:
    with Served(idle_s=0.1) as served:
        assert served.says() == {"ready": True}
        assert served.process.wait(help_.PATIENCE_S) == 0


def test_it_ends_when_nobody_can_ask_it_any_more() -> None:
    with Served() as served:
        assert served.says() == {"ready": True}
        served.socket.close()
        assert served.process.wait(help_.PATIENCE_S) == 0


def test_a_server_that_does_not_answer_fails_that_start_alone(
    server: forking.ForkServer, tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Worker(tmp_path / "first.log", THREADS, server=server)
    monkeypatch.setattr(forking, "FORK_TIMEOUT_S", 0.2)
    os.kill(server._process.pid, signal.SIGSTOP)
    try:
        second = Worker(tmp_path / "second.log", THREADS, server=server)
        assert isinstance(second._process, subprocess.Popen)
    finally:
        os.kill(server._process.pid, signal.SIGCONT)
    first.send(load(tiny_llama))
    assert isinstance(closing(first), protocol.Loaded)
    for worker in (first, second):
        worker.close()
    monkeypatch.undo()
    third = Worker(tmp_path / "third.log", THREADS, server=server)  # the late answer was not taken for this one's
    third.send(load(tiny_llama))
    assert isinstance(closing(third), protocol.Loaded)
    third.close()


def test_imports_without_an_end_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torchao").mkdir()
    (tmp_path / "torchao" / "__init__.py").write_text("import time\ntime.sleep(600)")
    monkeypatch.setattr(forking, "worker_environment", _with_path(tmp_path))
    monkeypatch.setattr(forking, "IMPORT_TIMEOUT_S", 0.2)
    assert forking.ready(THREADS, lambda: False) is None
    stuck = forking.start_ahead(THREADS)
    assert stuck is not None and not stuck.usable
    assert ended(stuck._process.pid)
