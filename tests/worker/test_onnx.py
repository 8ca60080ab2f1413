"""ONNX graphs in real workers and beside PyTorch in this process, on the tiny Llama: written, believed, right, counted.

Byte counts are worked out by hand. Two graphs are written for the whole file, each by a child process.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from driver import WorkerProcess, facts

from optimizers.errors import WorkerError
from optimizers.protocol import (
    Answered,
    CensusTaken,
    Load,
    Loaded,
    MemoryTaken,
    Passage,
    Reference,
    RunRequest,
    Score,
    Scored,
    Stage,
    TakeCensus,
    TakeMemory,
)
from optimizers.techniques.graphs import builder_graph, decoder, gate, store
from optimizers.techniques.graphs.loading import FOLDER, check_window
from optimizers.techniques.graphs.recipes import Recipe

# The tiny Llama: vocabulary 384, width 64, 2 layers, inner width 128, keys and values 32 wide, tied, context 256.
EMBEDDING = 384 * 64
LINEARS = 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 128)
NORMS = 5 * 64
ROTARY = 2 * 256 * 8
PROMPT = "The old captain"
TOKENS = 12
FP32 = ("fp32", "onnxruntime")
INT4 = ("fp32", "onnxruntime_int4")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVERS_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def written(cache: Path, tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What workers said: PyTorch, the fp32 graph on its first and its second load, and the 4-bit graph."""
    logs = tmp_path_factory.mktemp("logs")
    said: dict[str, Any] = {}
    reference = Reference(str(logs / "rows"), 384, 0, 1000)
    context, targets = tuple(range(5, 25)), tuple(range(30, 42))
    passages = (
        Passage("answer:0", "timed", context, targets, 0),
        Passage("text:0", "one_pass", context, targets, len(targets)),
    )
    cases = {"torch": ("fp32", "sdpa"), "first": FP32, "again": FP32, "int4": INT4}
    for name, techniques in cases.items():
        with WorkerProcess(logs / f"{name}.log") as worker:
            loaded = worker.load(tiny_llama, *techniques)
            said[name] = {
                "loaded": loaded,
                "stages": [stage.text for stage in worker.stages],
                "answered": worker.do(RunRequest(0, PROMPT, TOKENS), Answered),
                "census": worker.do(TakeCensus(), CensusTaken),
                "memory": worker.do(TakeMemory(), MemoryTaken),
                "scored": worker.do(Score(passages, reference, "write" if name == "torch" else "read"), Scored),
            }
    return said


def graph_folder(cache: Path, tiny_llama: Path, recipe: Recipe) -> Path:
    return cache / FOLDER / store.key(facts(tiny_llama), recipe)


def test_the_graph_answers_as_pytorch_does_and_is_scored_by_both_paths(written: dict[str, Any]) -> None:
    graph, plain = written["first"], written["torch"]
    assert graph["answered"].output.token_ids == plain["answered"].output.token_ids
    assert graph["answered"].output.generated == TOKENS
    timing = graph["answered"].timing
    assert len(timing.token_times_s) == TOKENS
    assert 0 < timing.prefill_s <= timing.ttft_s
    for scores in graph["scored"].scores:
        assert len(scores.kl_divergence) == TOKENS
        assert max(scores.kl_divergence) < 1e-6
        assert all(scores.same_top)
    timed, one_pass = written["int4"]["scored"].scores
    assert max(timed.kl_divergence) > 0.01  # 4 bits do show on weights that are noise
    assert timed.kl_divergence == pytest.approx(one_pass.kl_divergence, rel=0.01, abs=1e-4)


def test_buffers_that_no_request_needs_are_let_go(written: dict[str, Any], cache: Path, tiny_llama: Path) -> None:
    """A text of 200 tokens in one pass, between requests of 64."""
    graph = builder_graph.BuilderGraph(graph_folder(cache, tiny_llama, Recipe("fp32")), 1, 64)
    state = graph.start(1, 10)
    first = state.buffers
    del state
    assert graph.start(1, 64).buffers is first
    long = graph.start(1, 200)
    assert long.buffers.capacity == 256
    del long
    assert [spare.capacity for spare in graph._spare] == []
    assert graph.start(1, 10).buffers.capacity == 64


def test_writing_is_shown_and_counted_as_preparing_and_happens_once(written: dict[str, Any]) -> None:
    first, again = written["first"], written["again"]
    assert "writing the ONNX graph: layer 2 of 2" in first["stages"]
    assert first["loaded"].cost.prepare_s > again["loaded"].cost.prepare_s
    assert not any("writing" in text for text in again["stages"])
    assert again["answered"].output.token_ids == first["answered"].output.token_ids


def test_the_census_counts_operators_providers_and_bytes(written: dict[str, Any]) -> None:
    taken = written["first"]["census"]
    assert taken.obstacle is None
    census = taken.census
    assert census.providers == ("CPUExecutionProvider",)
    assert census.operators["GroupQueryAttention"] == 2
    assert census.operators["MatMul"] == 2 * 5 + 1  # queries, keys and values are one product
    assert (census.attention, census.attention_kernel) == ("GroupQueryAttention", "ONNX Runtime")
    assert census.bytes_by_dtype == {"float32": 4 * (LINEARS + EMBEDDING + NORMS + ROTARY)}
    assert census.modules_converted == 0
    assert census.inference_mode
    assert "padded batch" in census.checked
    assert census.prompt_logits == "last"
    assert census.demand is not None
    assert census.demand.weights_bytes == 4 * (LINEARS + EMBEDDING + NORMS + 2 * 8)  # one row of the angles
    memory = written["first"]["memory"].memory
    assert memory.weights_bytes == sum(census.bytes_by_dtype.values())
    assert memory.disk_bytes > memory.weights_bytes


def test_four_bit_weights_are_counted_as_packed(written: dict[str, Any]) -> None:
    taken = written["int4"]["census"]
    assert taken.obstacle is None
    census = taken.census
    assert census.operators["MatMulNBits"] == 11
    # half a byte a weight, the tied table once; an fp32 scale for each block of 32, symmetric: no zero points
    scales = (LINEARS + EMBEDDING) // 32
    assert census.bytes_by_dtype == {
        "uint8": (LINEARS + EMBEDDING) // 2,
        "float32": 4 * (scales + NORMS + ROTARY),
    }
    assert census.modules_converted >= 11
    assert sum(census.bytes_by_dtype.values()) < written["first"]["memory"].memory.weights_bytes / 2


def test_padded_batches_give_what_pytorch_gives(written: dict[str, Any], cache: Path, tiny_llama: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = graph_folder(cache, tiny_llama, Recipe("fp32"))
    graph = decoder.load_model(folder, str(tiny_llama), 1, 8, 0.0)
    plain = AutoModelForCausalLM.from_pretrained(tiny_llama).eval()
    ids = torch.tensor([[1, 1, 1, 5, 9, 33], [7, 8, 9, 10, 11, 12], [1, 4, 5, 6, 7, 8]])
    mask = torch.tensor([[0, 0, 0, 1, 1, 1], [1] * 6, [0] + [1] * 5])
    said = {"max_new_tokens": 100, "do_sample": False, "eos_token_id": None, "pad_token_id": 1}
    with torch.inference_mode():
        # 100 tokens are more than there was room for: the buffers grow on the way
        ours, theirs = (model.generate(input_ids=ids, attention_mask=mask, **said) for model in (graph, plain))
        assert torch.equal(ours, theirs)
        one_pass = graph(input_ids=ids, attention_mask=mask, use_cache=False).logits
        difference = (one_pass - plain(input_ids=ids, attention_mask=mask).logits).abs() * mask[..., None]
    assert float(difference.max()) < 1e-3
    found = gate.measure(graph, folder)
    assert max(map(abs, (found.single, found.batch, found.padding))) < 1e-6


def test_the_gate_stops_a_graph_of_another_model(
    written: dict[str, Any], cache: Path, tiny_llama: Path, tmp_path: Path
) -> None:
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "graph"
    shutil.copytree(graph_folder(cache, tiny_llama, Recipe("fp32")), folder)
    kept = load_file(folder / "reference.safetensors")
    save_file(
        {name: value[..., ::-1].copy() if value.ndim == 2 else value for name, value in kept.items()},
        folder / "reference.safetensors",
    )
    graph = decoder.load_model(folder, str(tiny_llama), 1, 8, 0.0)
    with pytest.raises(WorkerError, match="single prompt"):
        gate.check(graph, folder, quantized=False)
    gate.check(graph, folder, quantized=True)  # which asks only whether padding changes anything


def test_a_request_longer_than_the_attention_window_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"sliding_window": 16}')
    check_window(tmp_path, 16)
    with pytest.raises(WorkerError, match="attends to 16 tokens"):
        check_window(tmp_path, 17)
    (tmp_path / "config.json").write_text('{"sliding_window": 16, "use_sliding_window": false}')
    check_window(tmp_path, 17)


def test_a_killed_worker_ends_its_export_and_leaves_nothing_to_believe(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERS_CACHE", str(tmp_path / "cache"))
    with WorkerProcess(tmp_path / "log") as worker:
        worker.send(Load(facts(tiny_llama), FP32, 1, 0, 64))
        while not (isinstance(event := worker.next_event(), Stage) and event.text.startswith("writing")):
            assert not isinstance(event, Loaded)
        children = _children(worker.pid)
        os.kill(worker.pid, signal.SIGKILL)
        psutil.wait_procs(children, timeout=240)
        assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    graphs = tmp_path / "cache" / FOLDER
    assert not [path for path in graphs.iterdir() if store.is_whole(path)]


def _children(pid: int) -> list[psutil.Process]:
    """The worker's children; the export has been started when its first stage comes, or comes up at once."""
    process = psutil.Process(pid)
    while not (found := process.children(recursive=True)):
        time.sleep(0.02)
    return found
