"""A compiled step answers request after request alike, its weights packed or not, in real workers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tiny
from driver import WorkerProcess

from optimizers.protocol import Answered, CensusTaken, Load, Loaded, RunRequest, TakeCensus, WarmedUp, WarmUp

LONG, SHORT = "The old captain looked at the sea.", "A short one."
TOKENS = 12

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="compiling needs a C++ compiler")


def answers(log: Path, folder: Path, stack: str, prompts: tuple[str, ...]) -> tuple[list[str], int, int]:
    """The answers of one process to all prompts in turn; how many graphs were compiled until ready, and after it."""
    with WorkerProcess(log) as worker:
        worker.do(Load(tiny.facts(folder), tuple(stack.split("+")), 1, 0, 64), Loaded)
        worker.do(WarmUp(LONG, TOKENS), WarmedUp)
        said = [worker.do(RunRequest(*turn, TOKENS), Answered).output.text for turn in enumerate(prompts)]
        census = worker.do(TakeCensus(), CensusTaken).census
        assert census.cache == ("static" if "compile" in stack else "dynamic")
        compiled = census.compile
        return said, compiled.graphs if compiled else 0, compiled.late_graphs + compiled.recompiles if compiled else 0


def test_answers_are_those_of_plain_pytorch(tiny_llama: Path, own_cache: Path, tmp_path: Path) -> None:
    stack, prompts = "fp32+sdpa+torchao_int8_weight_only", (LONG, SHORT, LONG)
    plain = answers(tmp_path / "plain.log", tiny_llama, stack, prompts)
    assert plain[0][0] == plain[0][2] != plain[0][1]
    assert answers(tmp_path / "compiled.log", tiny_llama, f"{stack}+compile+static_cache", prompts) == (plain[0], 1, 0)
    assert not packed(own_cache)


def test_packed_weights_leave_no_answer_depending_on_the_one_before(
    tiny_llama: Path, own_cache: Path, tmp_path: Path
) -> None:
    stack = "bf16+sdpa+compile+static_cache"
    said, *compiled = answers(tmp_path / "long.log", tiny_llama, stack, (LONG, SHORT, LONG))
    assert compiled == [1, 0]
    assert packed(own_cache)
    turned, *_ = answers(tmp_path / "short.log", tiny_llama, stack, (SHORT, LONG, SHORT))
    assert (said, turned) == ([said[0], said[1], said[0]], [said[1], said[0], said[1]])


def packed(cache: Path) -> bool:
    """Whether the code in the compiler's cache holds weights."""
    return "_frozen_param" in "".join(path.read_text() for path in (cache / "compile").rglob("*.py"))
