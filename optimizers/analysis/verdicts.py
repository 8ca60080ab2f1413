"""Ratios to the baseline, the noise floor and the word for each ratio.

A ratio is the geometric mean over the rounds that both sides answered, with a t interval on the log-ratios; above 1 is
faster. The noise floor of a figure is how far the baseline's second process (A') may lie from the first: the t
interval of their paired log-ratio, its farther end f, as exp(|f|) - 1, never under 2 %. Where A' did not run the floor
is those 2 %; where it answered fewer than two rounds it cannot be said (None), and 2 % is used.

With fewer than 5 pairs the word is "too few rounds". It is "faster" only if the whole interval lies above 1 + floor,
"slower" only if it lies below 1 - floor, else "within noise".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from optimizers.analysis import requests
from optimizers.analysis.statistics import exp, paired_ratio
from optimizers.quality import Interval
from optimizers.results import NoiseFloor, Ratio, Verdict, VersusBaseline
from optimizers.schema import Memory, Sample, Timing

LEAST_FLOOR = 0.02
LEAST_PAIRS = 5
BASELINE_RATIO = Ratio(1.0, None, None, "baseline")

Rounds = Mapping[int, Sample]
Figure = Callable[[Timing], float | None]


def ttft_speed(timing: Timing) -> float:
    """The inverse of the time to first token, in 1/s: above 1 is faster, as for every speed."""
    return 1 / timing.ttft_s


def pairs(variant: Rounds, baseline: Rounds, figure: Figure) -> list[tuple[float, float]]:
    """(variant, baseline) of one figure for each round that both have, on the same prompt."""
    found = []
    for number in sorted(variant.keys() & baseline.keys()):
        ours, theirs = variant[number], baseline[number]
        first, second = figure(ours.timing), figure(theirs.timing)
        if first and second and ours.prompt == theirs.prompt:
            found.append((first, second))
    return found


def noise_floor(replica: Rounds, baseline: Rounds, kl_divergence: float | None) -> NoiseFloor:
    """The floor of each figure; `kl_divergence` is the logit noise floor, measured apart."""
    return NoiseFloor(
        decode=_floor(replica, baseline, requests.decode_tokens_per_s),
        ttft=_floor(replica, baseline, ttft_speed),
        kl_divergence=kl_divergence,
    )


def _floor(replica: Rounds, baseline: Rounds, figure: Figure) -> float | None:
    return floor_of(paired_ratio(pairs(replica, baseline, figure))) if replica else LEAST_FLOOR


def floor_of(interval: Interval | None) -> float | None:
    """The floor that the ratio of A' to the baseline gives; None where its interval has no ends."""
    if interval is None or interval.low is None or interval.high is None:
        return None
    return max(LEAST_FLOOR, exp(max(abs(math.log(interval.low)), abs(math.log(interval.high)))) - 1)


def verdict(interval: Interval, pair_count: int, floor: float | None) -> Verdict:
    """The word for a speed ratio; the rule is in this module's docstring."""
    width = LEAST_FLOOR if floor is None else floor
    if pair_count < LEAST_PAIRS or interval.low is None or interval.high is None:
        return "too few rounds"
    if interval.low > 1 + width:
        return "faster"
    return "slower" if interval.high < 1 - width else "within noise"


def _ratio(variant: Rounds, baseline: Rounds, figure: Figure, floor: float | None) -> Ratio | None:
    found = pairs(variant, baseline, figure)
    interval = paired_ratio(found)
    if interval is None:
        return None
    return Ratio(interval.value, interval.low, interval.high, verdict(interval, len(found), floor))


def versus_baseline(
    variant: Rounds, baseline: Rounds, memory: Memory | None, baseline_memory: Memory | None, floor: NoiseFloor
) -> VersusBaseline:
    """Speed ratios (above 1: faster) and bytes ratios (variant over baseline). Prefill has no floor of its own and is
    held to that of the time to first token, which it dominates."""
    return VersusBaseline(
        decode=_ratio(variant, baseline, requests.decode_tokens_per_s, floor.decode),
        ttft=_ratio(variant, baseline, ttft_speed, floor.ttft),
        prefill=_ratio(variant, baseline, requests.prefill_tokens_per_s, floor.ttft),
        weights_bytes=_bytes(memory, baseline_memory, "weights_bytes"),
        run_peak_bytes=_bytes(memory, baseline_memory, "run_peak_bytes"),
        saved_bytes=_bytes(memory, baseline_memory, "saved_bytes"),
    )


def baseline_row(rounds: Rounds) -> VersusBaseline:
    """The baseline against itself."""
    several = any(requests.decode_tokens_per_s(sample.timing) for sample in rounds.values())
    return VersusBaseline(
        decode=BASELINE_RATIO if several else None,
        ttft=BASELINE_RATIO,
        prefill=BASELINE_RATIO,
        weights_bytes=1.0,
        run_peak_bytes=1.0,
    )


def _bytes(memory: Memory | None, baseline: Memory | None, name: str) -> float | None:
    ours, theirs = getattr(memory, name, None), getattr(baseline, name, None)
    return ours / theirs if ours is not None and theirs else None
