"""`python -m optimizers.worker.machine_limits THREADS DEVICE FILE`: what this machine can do at most, written to FILE.

A process of its own, as a worker is, and started when no worker computes. Covers reading from memory, reading from the
last-level cache, and products of matrices, each by the best of many tries (as the STREAM benchmark does), within about
three seconds in all. Keeping the figures is the manager's business.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from optimizers import machine
from optimizers.limits import MachineLimits
from optimizers.schema import to_json
from optimizers.worker import clock

LEAST_MEMORY_BYTES = 256 << 20
MOST_MEMORY_BYTES = 2 << 30
CACHES_OVER = 4  # so many times the last-level cache, an array cannot be kept in part
UNKNOWN_CACHE_BYTES = 4 << 20  # an array that fits the caches of any machine that runs a model
READING_S = 0.2
PRODUCT_S = 0.15
SAMPLE_S = 0.002  # a clock and a GPU's launch do not matter in so long a time
WIDTHS = (256, 512, 1024, 2048, 4096, 8192)
LONG_PRODUCT_S = 0.06
MOST_WAITED = 0.05
FORMATS = ("float32", "bfloat16", "float16")
ROW = 4096


def measure(threads: int, device: str) -> MachineLimits:
    """The limits of `device` ("cpu" or "cuda") with so many threads, and whether other work was in the way."""
    torch.set_num_threads(threads)
    before, began = clock.account(), time.perf_counter()
    found = _measured(threads, device)
    waited = clock.usage(before, clock.account()).waited_s or 0.0
    return replace(found, disturbed=waited > MOST_WAITED * threads * (time.perf_counter() - began))


def _measured(threads: int, device: str) -> MachineLimits:
    cache = _gpu_cache() if device == "cuda" else machine.last_level_cache(threads)
    large = max(LEAST_MEMORY_BYTES, min(CACHES_OVER * (cache or 0), MOST_MEMORY_BYTES, _available(device) // 4))
    small = cache // 2 if cache else UNKNOWN_CACHE_BYTES
    with torch.inference_mode():
        return MachineLimits(
            device=device,
            threads=threads,
            memory_bytes_per_s=_reading(large, device),
            memory_array_bytes=large,
            cache_bytes_per_s=_reading(small, device),
            cache_array_bytes=small,
            last_level_bytes=cache,
            operations_per_s={name: rate for name in FORMATS if (rate := _products(name, device))},
        )


def _reading(size: int, device: str) -> float:
    """Bytes per second of the fastest of several ways to read an array of about so many bytes once: a sum, and the
    product of a matrix and a vector, which is what a decode pass mostly is."""
    rows = max(1, size // (4 * ROW))
    matrix = torch.ones(rows, ROW, device=device)
    vector = torch.ones(ROW, device=device)
    ways: list[Callable[[], object]] = [matrix.sum, lambda: torch.mv(matrix, vector)]
    return rows * ROW * 4 / min(_best_s(way, READING_S, device) for way in ways)


def _products(name: str, device: str) -> float | None:
    """Operations per second in products of square matrices of this format, 2 n^3 / seconds, of widths up to the one
    that takes long enough; None where it has none."""
    best = 0.0
    for width in WIDTHS:
        try:
            seconds = _product_s(width, name, device)
        except RuntimeError:  # no such product on this device
            return None
        best = max(best, 2 * width**3 / seconds)
        if seconds > LONG_PRODUCT_S:
            break
    return best


def _product_s(width: int, name: str, device: str) -> float:
    square = torch.ones(width, width, dtype=getattr(torch, name), device=device)
    return _best_s(lambda: square @ square, PRODUCT_S, device)


def _best_s(work: Callable[[], object], during_s: float, device: str) -> float:
    """Seconds of one call, the best of the samples that fit in `during_s` (at least three, after one for warming up);
    a sample is as many calls as fill it."""
    once = _once_s(work, device)
    calls = max(1, round(SAMPLE_S / max(once, 1e-7)))
    began, best, samples = time.perf_counter(), once, 0
    while samples < 3 or time.perf_counter() - began < during_s:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        _wait(device)
        best = min(best, (time.perf_counter() - start) / calls)
        samples += 1
    return best


def _once_s(work: Callable[[], object], device: str) -> float:
    """Seconds of a call after one for warming up."""
    work()
    _wait(device)
    start = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _available(device: str) -> int:
    return int(torch.cuda.mem_get_info()[0]) if device == "cuda" else machine.memory()[1]


def _gpu_cache() -> int | None:
    return int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)) or None


if __name__ == "__main__":
    found = measure(int(sys.argv[1]), sys.argv[2])
    Path(sys.argv[3]).write_text(to_json(found), encoding="utf-8")
