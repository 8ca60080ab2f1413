"""Two runs side by side: ratios worked out by hand, what differs, what only one of them measured."""

from __future__ import annotations

from dataclasses import replace

import analysis_records as make
import pytest
from analysis_records import BASELINE, STEPS

from optimizers.analysis import compare
from optimizers.analysis.between_runs import Difference, between, speed_ratio
from optimizers.results import Run, Stat

FAST, SLOW = Stat(100.0, 90.0, 110.0, 6), Stat(50.0, 48.0, 52.0, 6)


def run(*keys: str, step_s: float = 0.5) -> Run:
    steps = [step_s] * len(STEPS)
    return compare(make.record(*(make.measurement(key, steps) for key in (BASELINE, *keys)), replica=steps))


def test_a_ratio_of_medians_has_the_interval_of_both() -> None:
    found = speed_ratio(FAST, SLOW, floor=0.02)
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    # ln 2 - hypot(ln 100/90, ln 52/50) and ln 2 + hypot(ln 110/100, ln 50/48)
    assert found.low == pytest.approx(1.78733, abs=1e-5)
    assert found.high == pytest.approx(2.21850, abs=1e-5)
    assert found.verdict == "faster"


@pytest.mark.parametrize(
    ("one", "other", "floor", "word"),
    [
        (SLOW, FAST, 0.02, "slower"),
        (FAST, SLOW, 0.9, "within noise"),
        (FAST, FAST, 0.02, "within noise"),
        (FAST, replace(SLOW, n=4), 0.02, "too few rounds"),
        (FAST, replace(SLOW, low=None, high=None), 0.02, "too few rounds"),
        (FAST, replace(SLOW, low=-1.0), 0.02, "too few rounds"),
    ],
)
def test_the_word_keeps_to_the_floor_and_to_what_is_known(one: Stat, other: Stat, floor: float, word: str) -> None:
    found = speed_ratio(one, other, floor)
    assert found is not None and found.verdict == word


def test_of_times_less_is_faster_and_what_is_no_speed_has_no_ratio() -> None:
    found = speed_ratio(SLOW, FAST, 0.02, inverse=True)
    assert found is not None and found.ratio == pytest.approx(2.0) and found.verdict == "faster"
    assert speed_ratio(None, FAST, 0.02) is None
    assert speed_ratio(replace(FAST, median=0.0), FAST, 0.02) is None


def test_extreme_figures_give_extreme_ratios_and_no_error() -> None:
    found = speed_ratio(Stat(1e300, 1e299, 1e301, 9), Stat(1e-300, 1e-301, 1e-299, 9), 0.02)
    assert found is not None and found.ratio > 1e100


def test_variants_are_paired_by_key_and_the_rest_is_named() -> None:
    now, then = run("a", "b", step_s=0.25), run("a", "c")
    found = between(now, then)
    assert [pair.one.key for pair in found.pairs] == [BASELINE, "a"]
    assert all(pair.decode is not None and pair.decode.ratio == pytest.approx(2.0) for pair in found.pairs)
    titles = {variant.key: variant.title for variant in (*now.variants, *then.variants)}
    assert (found.only_one, found.only_other) == ((titles["b"],), (titles["c"],))
    assert found.differences == ()


def test_what_differs_is_told() -> None:
    now = run("a")
    elsewhere = replace(now.machine, cpu="Another", packages={"torch": "2.0"})
    work = replace(now.workload, prompts=tuple(reversed(now.workload.prompts)), threads=1)
    found = between(now, replace(now, machine=elsewhere, workload=work))
    assert set(found.differences) == {
        Difference("Processor", now.machine.cpu, "Another"),
        Difference("torch", "–", "2.0"),
        Difference("Threads", "all cores", "1"),
        Difference("Prompts", "other texts", "other texts"),
    }
