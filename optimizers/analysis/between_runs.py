"""Two finished runs side by side: the same variants then and now, or here and on another machine.

Covers which variants both have, how far their figures lie apart, and what else differs between the runs. Runs are not
taken in turns, so a ratio between them says less than one within a run: whatever changed from one to the other
(machine, load, versions) is in it. The interval of a ratio comes from the two medians' own 95 % intervals, taken as
independent, by the square-and-add method (Zou and Donner, Statistics in Medicine 27:1693, 2008) on logarithms. It is
faster or slower only outside the larger of both runs' noise floors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from optimizers.analysis.statistics import exp
from optimizers.analysis.verdicts import LEAST_FLOOR, verdict
from optimizers.quality import Interval
from optimizers.results import Ratio, Run, Stat, VariantResult
from optimizers.schema import Machine


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in both runs, in words; an en dash where a run does not tell."""

    name: str
    one: str
    other: str


@dataclass(frozen=True)
class Pair:
    """A variant that was measured in both runs. Ratios are this run's speed over the other's: above 1 is faster now."""

    one: VariantResult
    other: VariantResult
    decode: Ratio | None
    first_token: Ratio | None


@dataclass(frozen=True)
class Between:
    """`only_one`, `only_other`: titles of variants that were measured in one of the runs only."""

    differences: tuple[Difference, ...]
    pairs: tuple[Pair, ...]
    only_one: tuple[str, ...]
    only_other: tuple[str, ...]


def between(one: Run, other: Run) -> Between:
    """`one` against `other`."""
    ours, theirs = _measured(one), _measured(other)
    floor = max(filter(None, (one.noise_floor.decode, other.noise_floor.decode)), default=LEAST_FLOOR)
    first_floor = max(filter(None, (one.noise_floor.ttft, other.noise_floor.ttft)), default=LEAST_FLOOR)
    return Between(
        differences=tuple(_differences(one, other)),
        pairs=tuple(_pair(ours[key], theirs[key], floor, first_floor) for key in ours if key in theirs),
        only_one=tuple(variant.title for key, variant in ours.items() if key not in theirs),
        only_other=tuple(variant.title for key, variant in theirs.items() if key not in ours),
    )


def speed_ratio(one: Stat | None, other: Stat | None, floor: float, inverse: bool = False) -> Ratio | None:
    """Median over median with its interval and word; `inverse` for times, of which less is faster. None where a median
    is missing or not above 0; without an interval where one of them has none."""
    if one is None or other is None or min(one.median, other.median) <= 0:
        return None
    if inverse:
        one, other = other, one
    middle = math.log(one.median / other.median)
    down, up = _apart(one, other), _apart(other, one)
    low, high = (None, None) if down is None or up is None else (exp(middle - down), exp(middle + up))
    found = Interval(exp(middle), low, high)
    return Ratio(found.value, low, high, verdict(found, min(one.n, other.n), floor))


def _apart(lower: Stat, upper: Stat) -> float | None:
    """How far the logarithm of a ratio reaches: on the lower side of one median and the upper side of the other."""
    if lower.low is None or upper.high is None or min(lower.low, upper.high) <= 0:
        return None
    return math.hypot(math.log(lower.median / lower.low), math.log(upper.high / upper.median))


def _measured(run: Run) -> dict[str, VariantResult]:
    return {variant.key: variant for variant in run.variants if variant.status == "measured" and variant.latency}


def _pair(one: VariantResult, other: VariantResult, floor: float, first_floor: float) -> Pair:
    ours, theirs = one.latency, other.latency
    assert ours is not None and theirs is not None  # `_measured` leaves none without
    return Pair(
        one,
        other,
        speed_ratio(ours.decode_tokens_per_s, theirs.decode_tokens_per_s, floor),
        speed_ratio(ours.ttft_s, theirs.ttft_s, first_floor, inverse=True),
    )


def _differences(one: Run, other: Run) -> Iterable[Difference]:
    told = (
        ("Model", one.model.id, other.model.id),
        ("Revision of the model", one.model.revision, other.model.revision),
        ("Processor", one.machine.cpu, other.machine.cpu),
        ("Cores", str(one.machine.usable_cores), str(other.machine.usable_cores)),
        ("Graphics cards", _gpus(one.machine), _gpus(other.machine)),
        ("System", one.machine.system, other.machine.system),
        ("Baseline", one.baseline, other.baseline),
        ("Threads", _told(one.workload.threads), _told(other.workload.threads)),
        ("Tokens per answer", str(one.workload.max_new_tokens), str(other.workload.max_new_tokens)),
        ("Prompts", str(len(one.workload.prompts)), str(len(other.workload.prompts))),
        *_versions(one.machine, other.machine),
    )
    for name, ours, theirs in told:
        if ours != theirs:
            yield Difference(name, ours or "–", theirs or "–")
    if one.workload.prompts != other.workload.prompts and len(one.workload.prompts) == len(other.workload.prompts):
        yield Difference("Prompts", "other texts", "other texts")


def _versions(one: Machine, other: Machine) -> Iterable[tuple[str, str, str]]:
    for name in sorted(one.packages.keys() | other.packages.keys()):
        yield name, one.packages.get(name) or "", other.packages.get(name) or ""


def _gpus(machine: Machine) -> str:
    return ", ".join(gpu.name for gpu in machine.gpus)


def _told(value: int | None) -> str:
    return "all cores" if value is None else str(value)
