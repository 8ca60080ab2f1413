"""Ratios to the baseline, the noise floor and the word for each ratio.

A ratio is the geometric mean over the rounds that both sides answered, with a t interval on the log-ratios; above 1 is
faster. The baseline's figure of a round is the geometric mean of its two processes (A and A') where both answered it,
else that of A. The noise floor of a figure is how far A' lay from A, the mean m of their paired log-ratio as
exp(|m|) - 1, never under 2 %. Where A' did not run the floor is those 2 %; where it answered fewer than two rounds it
cannot be said (None), and 2 % is used.

With fewer than 5 pairs the word is "too few rounds". It is "faster" only if the whole interval lies above 1 + floor,
"slower" only if it lies below 1 - floor, else "within noise".

The interval is for what varies from turn to turn, the floor for what two processes of the same variant keep apart
however many rounds there are. The rule before held the interval against the farther end of the interval of A' to A,
which counts the noise of turns twice. On samples recorded on two cores (six processes of one variant, 24 rounds, noise
of 3.6 % from turn to turn; 20,000 comparisons drawn from them, `tests/benchmarks/calibration.py` does the like) six
rounds of the same against the same gave a false word in 0.0 % by that rule and in 0.2 % by this one, 0.9 % and 3.8 %
with offsets between processes of 1 % and 2 % put in; a true gain of 10 % was found in 33 % and 86 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

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
NO_ROUNDS: Rounds = MappingProxyType({})


def ttft_speed(timing: Timing) -> float:
    """The inverse of the time to first token, in 1/s: above 1 is faster, as for every speed."""
    return 1 / timing.ttft_s


def pairs(variant: Rounds, baseline: Rounds, figure: Figure, again: Rounds = NO_ROUNDS) -> list[tuple[float, float]]:
    """(variant, baseline) of one figure for each round that both have, on the same prompt. `again` are the rounds of
    the baseline's second process, which are half of its figure where it has them."""
    found = []
    for number in sorted(variant.keys() & baseline.keys()):
        ours, theirs = variant[number], baseline[number]
        first, second = figure(ours.timing), figure(theirs.timing)
        if first and second and ours.prompt == theirs.prompt:
            twin = again.get(number)
            third = figure(twin.timing) if twin is not None and twin.prompt == theirs.prompt else None
            found.append((first, second * math.sqrt(third / second) if third else second))
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
    """The floor that the ratio of A' to A gives; None where it rests on fewer than two rounds."""
    if interval is None or interval.low is None:
        return None
    return max(LEAST_FLOOR, exp(abs(math.log(interval.value))) - 1)


def farthest(replica: Rounds, baseline: Rounds, figure: Figure) -> float | None:
    """How far A' may lie from A by the interval of their ratio: its farther end f, exp(|f|) - 1. None without ends."""
    interval = paired_ratio(pairs(replica, baseline, figure))
    if interval is None or interval.low is None or interval.high is None:
        return None
    return exp(max(abs(math.log(interval.low)), abs(math.log(interval.high)))) - 1


def verdict(interval: Interval, pair_count: int, floor: float | None) -> Verdict:
    """The word for a speed ratio; the rule is in this module's docstring."""
    width = LEAST_FLOOR if floor is None else floor
    if pair_count < LEAST_PAIRS or interval.low is None or interval.high is None:
        return "too few rounds"
    if interval.low > 1 + width:
        return "faster"
    return "slower" if interval.high < 1 - width else "within noise"


def _ratio(variant: Rounds, baseline: Rounds, figure: Figure, floor: float | None, again: Rounds) -> Ratio | None:
    found = pairs(variant, baseline, figure, again)
    interval = paired_ratio(found)
    if interval is None:
        return None
    return Ratio(interval.value, interval.low, interval.high, verdict(interval, len(found), floor))


def versus_baseline(
    variant: Rounds,
    baseline: Rounds,
    memory: Memory | None,
    baseline_memory: Memory | None,
    floor: NoiseFloor,
    again: Rounds = NO_ROUNDS,
) -> VersusBaseline:
    """Speed ratios (above 1: faster) and bytes ratios (variant over baseline). Prefill has no floor of its own and is
    held to that of the time to first token, which it dominates. `again`: see `pairs`."""
    return VersusBaseline(
        decode=_ratio(variant, baseline, requests.decode_tokens_per_s, floor.decode, again),
        ttft=_ratio(variant, baseline, ttft_speed, floor.ttft, again),
        prefill=_ratio(variant, baseline, requests.prefill_tokens_per_s, floor.ttft, again),
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
