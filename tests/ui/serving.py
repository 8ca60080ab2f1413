"""Serving the page in a process of its own, for the browser tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
STARTS_WITHIN_S = 300


@dataclass(frozen=True)
class Served:
    address: str
    pid: int


@contextmanager
def serving(
    command: list[str],
    port: int,
    cache: Path,
    own_cache: bool = True,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Served]:
    """A page served by `command` until the block ends; its output is shown when it does not start. Without `own_cache`
    the page takes the cache that the environment names, and `cache` gets its log alone. `more` is put into its
    environment."""
    environment = {
        **os.environ,
        **({"LEVERS_CACHE": str(cache)} if own_cache else {}),
        "LEVERS_PORT": str(port),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, HERE, HERE.parent))),
        **more,
    }
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "server.log").open("wb") as log:
        server = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(address, server, cache / "server.log")
            yield Served(address, server.pid)
        finally:
            server.terminate()
            server.wait(30)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"The page was not served:\n{log.read_text(errors='replace')[-2000:]}")
