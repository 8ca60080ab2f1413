"""One request clocked part by part in real workers: the parts add up, every kind of variant has them, and nothing of
the clocks is left behind."""

from __future__ import annotations

import shutil
from dataclasses import astuple
from pathlib import Path

import pytest
import tiny
from driver import WorkerProcess

from optimizers.profiles import RequestProfile, TimeParts
from optimizers.protocol import Answered, CensusTaken, Failed, Load, Loaded, Profile, Profiled, RunRequest, TakeCensus

PROMPT = "The sea, the sea, the sea, the old captain looked at the sea"
NEW_TOKENS = 24


def test_parts_by_hand() -> None:
    """Ids at 1 s; the prompt's pass from 2 to 4, then two more; the first token comes at 4.5, the next two together."""
    from optimizers.worker.profiling import Marks, split

    passes = [(2.0, 4.0), (5.0, 6.0), (8.0, 8.5)]
    found = split(Marks(0.0, 1.0, 10.0, 10.25), passes, [4.5, 6.25, 6.25, 9.0])
    # Sampling: 0.5, 0.25 and 0.5. Python: the 9 s between ids and the last token without the 2 + 1.5 + 1.25 of others.
    assert found == TimeParts(1.0, 2.0, 1.5, 1.25, 4.25, 0.25)


def check(found: RequestProfile) -> None:
    parts = astuple(found.parts)
    assert all(part >= 0 for part in parts)
    assert sum(parts) == pytest.approx(found.total_s, rel=1e-9)
    assert found.parts.prefill > 0
    assert found.parts.decode > 0
    assert found.parts.sampling > 0
    assert found.parts.python > 0
    assert found.parts.tokenize > 0
    assert found.new_tokens == NEW_TOKENS


@pytest.mark.parametrize("name", ["", "static_cache", "no_cache", "prompt_lookup", "sampling"])
def test_parts_add_up_to_the_request_and_the_next_one_is_as_before(name: str, tiny_llama: Path, tmp_path: Path) -> None:
    with WorkerProcess(tmp_path / "log") as worker:
        worker.load(tiny_llama, *filter(None, ("fp32", "sdpa", name)))
        before = worker.do(RunRequest(0, PROMPT, NEW_TOKENS), Answered)
        found = worker.do(Profile(PROMPT, NEW_TOKENS), Profiled).profile
        after = worker.do(RunRequest(1, PROMPT, NEW_TOKENS), Answered)
    check(found)
    assert found.passes == before.timing.steps
    assert found.prompt_tokens == len(before.prompt_ids)
    assert (found.passes < NEW_TOKENS) is (name == "prompt_lookup")
    assert after.output.token_ids == before.output.token_ids
    assert after.timing.prefill_s > 0


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling needs a C++ compiler")
def test_a_compiled_step_is_clocked_from_outside_and_not_compiled_anew(tiny_llama: Path, tmp_path: Path) -> None:
    with WorkerProcess(tmp_path / "log") as worker:
        worker.do(Load(tiny.facts(tiny_llama), ("fp32", "sdpa", "compile", "static_cache"), 1, 0, 64), Loaded)
        before = worker.do(RunRequest(0, PROMPT, NEW_TOKENS), Answered)
        counted = worker.do(TakeCensus(), CensusTaken).census.compile
        found = worker.do(Profile(PROMPT, NEW_TOKENS), Profiled).profile
        after = worker.do(RunRequest(1, PROMPT, NEW_TOKENS), Answered)
        assert worker.do(TakeCensus(), CensusTaken).census.compile == counted
    assert counted is not None
    assert counted.graphs > 0
    check(found)
    assert found.passes == NEW_TOKENS
    assert after.output.token_ids == before.output.token_ids


def test_a_graph_is_clocked_like_a_model(
    exported_gpt2: tiny.Exported, tiny_gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERS_CACHE", str(exported_gpt2.cache))
    with WorkerProcess(tmp_path / "log") as worker:
        worker.load(tiny_gpt2, "fp32", "onnxruntime")
        found = worker.do(Profile(PROMPT, NEW_TOKENS), Profiled).profile
    check(found)
    assert found.passes == NEW_TOKENS


def test_what_cannot_be_answered_is_refused_and_the_clocks_are_gone(tiny_llama: Path, tmp_path: Path) -> None:
    with WorkerProcess(tmp_path / "log") as worker:
        worker.load(tiny_llama, "fp32", "sdpa")
        assert "at least 1" in worker.do(Profile(PROMPT, 0), Failed).remedy
        one = worker.do(Profile(PROMPT, 1), Profiled).profile
    assert (one.passes, one.parts.decode) == (1, 0.0)
