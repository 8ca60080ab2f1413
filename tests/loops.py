"""Sums as llama.cpp's perplexity tool makes them, written out as loops, to hold the program's figures against."""

from __future__ import annotations

import math


def percentile(values: list[float], fraction: float) -> float:
    """At position fraction * (n - 1) of the sorted values, between its two neighbors."""
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below = int(place)
    if below + 1 == len(ordered):
        return ordered[-1]
    return (1 - (place - below)) * ordered[below] + (place - below) * ordered[below + 1]


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean and its standard error, from sums of values and of squares."""
    total = squares = 0.0
    for value in values:
        total += value
        squares += value * value
    mean = total / len(values)
    return mean, math.sqrt((squares / len(values) - mean * mean) / (len(values) - 1))
