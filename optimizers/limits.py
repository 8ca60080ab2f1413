"""What a machine can do at most, and what a model asks of it at least.

Covers shapes only: the machine is measured by `worker/machine_limits.py`, the demand is counted by `worker/demand.py`
in the loaded model, and how near a variant comes to the limit is `analysis/limits.py`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MachineLimits:
    """The best that `threads` threads did on `device`, measured once and kept.

    memory_bytes_per_s: reading an array of `memory_array_bytes`, too large for any cache. cache_bytes_per_s: reading
    one of `cache_array_bytes`, which stays in the last-level cache; `last_level_bytes` is the size of that cache, as
    far as so many threads reach, None where the system does not tell. operations_per_s: additions and multiplications
    in a product of two square matrices, by number format ("float32", "bfloat16", "float16").
    `disturbed`: other work took processor time meanwhile, so that the machine may do more than this."""

    device: str
    threads: int
    memory_bytes_per_s: float
    memory_array_bytes: int
    cache_bytes_per_s: float
    cache_array_bytes: int
    last_level_bytes: int | None
    operations_per_s: dict[str, float]
    disturbed: bool = False


@dataclass(frozen=True)
class LimitsMeasured:
    """The line of a run's log that holds them."""

    limits: MachineLimits
    kind: Literal["limits_measured"] = "limits_measured"


@dataclass(frozen=True)
class Demand:
    """What one pass over one token asks for at the least.

    weights_bytes: weights read, as stored; of a table of which one row is looked up (an embedding that is not the
    output head too), that row alone. cache_bytes_per_token: keys and values of each token before it, 0 where none are
    kept. computes_in: the number format of its products ("float32")."""

    weights_bytes: int
    cache_bytes_per_token: int
    computes_in: str


@dataclass(frozen=True)
class DecodeLimit:
    """One decode pass: the bytes that it must read, the bandwidth they are held against and where that was measured,
    the seconds that it therefore takes at the least and those that it took; `share` = least / measured."""

    bytes_read: int
    source: Literal["memory", "cache"]
    bytes_per_s: float
    least_s: float
    measured_s: float
    share: float


@dataclass(frozen=True)
class PromptLimit:
    """The prompt's pass: the operations that it needs, what the machine does of them in a second in this number format,
    and the seconds as in DecodeLimit."""

    operations: int
    computes_in: str
    operations_per_s: float
    least_s: float
    measured_s: float
    share: float


@dataclass(frozen=True)
class NearLimit:
    """How near a variant comes to what the machine can do; a part that is not known is None."""

    decode: DecodeLimit | None
    prompt: PromptLimit | None
