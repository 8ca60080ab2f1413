"""Whether weights that are stored wide were 4-bit before: a few matrices are sampled, never a whole file read.

A weight that was once quantized in blocks (GGUF's Q4_0, Q4_1 and Q4_K, GPTQ or AWQ in groups of 32 and more) and stored
again in a wider type takes at most 16 values in each block of 32 along the input. Weights as trained take about 32.
What was 8-bit, or is packed still, is not looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optimizers.checkpoints.headers import Tensor

BLOCK = 32
_VALUES = 16
_MATRICES = 8
_ROWS = 64
_ENOUGH_BLOCKS = 64
_NEARLY_ALL = 0.99
_WIDTHS = {"BF16": "<u2", "F16": "<u2", "F32": "<u4"}

SENTENCE = (
    "The weights were stored in 4 bits before (at most 16 values in each block of 32), so 4-bit quality measured on "
    "this checkpoint is not representative."
)


def low_bit_grid(matrices: Sequence[Tensor]) -> str | None:
    """The sentence for people when at least half of the sampled matrices lie on a 4-bit grid, else None.

    `matrices` are two-dimensional weights that are not embeddings. Raises OSError when a file cannot be read."""
    fit = [tensor for tensor in matrices if _can_tell(tensor)]
    step = max(1, len(fit) // _MATRICES)
    verdicts = [verdict for tensor in fit[::step][:_MATRICES] if (verdict := on_grid(_sample(tensor))) is not None]
    return SENTENCE if verdicts and 2 * sum(verdicts) >= len(verdicts) else None


def on_grid(values: Any) -> bool | None:
    """Whether a matrix (rows x columns, any type that compares by bits) lies on the grid, along either axis (a Conv1D
    keeps its input along the first). None when too few blocks vary to tell."""
    shares = [share for share in (_share_on_grid(values), _share_on_grid(values.T)) if share is not None]
    return max(shares) >= _NEARLY_ALL if shares else None


def _share_on_grid(values: Any) -> float | None:
    """The share of blocks of 32 along the last axis with at most 16 values, among the blocks that vary at all."""
    import numpy as np

    columns = values.shape[1] - values.shape[1] % BLOCK
    blocks = np.sort(np.ascontiguousarray(values[:, :columns]).reshape(-1, BLOCK), axis=1)
    distinct = 1 + (blocks[:, 1:] != blocks[:, :-1]).sum(axis=1)
    varied = distinct[distinct > 1]
    return float((varied <= _VALUES).mean()) if varied.size >= _ENOUGH_BLOCKS else None


def _can_tell(tensor: Tensor) -> bool:
    return tensor.dtype in _WIDTHS and len(tensor.shape) == 2 and min(tensor.shape) >= BLOCK


def _sample(tensor: Tensor) -> Any:
    """Up to 64 rows from the middle of a matrix, as the unsigned integers of their bits."""
    import numpy as np

    rows, columns = tensor.shape
    taken = min(rows, _ROWS)
    width = np.dtype(_WIDTHS[tensor.dtype])
    skipped = (rows - taken) // 2 * columns * width.itemsize
    with tensor.file.open("rb") as file:
        file.seek(tensor.start + skipped)
        return np.frombuffer(file.read(taken * columns * width.itemsize), dtype=width).reshape(taken, columns)
