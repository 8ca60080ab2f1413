"""When a verdict is settled, by hand and by simulation, and what is said of verdicts that rest on fewer rounds."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import analysis_records as make
import pytest

from optimizers.analysis import compare, effort, verdicts
from optimizers.analysis.statistics import paired_ratio

BASE, STEPS = make.BASELINE, make.STEPS
EVEN = [(1.0, 1.0)] * 6
RUNS, MOST = 1000, 24


def around(middle: float, swing: float, count: int) -> list[tuple[float, float]]:
    """Pairs whose log-ratios lie `swing` above and below ln(middle) in turn: for an even count their mean is ln(middle)
    and their deviation swing * sqrt(n / (n - 1))."""
    return [(middle * math.exp(swing if number % 2 else -swing), 1.0) for number in range(count)]


def test_five_pairs_settle_nothing_however_clear() -> None:
    assert effort.word([(2.0, 1.0)] * 5, EVEN) is None
    assert effort.word([(2.0, 1.0)] * 6, EVEN) == "faster"
    assert effort.word([(1.0, 2.0)] * 6, EVEN) == "slower"
    assert effort.word([], EVEN) is None


def test_the_interval_by_hand_is_wider_than_the_verdicts() -> None:
    """Six pairs: t(5, 0.9975) = 4.7733, deviation over sqrt(6) = swing / sqrt(5). The 99.5 % interval of 1.1 lies
    above 1.02 for a swing of up to ln(1.1 / 1.02) sqrt(5) / 4.7733 = 0.03537; the 95 % interval, t = 2.5706, for one
    of up to 0.06568."""
    assert effort.word(around(1.1, 0.035, 6), EVEN) == "faster"
    assert effort.word(around(1.1, 0.036, 6), EVEN) is None
    interval = paired_ratio(around(1.1, 0.036, 6))
    assert interval is not None
    assert verdicts.verdict(interval, 6, 0.02) == "faster"
    assert effort.word(around(1 / 1.1, 0.035, 6), EVEN) == "slower"


def test_the_floor_of_the_second_process_counts() -> None:
    """A' lies 5 % off, without noise: the floor is 5 %, so 1.04 is within it for good and 1.06 is faster."""
    again = [(1.05, 1.0)] * 6
    assert effort.word([(1.04, 1.0)] * 6, again) == "within noise"
    assert effort.word([(1.06, 1.0)] * 6, again) == "faster"
    assert effort.word([(1.04, 1.0)] * 6, []) == "faster"  # without A' the floor is 2 %


def test_a_second_process_that_swings_about_the_first_lies_not_off_it() -> None:
    """A' swings by 10 % about 1: what varies from turn to turn is the interval's business, the floor stays at 2 %."""
    again = around(1.0, 0.1, 6)
    assert verdicts.floor_of(paired_ratio(again)) == 0.02
    assert effort.word([(1.05, 1.0)] * 6, again) == "faster"
    assert effort.word([(1.01, 1.0)] * 6, again) == "within noise"
    assert effort.word([(1.02, 1.0)] * 6, again) is None  # on the edge


def test_the_samples_are_paired_by_round() -> None:
    base = {number: make.sample(BASE, number, 0.5) for number in range(8)}
    fast = {number: make.sample("a", number, 0.25) for number in (0, 1, 2, 3, 4, 7)}
    assert effort.settled(fast, base, base) == "faster"
    assert effort.settled({number: fast[number] for number in (0, 1, 2, 3, 4)}, base, base) is None
    assert effort.settled(fast, {}, {}) is None


def test_requests_of_one_token_are_judged_by_the_time_to_it() -> None:
    def rounds(ttft_s: float) -> dict[int, make.Sample]:
        timing = make.timing(0.5, tokens=1, ttft_s=ttft_s)
        return {number: make.sample("a", number, 0.5, timing=timing) for number in range(6)}

    assert effort.settled(rounds(0.5), rounds(1.0), rounds(1.0)) == "faster"


def sequential(chance: random.Random, noise: float, offset: float, gain: float) -> tuple[str, int]:
    """One run by the rule: the verdict at its end, and after how many rounds. Log-speeds of three processes with
    offsets of their own and noise from turn to turn."""
    base_at, again_at, ours_at = (chance.gauss(0.0, offset) for _ in range(3))
    ours: list[tuple[float, float]] = []
    again: list[tuple[float, float]] = []
    for _ in range(MOST):
        base = math.exp(chance.gauss(base_at, noise))
        second = math.exp(chance.gauss(again_at, noise))
        ours.append((gain * math.exp(chance.gauss(ours_at, noise)), math.sqrt(base * second)))
        again.append((second, base))
        if effort.word(ours, again):
            break
    interval = paired_ratio(ours)
    assert interval is not None
    return verdicts.verdict(interval, len(ours), verdicts.floor_of(paired_ratio(again))), len(ours)


@pytest.mark.parametrize("noise", [0.012, 0.03])
@pytest.mark.parametrize("offset", [0.0, 0.01])
def test_looking_after_every_round_keeps_false_verdicts_rare(noise: float, offset: float) -> None:
    chance = random.Random(7)
    said = Counter(sequential(chance, noise, offset, 1.0)[0] for _ in range(RUNS))
    assert said["faster"] + said["slower"] <= 0.05 * RUNS


@pytest.mark.parametrize(("noise", "offset", "least"), [(0.012, 0.0, 0.99), (0.012, 0.01, 0.99), (0.03, 0.0, 0.99)])
def test_a_gain_of_ten_percent_is_found_before_all_rounds_are_played(noise: float, offset: float, least: float) -> None:
    chance = random.Random(7)
    ends = [sequential(chance, noise, offset, 1.1) for _ in range(100)]
    assert sum(said == "faster" for said, _ in ends) >= least * len(ends)
    assert sum(rounds for _, rounds in ends) / len(ends) < MOST / 2


def budgeted(played: dict[str, list[int]], **changes: object) -> make.Record:
    """A run under a budget in which each variant had turns in these rounds, the baseline in ten."""
    measured = [
        make.measurement(key, [], samples=tuple(make.sample(key, number, 0.5) for number in rounds))
        for key, rounds in ({BASE: list(range(10))} | played).items()
    ]
    record = make.record(*measured, replica=[0.5] * 10)
    workload = replace(record.plan.choice.workload, seconds=60.0)
    choice = replace(record.plan.choice, workload=workload)
    return replace(record, **({"plan": replace(record.plan, choice=choice)} | changes))  # type: ignore[arg-type]


def said(record: make.Record, name: str) -> list[tuple[str | None, str]]:
    return [(caveat.variant, caveat.text) for caveat in compare(record).caveats if caveat.id == name]


def test_a_verdict_that_was_settled_early_says_on_how_many_rounds_it_rests() -> None:
    early = budgeted({"a": [0, 1, 2, 3, 4, 5, 8], "b": list(range(10)), "c": [0, 1, 2, 3, 4, 5]})
    text = "Settled early, so on fewer rounds than the baseline's 10: a on 7, c on 6."
    assert said(early, "fewer_rounds") == [(None, text)]
    assert said(early, "few_rounds") == []
    assert said(replace(early, status="running"), "fewer_rounds") == []
    apart = replace(early, plan=replace(early.plan, resident=False))
    assert said(apart, "fewer_rounds") == []  # one after another, nobody is settled early


def test_a_stop_in_the_middle_of_a_round_settled_nothing() -> None:
    stopped = budgeted({"a": list(range(9))}, status="cancelled")
    assert said(stopped, "fewer_rounds") == []
    assert said(budgeted({"a": [0, 1, 2, 3, 4, 5, 9]}, status="cancelled"), "fewer_rounds") != []


def test_a_number_of_rounds_settles_nobody_early() -> None:
    record = budgeted({"a": [0, 1, 2, 3, 4, 5]})
    workload = replace(record.plan.choice.workload, seconds=None)
    choice = replace(record.plan.choice, workload=workload)
    assert said(replace(record, plan=replace(record.plan, choice=choice)), "fewer_rounds") == []


def test_a_variant_with_too_few_rounds_is_named_though_the_baseline_has_enough() -> None:
    record = make.record(make.measurement(BASE, STEPS), make.measurement("a", STEPS[:4]), replica=STEPS)
    text = "A verdict on speed needs 5 rounds that count for a variant and the baseline; a has 4."
    assert said(record, "few_rounds") == [("a", text)]
    both = make.record(make.measurement(BASE, STEPS[:4]), make.measurement("a", STEPS[:4]), replica=STEPS[:4])
    assert said(both, "few_rounds") == [(None, "A verdict on speed needs 5 rounds; of the baseline's, 4 count.")]


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_few_samples_carry_a_median_and_no_interval(count: int) -> None:
    """The narrowest interval from order statistics, smallest to largest of six, covers 1 - 2 / 2^6 = 96.9 %; of five it
    is 93.75 %, which is no 95 %."""
    run = compare(make.record(make.measurement(BASE, STEPS[:count])))
    latency = make.result(run, BASE).latency
    assert latency is not None
    for stat in (latency.ttft_s, latency.decode_tokens_per_s, latency.prefill_tokens_per_s, latency.total_s):
        assert stat is not None and stat.n == count
        assert (stat.low is None, stat.high is None) == (count < 6, count < 6)
