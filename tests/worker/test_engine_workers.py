"""An engine's environment for real: made by pip once for the whole file, a worker in it beside one in the program's.

The checkpoint is the tiny Llama with another rotary base and a list of special tokens, both written as transformers 5
writes them, which the older transformers in the environment passes over or refuses when left to itself.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import manager_help as help_
import psutil
import pytest
import takeaway_records
import tiny
import torch
from driver import WorkerProcess

from optimizers import engines, takeaway
from optimizers.errors import Cancelled, WorkerError
from optimizers.manager.board import Board
from optimizers.manager.live import Live
from optimizers.manager.member import Member
from optimizers.protocol import (
    Answered,
    CensusTaken,
    MemoryTaken,
    Passage,
    Reference,
    RunRequest,
    Score,
    Scored,
    TakeCensus,
    TakeMemory,
    Tokenize,
    Tokenized,
)
from optimizers.store import Store
from optimizers.techniques import all_techniques
from optimizers.techniques.graphs import older

TECHNIQUE = "optimum_onnxruntime"
PROMPT = "The old captain"
TOKENS = 12
THETA = 30.0
CONTEXT, TARGETS = tuple(range(5, 35)), tuple(range(40, 60))
# The tiny Llama: vocabulary 384, width 64, 2 layers, inner width 128, keys and values 32 wide, tied.
WEIGHTS = 384 * 64 + 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 128)
NORM = 64  # all five are alike, and the exporter keeps one


@pytest.fixture(scope="module")
def checkpoint(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny-llama"
    shutil.copytree(tiny_llama, folder)
    tiny.edit_config(folder, rope_parameters={"rope_theta": THETA, "rope_type": "default"})
    path = folder / "tokenizer_config.json"
    said = json.loads(path.read_text()) | {"extra_special_tokens": ["<|user|>", "<|assistant|>"]}
    path.write_text(json.dumps(said))
    return folder


@pytest.fixture(scope="module")
def said(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What both workers said: PyTorch in the program's environment, then the graph in the engine's."""
    logs = tmp_path_factory.mktemp("logs")
    text = (Path(__file__).parents[2] / "assets" / "human_text.txt").read_text()
    reference = Reference(str(logs / "rows"), tiny.VOCABULARY, 0, 1000)
    passages = (
        Passage("answer:0", "timed", CONTEXT, TARGETS, 0),
        Passage("text:0", "one_pass", CONTEXT, TARGETS, len(TARGETS)),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVERS_CACHE", str(tmp_path_factory.mktemp("cache")))
        python = engines.ready(str(all_techniques()[TECHNIQUE].engine), lambda text, share: None)
        patch.setenv("PYTHONPATH", str(Path(engines.__file__).parents[2]))
        found: dict[str, Any] = {"python": python}
        for name, stack, interpreter in (("torch", "sdpa", None), ("graph", TECHNIQUE, python)):
            with WorkerProcess(logs / f"{name}.log", interpreter) as worker:
                found[name] = {
                    "loaded": worker.load(checkpoint, "fp32", stack),
                    "answered": worker.do(RunRequest(0, PROMPT, TOKENS), Answered),
                    "tokens": worker.do(Tokenize(text + "<|user|> <|end|>"), Tokenized).token_ids,
                    "scored": worker.do(Score(passages, reference, "write" if name == "torch" else "read"), Scored),
                    "census": worker.do(TakeCensus(), CensusTaken),
                    "memory": worker.do(TakeMemory(), MemoryTaken),
                }
        yield found


def test_the_graph_in_the_engines_environment_is_the_model(said: dict[str, Any]) -> None:
    plain, graph = said["torch"], said["graph"]
    assert graph["tokens"] == plain["tokens"]
    assert graph["answered"].prompt_ids == plain["answered"].prompt_ids
    assert graph["answered"].output.token_ids == plain["answered"].output.token_ids
    assert graph["answered"].output.text == plain["answered"].output.text
    assert len(graph["answered"].timing.token_times_s) == TOKENS
    assert 0 < graph["answered"].timing.prefill_s < graph["answered"].timing.ttft_s
    for scores in graph["scored"].scores:
        assert len(scores.kl_divergence) == len(TARGETS)
        assert max(scores.kl_divergence) < 1e-6


def test_the_recipe_answers_as_the_worker_does(said: dict[str, Any], checkpoint: Path, tmp_path: Path) -> None:
    """In the engine's environment, from a checkpoint that its older library would read wrongly."""
    run = takeaway_records.on(checkpoint, ("fp32", TECHNIQUE), PROMPT, TOKENS)
    script = takeaway.recipe(run, run.baseline)
    told = takeaway_records.answer(script, tmp_path / "here", str(said["python"]))
    assert told == said["graph"]["answered"].output.text


def test_the_recipe_of_a_traced_graph_in_few_bits_runs(said: dict[str, Any], tiny_gpt2: Path, tmp_path: Path) -> None:
    """It is not the path that is measured, and not the same layers are converted."""
    run = takeaway_records.on(tiny_gpt2, ("fp32", "onnxruntime_int8"), PROMPT, TOKENS)
    assert takeaway_records.answer(takeaway.recipe(run, run.baseline), tmp_path / "here", str(said["python"]))


def test_a_rotary_base_that_is_passed_over_would_show(checkpoint: Path) -> None:
    """What the older library computes when it reads the config as it stands: the default base. A gate sees that."""
    from transformers import AutoConfig, AutoModelForCausalLM

    right = AutoConfig.from_pretrained(checkpoint)
    wrong = AutoConfig.from_pretrained(checkpoint)
    wrong.rope_parameters = {"rope_theta": 10_000.0, "rope_type": "default"}
    ids = torch.tensor([CONTEXT])
    with torch.inference_mode():
        base, other = (
            torch.log_softmax(AutoModelForCausalLM.from_pretrained(checkpoint, config=config)(ids).logits, -1)
            for config in (right, wrong)
        )
    assert float((base.exp() * (base - other)).sum(-1).mean()) > 0.01
    read = older.config(json.loads((checkpoint / "config.json").read_text()))
    assert (read["rope_theta"], read["rope_scaling"], "rope_parameters" in read) == (THETA, None, False)


def test_rotary_embeddings_of_other_kinds_are_read_or_refused() -> None:
    scaled = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0}
    read = older.config({"model_type": "llama", "rope_parameters": scaled | {"partial_rotary_factor": 0.5}})
    assert read == {
        "model_type": "llama",
        "rope_theta": 5e5,
        "partial_rotary_factor": 0.5,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0},
    }
    assert older.config({"rope_theta": 1e6}) == {"rope_theta": 1e6}
    with pytest.raises(WorkerError, match="layers differ"):
        older.config({"rope_parameters": {"full_attention": scaled, "sliding_attention": scaled}})


def test_the_census_is_read_from_the_graph_and_its_session(said: dict[str, Any]) -> None:
    taken, memory = said["graph"]["census"], said["graph"]["memory"].memory
    assert taken.obstacle is None
    census = taken.census
    assert census.providers == ("CPUExecutionProvider",)
    assert census.operators["MatMul"] == 2 * 9 + 1 + 1  # a layer's seven and its attention's two; head, angles
    assert census.operators["Softmax"] == 2
    assert (census.attention, census.attention_kernel) == ("unfused", "ONNX Runtime")
    assert census.bytes_by_dtype == {"float32": 4 * (WEIGHTS + NORM)}
    assert census.inference_mode
    assert "Held against PyTorch" in census.checked
    assert memory.weights_bytes == 4 * (WEIGHTS + NORM)
    assert memory.disk_bytes > memory.weights_bytes
    assert said["graph"]["loaded"].cost.prepare_s > 0
    (note,) = said["graph"]["loaded"].notes
    assert "transformers 4.57.6" in note


@pytest.fixture
def silent_index(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package index that takes calls and never answers, and is the only one that pip knows."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.getsockname()[1]}/simple")
        yield


@pytest.mark.usefixtures("silent_index")
def test_stopping_ends_pip_at_once_and_leaves_nothing(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERS_CACHE", str(tmp_path / "cache"))
    plan = help_.plan_for(tiny_llama, TECHNIQUE)
    folder = Store(tmp_path / "runs").create(plan)
    live = Live(folder.id, plan)
    board = Board(plan, folder, live)
    raised: list[BaseException] = []

    def start() -> None:
        try:
            Member(board, plan.variants[1]).start()
        except BaseException as error:
            raised.append(error)

    others = set(psutil.Process().children())  # a browser of other tests, for one
    thread = threading.Thread(target=start)
    thread.start()
    try:
        deadline = time.monotonic() + help_.PATIENCE_S
        while not (children := set(psutil.Process().children()) - others) or not any(
            "installing Optimum" in lane.stage for lane in live.snapshot().lanes
        ):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        began = time.monotonic()
        board.stop()
        thread.join(help_.PATIENCE_S)
    assert time.monotonic() - began < 2.0
    assert [type(error) for error in raised] == [Cancelled]
    assert not [child for child in children if child.is_running()]
    assert [path.suffix for path in (tmp_path / "cache" / "engines").iterdir()] == [".lock"]
    folder.close()
