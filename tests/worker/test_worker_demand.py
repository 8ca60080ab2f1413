"""What a pass reads at the least, as real workers count it: byte counts worked out by hand for tiny checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
import transformers
from driver import WorkerProcess

from optimizers.limits import Demand
from optimizers.protocol import CensusTaken, TakeCensus
from optimizers.worker import demand

# Both: vocabulary 384, width 64, 2 layers, 4 heads 16 wide, tied. The Llama has 2 heads for keys and values.
TABLE = 384 * 64
LLAMA = TABLE + 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 128) + 5 * 64
LLAMA_KEPT = 2 * 2 * 2 * 16
GPT2_KEPT = 2 * 2 * 4 * 16
BUFFERS = 1024  # bytes of rotary frequencies and the like


def counted(folder: Path, log: Path, *techniques: str) -> tuple[Demand, int]:
    """The demand and all bytes of the loaded model."""
    with WorkerProcess(log) as worker:
        worker.load(folder, *techniques)
        census = worker.do(TakeCensus(), CensusTaken).census
    assert census.demand is not None
    return census.demand, sum(census.bytes_by_dtype.values())


@pytest.mark.parametrize(
    ("techniques", "item_bytes", "kept", "computes_in"),
    [
        (("fp32", "sdpa"), 4, LLAMA_KEPT * 4, "float32"),
        (("bf16", "sdpa"), 2, LLAMA_KEPT * 2, "bfloat16"),
        (("fp32", "sdpa", "no_cache"), 4, 0, "float32"),
    ],
)
def test_a_tied_table_is_read_as_a_whole_by_the_head(
    techniques: tuple[str, ...], item_bytes: int, kept: int, computes_in: str, tiny_llama: Path, tmp_path: Path
) -> None:
    found, stored = counted(tiny_llama, tmp_path / "log", *techniques)
    assert found.weights_bytes == stored
    assert 0 <= found.weights_bytes - LLAMA * item_bytes <= BUFFERS
    assert (found.cache_bytes_per_token, found.computes_in) == (kept, computes_in)


def test_of_a_table_that_is_looked_up_one_row_counts(tiny_llama: Path, tiny_gpt2: Path, tmp_path: Path) -> None:
    """torch's 8-bit layers hold the head as a copy of their own, so that of the table in fp32 a row is left; GPT-2
    looks its positions up."""
    found, stored = counted(tiny_llama, tmp_path / "llama", "fp32", "sdpa", "int8_dynamic")
    assert stored - found.weights_bytes == 4 * (TABLE - 64)
    found, stored = counted(tiny_gpt2, tmp_path / "gpt2", "fp32", "sdpa")
    assert stored - found.weights_bytes == 4 * (tiny.CONTEXT - 1) * 64
    assert found.cache_bytes_per_token == GPT2_KEPT * 4


def falcon(**changes: Any) -> Any:
    sizes = {"vocab_size": 32, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return transformers.FalconConfig(**sizes, **changes)


BIGCODE = {"vocab_size": 32, "n_embd": 64, "n_layer": 2, "n_head": 4}


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        (falcon(), 1),
        (falcon(new_decoder_architecture=True, num_kv_heads=2), 4),
        (falcon(multi_query=False), 4),
        (transformers.GPTBigCodeConfig(**BIGCODE), 1),
        (transformers.GPTBigCodeConfig(**BIGCODE, multi_query=False), 4),
    ],
)
def test_heads_that_share_keys_and_values_are_kept_once(config: Any, heads: int) -> None:
    """As many values a token as the model's own cache holds after three."""
    kept = transformers.AutoModelForCausalLM.from_config(config)(torch.zeros(1, 3, dtype=torch.long)).past_key_values
    held = sum(layer.keys.numel() + layer.values.numel() for layer in kept.layers)
    assert demand._values_kept(config) == held / 3 == 2 * 2 * heads * 16


def test_masks_are_no_weights() -> None:
    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4, bias=False)
            self.register_buffer("mask", torch.ones(10, 10, dtype=torch.bool))

        def get_output_embeddings(self) -> None:
            return None

    assert demand._weights_read(Masked()) == 4 * 16


def test_a_graph_reads_what_its_operators_use(
    exported_gpt2: tiny.Exported, tiny_gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERS_CACHE", str(exported_gpt2.cache))
    found, stored = counted(tiny_gpt2, tmp_path / "log", "fp32", "onnxruntime")
    assert stored - found.weights_bytes == 4 * (tiny.CONTEXT - 1) * 64
    assert (found.cache_bytes_per_token, found.computes_in) == (GPT2_KEPT * 4, "float32")
