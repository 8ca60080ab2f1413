"""Graphs that transformers' exporter traced, on the tiny GPT-2: learned positions, Conv1D layers, a tied head. Held
against PyTorch in this process and run by a worker that finds them in the cache.

Byte counts are worked out by hand. The fp32 graph is traced once for the whole session.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from driver import WorkerProcess
from safetensors.numpy import load_file, save_file

from optimizers.errors import WorkerError
from optimizers.protocol import Answered, CensusTaken, MemoryTaken, RunRequest, TakeCensus, TakeMemory
from optimizers.techniques.graphs import decoder, export, facts, gate, tracing
from optimizers.techniques.graphs.loading import find_or_write
from optimizers.techniques.graphs.names import GRAPH, REFERENCE
from optimizers.techniques.graphs.recipes import Recipe

# The tiny GPT-2: vocabulary 384, width 64, 2 layers, inner width 256, 256 learned positions, tied.
TABLE = 384 * 64
POSITIONS = 256 * 64
LINEARS = 2 * (64 * 192 + 64 * 64 + 64 * 256 + 256 * 64)
BIASES = 2 * (192 + 64 + 256 + 64)
NORMS = 5 * 2 * 64
FEW = 1024  # bytes of constants such as an epsilon
PROMPT = "The old captain"
TOKENS = 12


@pytest.fixture(scope="module")
def plain(tiny_gpt2: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tiny_gpt2).eval()


@pytest.fixture
def int4(exported_gpt2: tiny.Exported, tiny_gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LEVERS_CACHE", str(exported_gpt2.cache))
    stages: list[str] = []
    yield find_or_write(tiny.facts(tiny_gpt2), Recipe("int4", (), "exporter"), stages.append)
    assert not any("tracing" in text for text in stages)  # it is made from the fp32 graph


def files(cache: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.suffix != ".lock"}


def test_steps_are_told_while_the_graph_is_traced(exported_gpt2: tiny.Exported) -> None:
    told = " ".join(exported_gpt2.stages)
    assert all(f"step {number} of 4" in told for number in (1, 2, 3, 4))
    assert exported_gpt2.stages[-1] == "quantizing the ONNX graph"


def test_a_worker_finds_the_graph_and_answers_as_pytorch_does(
    exported_gpt2: tiny.Exported, tiny_gpt2: Path, plain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer

    monkeypatch.setenv("LEVERS_CACHE", str(exported_gpt2.cache))
    before = files(exported_gpt2.cache)
    with WorkerProcess(tmp_path / "log") as worker:
        worker.load(tiny_gpt2, "fp32", "onnxruntime")
        stages = [stage.text for stage in worker.stages]
        answered = worker.do(RunRequest(0, PROMPT, TOKENS), Answered)
        taken = worker.do(TakeCensus(), CensusTaken)
        memory = worker.do(TakeMemory(), MemoryTaken).memory
    assert files(exported_gpt2.cache) == before
    assert not any("writing" in text for text in stages)
    ids = AutoTokenizer.from_pretrained(tiny_gpt2)(PROMPT, return_tensors="pt")["input_ids"]
    said = plain.generate(input_ids=ids, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0)
    natural = said[0, ids.shape[1] :].tolist()
    natural = natural[: natural.index(0)] if 0 in natural else natural
    assert list(answered.output.token_ids) == natural
    assert answered.output.generated == TOKENS
    assert taken.obstacle is None
    census = taken.census
    assert census.providers == ("CPUExecutionProvider",)
    assert (census.operators["Gemm"], census.operators["Softmax"]) == (8, 2)
    assert (census.attention, census.attention_kernel) == ("unfused", "ONNX Runtime")
    weights = 4 * (TABLE + POSITIONS + LINEARS + BIASES + NORMS)
    assert weights <= census.bytes_by_dtype["float32"] < weights + FEW  # the tied head is stored once
    assert memory.weights_bytes == sum(census.bytes_by_dtype.values())
    assert memory.disk_bytes > memory.weights_bytes


def test_single_prompts_and_padded_batches_give_what_pytorch_gives(
    exported_gpt2: tiny.Exported, tiny_gpt2: Path, plain: Any
) -> None:
    graph = decoder.load_model(exported_gpt2.fp32, str(tiny_gpt2), 1, 8, 0.0)
    found = gate.check(graph, exported_gpt2.fp32, quantized=False)
    assert max(map(abs, (found.single, found.batch, found.padding))) < 1e-6
    ids = torch.tensor([[1, 1, 1, 5, 9, 33], [7, 8, 9, 10, 11, 12], [1, 4, 5, 6, 7, 8]])
    mask = torch.tensor([[0, 0, 0, 1, 1, 1], [1] * 6, [0] + [1] * 5])
    said = {"max_new_tokens": 40, "do_sample": False, "eos_token_id": None, "pad_token_id": 1}
    with torch.inference_mode():
        ours, theirs = (model.generate(input_ids=ids, attention_mask=mask, **said) for model in (graph, plain))
        assert torch.equal(ours, theirs)
        first = graph(input_ids=ids[:, :3], attention_mask=mask[:, :3])
        rest = graph(input_ids=ids[:, 3:], attention_mask=mask, cache=first.cache).logits
        one_pass = graph(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=3).logits
    assert torch.allclose(rest, one_pass, atol=1e-4)  # several tokens after a padded beginning are no trouble here


def test_every_layer_of_the_8_bit_graph_is_converted_and_the_tables_are_named(
    exported_gpt2: tiny.Exported, tiny_gpt2: Path
) -> None:
    read = quantized(exported_gpt2.int8, tiny_gpt2, 0.01)
    assert read.converted == read.operators["MatMulNBits"] == 9  # four layers in each of two blocks, and the head
    assert read.bytes_by_dtype["uint8"] == LINEARS + TABLE
    left = 4 * (TABLE + POSITIONS + BIASES + NORMS + (LINEARS + TABLE) // 32)
    assert left <= read.bytes_by_dtype["float32"] < left + FEW
    (tables,) = read.skipped
    assert tables.count == 2
    assert "embedding table" in tables.why


def test_a_graph_of_another_model_is_not_quantized(exported_gpt2: tiny.Exported, tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    shutil.copytree(exported_gpt2.fp32, folder)
    kept = load_file(folder / REFERENCE)
    save_file(
        {name: value[..., ::-1].copy() if value.ndim == 2 else value for name, value in kept.items()},
        folder / REFERENCE,
    )
    with pytest.raises(WorkerError, match="single prompt"):
        export.make("exporter", str(folder), tmp_path, "int8", [])
    assert not (tmp_path / GRAPH).exists()


def test_the_4_bit_graph_converts_the_embedding_of_words_too(int4: Path, tiny_gpt2: Path) -> None:
    read = quantized(int4, tiny_gpt2, 0.5)
    assert (read.operators["MatMulNBits"], read.operators["GatherBlockQuantized"], read.converted) == (9, 1, 10)
    assert (read.bytes_by_dtype["uint8"], read.bytes_by_dtype["int4"]) == ((LINEARS + TABLE) // 2, TABLE // 2)
    left = 4 * (POSITIONS + BIASES + NORMS + (LINEARS + 2 * TABLE) // 32)
    assert left <= read.bytes_by_dtype["float32"] < left + FEW
    assert [entry.count for entry in read.skipped] == [1]  # the learned positions


def quantized(folder: Path, checkpoint: Path, limit: float) -> facts.GraphFacts:
    """The facts of a quantized graph that differs from PyTorch by less than `limit`, and not at all by padding."""
    found = gate.check(decoder.load_model(folder, str(checkpoint), 1, 8, 0.0), folder, quantized=True)
    assert 1e-6 < found.single < limit
    assert found.padding < 1e-6
    read = facts.read(folder)
    assert "Gemm" not in read.operators
    return read


def test_a_model_that_keeps_more_than_keys_and_values_is_refused_in_a_sentence() -> None:
    from transformers import MambaConfig, MambaForCausalLM

    model = MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=16, state_size=4, num_hidden_layers=1)).eval()
    with pytest.raises(WorkerError, match="MambaForCausalLM keeps a state of its own kind"):
        tracing.keys_and_values(model, torch.zeros(1, 3, dtype=torch.long))
