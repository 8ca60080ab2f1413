"""What the page costs before anyone presses anything."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from serving import ROOT, Served, free_port

from optimizers.errors import UsageError
from optimizers.settings import settings
from optimizers.ui import launch

IDLE_LIMIT_BYTES = 300 * 1000**2
IDLE_LIMIT_CORES = 0.045  # with the thousand looks a second that Gradio comes with: 0.07


def test_import_app_imports_neither_torch_nor_transformers(own_cache: Path) -> None:
    code = "import sys, app; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_idle_page_is_small(real_page: Served) -> None:
    server = psutil.Process(real_page.pid)
    family = [server, *server.children(recursive=True)]
    assert sum(process.memory_info().rss for process in family) < IDLE_LIMIT_BYTES


def test_the_idle_page_leaves_the_processor_alone(real_page: Served) -> None:
    server = psutil.Process(real_page.pid)

    def spent_s() -> float:
        return sum(server.cpu_times()[:2])

    time.sleep(2)  # for what its start left to do
    before = spent_s()
    time.sleep(5)
    assert (spent_s() - before) / 5 < IDLE_LIMIT_CORES


def test_a_port_that_is_taken_is_said_in_a_sentence(own_cache: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        environment = {**os.environ, "LEVERS_PORT": str(port)}
        done = subprocess.run([sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"The page cannot be served at 127.0.0.1 on port {port}: it is taken, or not for this program to use "
        f"(Cannot find empty port in range: {port}-{port}). "
        "End what listens there, or name another place by LEVERS_PORT and LEVERS_HOST."
    )
    assert "Traceback" not in done.stderr


def test_another_cause_is_named_and_a_port_that_is_none_is_said(caplog: pytest.LogCaptureFixture) -> None:
    class Unserved:
        _queue = SimpleNamespace()

        def queue(self, **_: object) -> None:
            pass

        def launch(self, **_: object) -> None:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")

    with pytest.raises(UsageError) as caught:
        launch(Unserved(), settings({"LEVERS_HOST": "192.0.2.1", "LEVERS_PORT": "abc"}))  # type: ignore[arg-type]
    assert caught.value.reason == (
        "The page cannot be served at 192.0.2.1 on any port from 7860 on: it is taken, or not for this program to use "
        "(Cannot assign requested address)."
    )
    assert caplog.messages == ["LEVERS_PORT is no port (1 to 65535), so it counts as absent."]
