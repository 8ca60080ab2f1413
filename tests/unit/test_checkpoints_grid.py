"""The 4-bit grid: found where values were put on one by hand, and not where weights are as trained."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny

from optimizers import checkpoints
from optimizers.checkpoints.grid import SENTENCE, low_bit_grid, on_grid
from optimizers.checkpoints.headers import Tensor


def as_bfloat16(values: np.ndarray) -> np.ndarray:
    """The upper 16 bits of float32, rounded to the nearest."""
    bits = values.astype("<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def random(rows: int = 64, columns: int = 256, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.05, (rows, columns)).astype("<f4")


def quantized(values: np.ndarray, block: int = 32, levels: int = 16) -> np.ndarray:
    """Round each block along the row to `levels` steps between its least and greatest value, as GGUF's Q4_1 does."""
    blocks = values.reshape(len(values), -1, block)
    low, high = blocks.min(-1, keepdims=True), blocks.max(-1, keepdims=True)
    step = (high - low) / (levels - 1)
    return (np.round((blocks - low) / step) * step + low).reshape(values.shape).astype("<f4")


@pytest.mark.parametrize("store", [as_bfloat16, lambda values: values.astype("<f2").view("<u2"), lambda values: values])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (random(), False),
        (quantized(random()), True),
        (quantized(random(), block=128), True),
        (quantized(random(), levels=3), True),
        (quantized(random()).T.copy(), True),
        # 8 bits leave more than 16 values in a block.
        (quantized(random(), levels=256), False),
        # One block in ten on the grid is chance or padding, not a grid.
        (np.concatenate([random(90), quantized(random(10))]), False),
    ],
)
def test_on_grid(store: object, values: np.ndarray, expected: bool) -> None:
    assert on_grid(store(values)) is expected  # type: ignore[operator]


@pytest.mark.parametrize("values", [np.zeros((64, 256)), np.full((64, 256), 0.5), quantized(random(4, 32))])
def test_constant_or_tiny_matrices_tell_nothing(values: np.ndarray) -> None:
    assert on_grid(as_bfloat16(values)) is None


def stored(path: Path, matrices: list[np.ndarray]) -> list[Tensor]:
    """Matrices one after another in a raw file, behind 24 bytes of something else."""
    tensors, at = [], 24
    with path.open("wb") as file:
        file.write(bytes(at))
        for number, values in enumerate(matrices):
            data = as_bfloat16(values).tobytes()
            tensors.append(Tensor(f"m{number}.weight", "BF16", values.shape, path, at, len(data)))
            file.write(data)
            at += len(data)
    return tensors


def test_a_majority_of_the_matrices_decides(tmp_path: Path) -> None:
    on, off = [quantized(random(seed=seed)) for seed in range(4)], [random(seed=seed) for seed in range(4)]
    assert low_bit_grid(stored(tmp_path / "a", on)) == SENTENCE
    assert low_bit_grid(stored(tmp_path / "b", off)) is None
    assert low_bit_grid(stored(tmp_path / "c", [*on, *off[:2]])) == SENTENCE
    assert low_bit_grid(stored(tmp_path / "d", [*on[:1], *off])) is None
    assert low_bit_grid([]) is None


def test_only_a_few_rows_are_read(tmp_path: Path) -> None:
    """The middle of a tall matrix is looked at: the grid is there and nowhere else."""
    values = random(256)
    values[96:160] = quantized(values[96:160])
    assert low_bit_grid(stored(tmp_path / "a", [values])) == SENTENCE


def test_a_checkpoint_on_the_grid_says_so(tmp_path: Path) -> None:
    """End to end: put every matrix of a tiny model that is no embedding on the grid and ask for the facts."""
    from safetensors.numpy import load_file, save_file

    plain = tiny.make_llama(tmp_path / "plain")
    assert checkpoints.resolve(str(plain)).low_bit_grid is None
    grid = Path(shutil.copytree(plain, tmp_path / "grid"))
    tensors = load_file(plain / "model.safetensors")
    changed = {
        name: quantized(values) if values.ndim == 2 and "embed" not in name else values
        for name, values in tensors.items()
    }
    save_file(changed, grid / "model.safetensors", metadata={"format": "pt"})
    found = checkpoints.resolve(str(grid)).low_bit_grid
    assert found == SENTENCE
    assert "not representative" in found
