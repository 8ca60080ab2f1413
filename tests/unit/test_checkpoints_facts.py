"""Facts counted from headers made by hand: tied heads, packed weights, what a config leaves out, licences."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from optimizers.checkpoints import facts

WEIGHTS = "model.safetensors"


def write_safetensors(path: Path, tensors: dict[str, tuple[str, tuple[int, ...], int]]) -> None:
    """A safetensors file of zeros: name to dtype, shape and bytes."""
    header, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


def test_a_tied_head_that_is_stored_too_is_counted_once(tmp_path: Path) -> None:
    tensors = {"model.embed_tokens.weight": ("BF16", (8, 4), 64), "lm_head.weight": ("BF16", (8, 4), 64)}
    write_safetensors(tmp_path / WEIGHTS, tensors)
    found = read(tmp_path, tie_word_embeddings=True)
    assert (found.parameters, found.linear_parameters, found.tied_embeddings) == (32, 0, True)
    found = read(tmp_path, tie_word_embeddings=False)
    assert (found.parameters, found.linear_parameters, found.tied_embeddings) == (64, 32, False)
    found = read(tmp_path)
    assert found.tied_embeddings is False
    assert found.stored_dtype == "bfloat16"


QUANTIZED = [
    # bitsandbytes 4-bit packs two weights a byte: 16 x 8 = 128 parameters in 64 bytes.
    (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "_load_in_4bit": True},
        {
            "model.layers.0.q_proj.weight": ("U8", (64, 1), 64),
            "model.layers.0.q_proj.weight.absmax": ("F32", (2,), 8),
            "model.layers.0.q_proj.weight.quant_map": ("F32", (16,), 64),
            "model.layers.0.q_proj.weight.quant_state.bitsandbytes__nf4": ("U8", (90,), 90),
        },
        "bitsandbytes 4-bit",
        128,
    ),
    (
        {"quant_method": "bitsandbytes", "load_in_8bit": True},
        {
            "model.layers.0.q_proj.weight": ("I8", (16, 8), 128),
            "model.layers.0.q_proj.SCB": ("F32", (16,), 64),
            "model.layers.0.q_proj.weight_format": ("U8", (), 1),
        },
        "bitsandbytes 8-bit",
        128,
    ),
    # GPTQ packs eight weights into an int32.
    (
        {"quant_method": "gptq", "bits": 4},
        {
            "model.layers.0.q_proj.qweight": ("I32", (2, 8), 64),
            "model.layers.0.q_proj.qzeros": ("I32", (1, 1), 4),
            "model.layers.0.q_proj.scales": ("F16", (1, 8), 16),
            "model.layers.0.q_proj.g_idx": ("I32", (16,), 64),
        },
        "gptq 4-bit",
        128,
    ),
    (
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}},
        {
            "model.layers.0.q_proj.weight_packed": ("I32", (16, 2), 128),
            "model.layers.0.q_proj.weight_scale": ("BF16", (16, 1), 32),
            "model.layers.0.q_proj.weight_shape": ("I64", (2,), 16),
        },
        "compressed-tensors 8-bit",
        128,
    ),
    (
        {"quant_method": "fp8"},
        {
            "model.layers.0.q_proj.weight": ("F8_E4M3", (16, 8), 128),
            "model.layers.0.q_proj.weight_scale_inv": ("F32", (1, 1), 4),
        },
        "fp8",
        128,
    ),
]


@pytest.mark.parametrize(("said", "tensors", "words", "parameters"), QUANTIZED)
def test_an_already_quantized_checkpoint(
    tmp_path: Path, said: dict[str, Any], tensors: dict[str, Any], words: str, parameters: int
) -> None:
    write_safetensors(tmp_path / WEIGHTS, {"model.embed_tokens.weight": ("F16", (8, 4), 64), **tensors})
    found = read(tmp_path, quantization_config=said)
    assert found.quantization == words
    assert found.linear_parameters == parameters
    assert found.parameters == parameters + 32
    assert found.low_bit_grid is None


def test_what_the_config_leaves_out_is_read_from_the_tensors(tmp_path: Path) -> None:
    tensors = {
        "model.embed_tokens.weight": ("F32", (8, 4), 128),
        "model.layers.0.q_proj.weight": ("F32", (4, 4), 64),
        "model.layers.2.q_proj.weight": ("F32", (4, 4), 64),
    }
    write_safetensors(tmp_path / WEIGHTS, tensors)
    found = read(tmp_path)
    assert (found.vocab_size, found.hidden_size, found.layers) == (8, 4, 3)
    assert found.context_length == facts.NO_CONTEXT_LIMIT


def test_the_licence_of_the_readme(tmp_path: Path) -> None:
    write_safetensors(tmp_path / WEIGHTS, {"model.embed_tokens.weight": ("F32", (8, 4), 128)})
    assert read(tmp_path).licence is None
    (tmp_path / "README.md").write_text("---\nlicense: mit\ntags: [x]\n---\n# A model\n")
    assert read(tmp_path).licence == "mit"
    for strange in ("---\nlicense: [\n---\n", "---\nlicense: {a: b}\n---\n", "---\n- a\n---\n", "no front matter"):
        (tmp_path / "README.md").write_text(strange)
        assert read(tmp_path).licence is None


def read(folder: Path, **config: Any) -> Any:
    """The facts of a made-up Llama whose weights `folder` holds already."""
    said = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **config}
    (folder / "config.json").write_text(json.dumps(said))
    (folder / "tokenizer.json").write_text("{}")
    return facts.read_facts(folder, name="made up", source="folder", revision=None, licence=None)
