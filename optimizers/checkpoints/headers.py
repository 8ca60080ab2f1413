"""The headers of safetensors files: what tensors lie where, and whether the files are whole. No weight is read.

The format (https://huggingface.co/docs/safetensors): 8 bytes, little-endian: the length of a JSON object; the
object, name to dtype, shape and [begin, end) within what follows; the tensors, without holes.
Covers plain and sharded files.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizers.errors import CheckpointBroken, CheckpointRefused

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
AGAIN = "Download or copy the checkpoint again."
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
_HEADER_LIMIT = 100_000_000

# Stored name: (the usual name, bits per value).
DTYPES: dict[str, tuple[str, int]] = {
    "BOOL": ("bool", 8),
    "U8": ("uint8", 8),
    "I8": ("int8", 8),
    "U16": ("uint16", 16),
    "I16": ("int16", 16),
    "U32": ("uint32", 32),
    "I32": ("int32", 32),
    "U64": ("uint64", 64),
    "I64": ("int64", 64),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "F32": ("float32", 32),
    "F64": ("float64", 64),
    "C64": ("complex64", 64),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F6_E2M3": ("float6_e2m3fn", 6),
    "F6_E3M2": ("float6_e3m2fn", 6),
    "F4": ("float4_e2m1fn", 4),
}


@dataclass(frozen=True)
class Tensor:
    """A stored tensor: `dtype` as the file names it, `start` in bytes from the beginning of `file`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    stored_bytes: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)


def weight_names(folder: Path) -> tuple[str, ...]:
    """The names of the weight files that `folder` should hold, as transformers chooses them.

    Raises CheckpointRefused when there are only pickled weights, CheckpointBroken when there are none or the index is
    unreadable. The files themselves need not exist yet."""
    if (folder / WHOLE).is_file():
        return (WHOLE,)
    if (folder / INDEX).is_file():
        return _names_in_index(folder / INDEX)
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if pickled:
        raise pickled_only(folder.name, pickled[0])
    raise CheckpointBroken(f"{folder} holds no {WHOLE} and no {INDEX}.", AGAIN)


def pickled_only(where: str, example: str) -> CheckpointRefused:
    """The refusal of a checkpoint whose weights are only in a pickle (or another format that Levers does not read)."""
    return CheckpointRefused(
        f"The weights in {where} are only stored as {example}: loading a pickled file can run a program hidden in it, "
        "so Levers reads safetensors only.",
        "Use a checkpoint that has a model.safetensors, or convert this one with save_pretrained in a place where "
        "you trust it.",
    )


def read_headers(folder: Path) -> tuple[Tensor, ...]:
    """Every tensor of the checkpoint in `folder`, each file checked against its size.

    Raises CheckpointBroken for a missing, short or malformed file, naming it; CheckpointRefused for pickled weights."""
    tensors: list[Tensor] = []
    for name in weight_names(folder):
        path = folder / name
        if not path.is_file():
            raise CheckpointBroken(f"The weight file {name}, which {INDEX} lists, is missing from {folder}.", AGAIN)
        tensors.extend(_read_file(path))
    if not tensors:
        raise CheckpointBroken(f"The weight files in {folder} hold no tensor.", AGAIN)
    return tuple(tensors)


def _names_in_index(path: Path) -> tuple[str, ...]:
    try:
        names = set(json.loads(path.read_text("utf-8"))["weight_map"].values())
        plain = all(_is_plain(name) for name in names)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointBroken(f"{path} is not an index of weight files: {error}.", AGAIN) from error
    if not names or not plain:
        raise CheckpointBroken(f"{path} must list safetensors files by plain names, and does not.", AGAIN)
    return tuple(sorted(names))


def _is_plain(name: Any) -> bool:
    """Whether `name` is a safetensors file in the same folder, and nothing that leads elsewhere."""
    return isinstance(name, str) and Path(name).name == name and name.endswith(".safetensors") and name.isprintable()


def _read_file(path: Path) -> list[Tensor]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > _HEADER_LIMIT:
            raise CheckpointBroken(f"{path.name} in {path.parent} is not a safetensors file.", AGAIN)
        _expect_bytes(path, 8 + length, size)
        text = file.read(length)
    entries = _parse(path, text)
    tensors = [_tensor(path, name, entry, 8 + length) for name, entry in entries.items() if name != "__metadata__"]
    end = max((tensor.start + tensor.stored_bytes for tensor in tensors), default=8 + length)
    _expect_bytes(path, end, size)
    if size > end:
        raise CheckpointBroken(f"{path.name} in {path.parent} has {size:,} bytes where its header says {end:,}.", AGAIN)
    return tensors


def _expect_bytes(path: Path, expected: int, found: int) -> None:
    if found < expected:
        raise CheckpointBroken(
            f"{path.name} in {path.parent} is cut short: at least {expected:,} bytes expected, {found:,} found.", AGAIN
        )


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointBroken(
            f"The header of {path.name} in {path.parent} is not readable: {error}.", AGAIN
        ) from error
    if not isinstance(entries, dict):
        raise CheckpointBroken(f"The header of {path.name} in {path.parent} is not a table of tensors.", AGAIN)
    return entries


def _tensor(path: Path, name: str, entry: Any, base: int) -> Tensor:
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, begin, end))
        right = whole and end - begin == (math.prod(shape) * DTYPES[dtype][1] + 7) // 8
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointBroken(_wrong_entry(path, name), AGAIN) from error
    if not right:
        raise CheckpointBroken(_wrong_entry(path, name), AGAIN)
    return Tensor(name, dtype, shape, path, base + begin, end - begin)


def _wrong_entry(path: Path, name: str) -> str:
    return f"The header of {path.name} in {path.parent} describes {name[:80]!r} wrongly or in a way unknown here."
