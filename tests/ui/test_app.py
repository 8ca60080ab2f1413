"""What the page costs before anyone presses anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
from serving import ROOT, Served

IDLE_LIMIT_BYTES = 300 * 1000**2


def test_import_app_imports_neither_torch_nor_transformers(own_cache: Path) -> None:
    code = "import sys, app; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_idle_page_is_small(real_page: Served) -> None:
    server = psutil.Process(real_page.pid)
    family = [server, *server.children(recursive=True)]
    assert sum(process.memory_info().rss for process in family) < IDLE_LIMIT_BYTES
