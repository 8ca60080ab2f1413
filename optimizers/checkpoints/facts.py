"""The facts about a checkpoint folder that planning and reports need, from small files and headers: nothing is loaded.

Covers counting parameters (also of packed checkpoints), the stored type, the shape of the network, the tokenizer's
template and padding, the licence, and a digest that names a folder's state. Where a folder came from is not known here.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from optimizers.checkpoints import kinds
from optimizers.checkpoints.attentions import attentions
from optimizers.checkpoints.grid import low_bit_grid
from optimizers.checkpoints.headers import DTYPES, Tensor, read_headers
from optimizers.errors import CheckpointBroken
from optimizers.schema import Checkpoint, Source

NO_CONTEXT_LIMIT = 1_000_000
"""Given as the context length where config.json states none (ALiBi, state-space models)."""

_CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length", "seq_length")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("lm_head.weight", "embed_out.weight", "output.weight", "lm_head.qweight", "lm_head.weight_packed")
_EMBEDDING = re.compile(r"(^|\.)(wte|wpe|tok_embeddings|\w*embed\w*)\.\w+$")
_BUFFER = re.compile(r"rotary_emb\.inv_freq$|\.masked_bias$|(^|\.)h\.\d+\.attn\.bias$")
# What stands beside a packed weight and is no parameter: scales, zero points, group order, tables, shapes.
_BESIDE_PACKED = re.compile(
    r"\.(absmax|quant_map|nested_absmax|nested_quant_map|quant_state\.[\w.]+|SCB|weight_format|qzeros|scales|g_idx|"
    r"weight_scale|weight_scale_inv|weight_scale_2|input_scale|weight_zero_point|weight_shape|weight_g_idx)$|_scales$"
)
_TAIL_BYTES = 1 << 16
_BITS_BY_METHOD = {"mxfp4": 4, "awq": 4}


def read_facts(folder: Path, *, name: str, source: Source, revision: str | None, licence: str | None) -> Checkpoint:
    """The facts of the checkpoint in `folder`, called `name`; without `revision` a digest of config and headers.

    Raises CheckpointBroken or CheckpointRefused, each naming the file and the remedy."""
    try:
        config = kinds.read_config(folder)
        kinds.refuse_unfit(config, folder)
        tensors = tuple(tensor for tensor in read_headers(folder) if not _BUFFER.search(tensor.name))
        return _facts(folder, config, tensors, name, source, revision or digest(folder, tensors), licence)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointBroken(
            f"The checkpoint in {folder} cannot be read: {error}.", "Check the files and their permissions."
        ) from error


def _facts(
    folder: Path,
    config: dict[str, Any],
    tensors: tuple[Tensor, ...],
    name: str,
    source: Source,
    revision: str,
    licence: str | None,
) -> Checkpoint:
    text = kinds.text_part(config)
    tied, head_apart = _tied(config, tensors)
    quantization, bits = _quantization(config)
    counted = [tensor for tensor in tensors if not (tied and tensor.name in _HEADS)]
    matrices = [tensor for tensor in counted if len(tensor.shape) == 2 and not _EMBEDDING.search(tensor.name)]
    embedding = next((tensor.shape for tensor in tensors if _is_table(tensor)), (0, 0))
    model_type, architecture = kinds.model_type(config), kinds.architecture(config)
    return Checkpoint(
        id=name,
        source=source,
        folder=str(folder),
        revision=revision,
        architecture=architecture,
        model_type=model_type,
        task="text_generation",
        parameters=_count(counted, quantization is not None, bits),
        linear_parameters=_count(matrices, quantization is not None, bits),
        disk_bytes=sum(path.stat().st_size for path in {tensor.file for tensor in tensors}),
        stored_dtype=_dominant_dtype(tensors),
        context_length=_whole(text, _CONTEXT) or NO_CONTEXT_LIMIT,
        vocab_size=_whole(text, ("vocab_size",)) or embedding[0],
        hidden_size=_whole(text, _HIDDEN) or embedding[1],
        layers=_whole(text, _LAYERS) or _layers_in(tensors),
        tied_embeddings=tied,
        has_chat_template=_has_chat_template(folder),
        has_pad_token=_has_pad_token(folder),
        layer_kinds=kinds.layer_kinds(config, head_apart),
        quantization=quantization,
        low_bit_grid=None if quantization else low_bit_grid(matrices),
        licence=licence or _licence(folder),
        linear_widths=tuple(sorted({tensor.shape[1] for tensor in matrices})),
        attentions=attentions(model_type, architecture),
    )


def digest(folder: Path, tensors: Iterable[Tensor]) -> str:
    """A cheap name for a folder's state: of config.json, every tensor's name, type, shape and place, and each weight
    file's size and last 64 KiB. The same on every machine; a change elsewhere in the weights alone is not noticed."""
    state = hashlib.sha256((folder / "config.json").read_bytes())
    for tensor in tensors:
        state.update(repr((tensor.name, tensor.dtype, tensor.shape, tensor.file.name, tensor.start)).encode())
    for path in sorted({tensor.file for tensor in tensors}):
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - _TAIL_BYTES))
            state.update(repr((path.name, size)).encode() + file.read())
    return f"sha256:{state.hexdigest()[:16]}"


def _tied(config: dict[str, Any], tensors: Sequence[Tensor]) -> tuple[bool, bool]:
    """Whether the output head is the embedding, and whether it is a matrix of its own. What config.json says wins;
    where it says nothing the head is tied when none is stored."""
    stored = any(tensor.name in _HEADS for tensor in tensors)
    said = config.get("tie_word_embeddings", kinds.text_part(config).get("tie_word_embeddings"))
    tied = said if isinstance(said, bool) else not stored
    return tied, stored and not tied


def _quantization(config: dict[str, Any]) -> tuple[str | None, int | None]:
    """The checkpoint's own quantization in words ("bitsandbytes 4-bit") and its bits where they are told."""
    said = config.get("quantization_config", kinds.text_part(config).get("quantization_config"))
    if not isinstance(said, dict):
        return None, None
    method = str(said.get("quant_method") or "of an unnamed method")[:40]
    bits = said.get("bits") or _BITS_BY_METHOD.get(method)
    for group in _objects(said.get("config_groups")):
        bits = bits or next((weights.get("num_bits") for weights in _objects(group)), None)
    for key, number in (("load_in_4bit", 4), ("_load_in_4bit", 4), ("load_in_8bit", 8), ("_load_in_8bit", 8)):
        bits = number if said.get(key) is True else bits
    if not isinstance(bits, int) or not 1 <= bits <= 16:
        return method, None
    return f"{method} {bits}-bit", bits


def _objects(found: Any) -> list[dict[str, Any]]:
    """The objects among an object's values."""
    return [value for value in found.values() if isinstance(value, dict)] if isinstance(found, dict) else []


def _count(tensors: Iterable[Tensor], quantized: bool, bits: int | None) -> int:
    """Parameters: each value of a plain tensor; of a whole-number tensor in a packed checkpoint as many as its bits
    hold; what stands beside packed weights none."""
    total = 0
    for tensor in tensors:
        kind, width = DTYPES[tensor.dtype]
        if quantized and _BESIDE_PACKED.search(tensor.name):
            continue
        total += tensor.count * width // bits if bits and "int" in kind else tensor.count
    return total


def _dominant_dtype(tensors: Iterable[Tensor]) -> str:
    held: Counter[str] = Counter()
    for tensor in tensors:
        held[DTYPES[tensor.dtype][0]] += tensor.stored_bytes
    return held.most_common(1)[0][0]


def _is_table(tensor: Tensor) -> bool:
    return len(tensor.shape) == 2 and _EMBEDDING.search(tensor.name) is not None and ".wpe" not in f".{tensor.name}"


def _layers_in(tensors: Iterable[Tensor]) -> int:
    numbers = [int(found[1]) for tensor in tensors if (found := re.search(r"\.(\d{1,4})\.", tensor.name))]
    return max(numbers, default=-1) + 1


def _whole(config: dict[str, Any], names: Sequence[str]) -> int | None:
    """The first of `names` that the config has, a whole number above 0. Raises CheckpointBroken for anything else."""
    for name in names:
        found = config.get(name)
        if found is None:
            continue
        if type(found) is not int or found < 1:
            raise CheckpointBroken(
                f"config.json says {name} = {str(found)[:40]!r}, where a whole number above 0 belongs.",
                "Download or copy the checkpoint again.",
            )
        return found
    return None


def _has_chat_template(folder: Path) -> bool:
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    return bool((kinds.read_object(folder / "tokenizer_config.json") or {}).get("chat_template"))


def _has_pad_token(folder: Path) -> bool:
    files = (folder / "tokenizer_config.json", folder / "special_tokens_map.json")
    return any((kinds.read_object(path) or {}).get("pad_token") for path in files)


def _licence(folder: Path) -> str | None:
    """The licence in the front matter of the README, as the hub writes it."""
    from huggingface_hub import metadata_load

    try:
        said = (metadata_load(folder / "README.md") or {}).get("license")
    except Exception:  # whatever a stranger's front matter does to the YAML parser: the licence is then unknown
        return None
    return said[:80] if isinstance(said, str) else None
