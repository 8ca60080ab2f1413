"""As hosted: what the leading variants came to with one core busy, beside what they came to without.

    slowdown = median decode tokens per second without load / with it (1: the load cost nothing)
    ratio    = as every ratio to the baseline (`verdicts.py`), over the rounds that both answered under load; the noise
               floor is that of the baseline's two processes under load

Who leads is the variant with the highest such ratio, the baseline's being 1. The order is said to have changed only
where the new leader is "faster" than the old one under load by the rule of every verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from optimizers.analysis import verdicts
from optimizers.analysis.latency import latency
from optimizers.analysis.requests import counted
from optimizers.busy import LEADERS
from optimizers.results import Hosted, NoiseFloor, VariantResult
from optimizers.schema import Measurement, Record, Sample

CHANGED = "With one core busy {now} leads, not {before}: it decodes {ratio:.2f}x as fast there."

Rounds = Mapping[int, Sample]


def leading(record: Record, among: Collection[str]) -> tuple[str, ...]:
    """The keys of the variants that write fastest so far, at most LEADERS of those in `among`, the fastest first. The
    baseline, which is timed in any case, is none of them."""
    floor = NoiseFloor(None, None, None)
    base = next((item for item in record.measurements if item.variant == record.plan.baseline), None)
    found: dict[str, float] = {}
    for item in record.measurements:
        if base is None or item is base or item.variant not in among:
            continue
        ratio = verdicts.versus_baseline(counted(item.samples), counted(base.samples), None, None, floor).decode
        if ratio is not None:
            found[item.variant] = ratio.ratio
    return tuple(sorted(found, key=lambda key: -found[key])[:LEADERS])


def hosted(item: Measurement, record: Record, quiet: VariantResult) -> Hosted | None:
    """What this variant came to under load; None where it was not timed so. `quiet` holds its ordinary figures."""
    rounds = counted(item.loaded_samples)
    figures = latency(list(rounds.values()))
    if figures is None:
        return None
    before = quiet.latency.decode_tokens_per_s if quiet.latency else None
    now = figures.decode_tokens_per_s
    return Hosted(
        decode_tokens_per_s=now,
        ttft_s=figures.ttft_s,
        slowdown=before.median / now.median if before and now else None,
        versus_baseline=verdicts.BASELINE_RATIO
        if item.variant == record.plan.baseline
        else verdicts.versus_baseline(rounds, _base(record), None, None, floor(record), _again(record)).decode,
    )


def floor(record: Record) -> NoiseFloor:
    """The noise floor under load."""
    return verdicts.noise_floor(_again(record), _base(record), None)


def changed_order(record: Record, variants: Sequence[VariantResult]) -> tuple[str, ...]:
    """The sentence that says that another variant leads under load, where one does."""
    timed = [item for item in variants if item.as_hosted and item.as_hosted.versus_baseline and _quiet(item)]
    if len(timed) < 2:
        return ()
    before, now = max(timed, key=_quiet), max(timed, key=_loaded)
    rounds = {item.variant: counted(item.loaded_samples) for item in record.measurements}
    ratio = verdicts.versus_baseline(rounds[now.key], rounds[before.key], None, None, floor(record)).decode
    if now is before or ratio is None or ratio.verdict != "faster":
        return ()
    return (CHANGED.format(now=now.title, before=before.title, ratio=ratio.ratio),)


def _again(record: Record) -> Rounds:
    return counted(record.loaded_replica_samples)


def _base(record: Record) -> Rounds:
    items = (item for item in record.measurements if item.variant == record.plan.baseline)
    return counted(next((item.loaded_samples for item in items), ()))


def _quiet(item: VariantResult) -> float:
    decode = item.decode_ratio
    return decode.ratio if decode else 0.0


def _loaded(item: VariantResult) -> float:
    ratio = item.as_hosted.versus_baseline if item.as_hosted else None
    return ratio.ratio if ratio else 0.0
