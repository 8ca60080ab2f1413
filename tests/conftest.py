"""What every test may use: tiny checkpoints made once a session, and a cache folder of the test's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import tiny


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_llama(tmp_path_factory.mktemp("checkpoints") / "tiny-llama")


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_gpt2(tmp_path_factory.mktemp("checkpoints") / "tiny-gpt2")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for this test and for the processes it starts."""
    monkeypatch.setenv("LEVERS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
