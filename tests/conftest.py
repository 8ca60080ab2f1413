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


@pytest.fixture(scope="session")
def exported_gpt2(tiny_gpt2: Path, tmp_path_factory: pytest.TempPathFactory) -> tiny.Exported:
    """Traced once a session, which takes half a minute: the 8-bit graph is made from the fp32 graph."""
    pytest.importorskip("onnxscript")
    from optimizers.techniques.graphs.loading import find_or_write
    from optimizers.techniques.graphs.recipes import Recipe

    cache = tmp_path_factory.mktemp("exported")
    stages: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVERS_CACHE", str(cache))
        checkpoint = tiny.facts(tiny_gpt2)
        fp32, int8 = (
            find_or_write(checkpoint, Recipe(precision, (), "exporter"), stages.append)
            for precision in ("fp32", "int8")
        )
    return tiny.Exported(cache, fp32, int8, tuple(stages))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for this test and for the processes it starts."""
    monkeypatch.setenv("LEVERS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
