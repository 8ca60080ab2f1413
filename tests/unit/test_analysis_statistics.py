"""The formulas against values worked out by hand and against plain loops written another way."""

from __future__ import annotations

import math
import random

import pytest
from loops import mean_and_error, percentile

from optimizers.analysis import statistics
from optimizers.analysis.quality_words import is_numeric_noise, numeric_floor, quality_word
from optimizers.quality import Interval, Rate
from optimizers.results import Stat

CLOSE = 1e-12


def noise(count: int, seed: int) -> list[float]:
    source = random.Random(seed)
    return [source.expovariate(20.0) for _ in range(count)]


def test_median_interval_by_hand() -> None:
    # Six values: P(all six on one side) = 2/64, so the range covers 1 - 2/64 = 96.9 %.
    assert statistics.stat([6.0, 1.0, 5.0, 2.0, 4.0, 3.0]) == Stat(3.5, 1.0, 6.0, 6)
    # Nine values: P(B <= 1) = 10/512 = 0.0195, P(B <= 2) = 46/512 = 0.09: the second lowest to the second highest.
    assert statistics.stat([float(x) for x in range(1, 10)]) == Stat(5.0, 2.0, 8.0, 9)
    # Five values carry 1 - 2/32 = 93.75 % at most.
    assert statistics.stat([1.0, 2.0, 3.0, 4.0, 5.0]) == Stat(3.0, None, None, 5)
    assert statistics.stat([]) is None


@pytest.mark.parametrize("n", [6, 7, 12, 25, 100])
def test_median_interval_covers_95_percent_and_the_next_narrower_does_not(n: int) -> None:
    found = statistics.stat([float(x) for x in range(1, n + 1)])
    assert found is not None
    assert found.low is not None
    k = int(found.low)

    def coverage(rank: int) -> float:
        return 1 - 2 * sum(math.comb(n, below) for below in range(rank)) / 2**n

    assert coverage(k) >= 0.95 > coverage(k + 1)
    assert found.high == n + 1 - k


def test_paired_ratio_by_hand() -> None:
    # Ratios 2 and 8: logs ln 2 and 3 ln 2, mean 2 ln 2 (ratio 4), sd sqrt(2) ln 2, se ln 2; t(1, 0.975) = 12.7062047.
    found = statistics.paired_ratio([(2.0, 1.0), (8.0, 1.0)])
    assert found is not None
    assert found.value == pytest.approx(4.0, abs=CLOSE)
    half = 12.706204736174694 * math.log(2)
    assert found.low == pytest.approx(4 * math.exp(-half), rel=1e-9)
    assert found.high == pytest.approx(4 * math.exp(half), rel=1e-9)
    assert statistics.paired_ratio([(3.0, 2.0)]) == Interval(pytest.approx(1.5), None, None)
    assert statistics.paired_ratio([]) is None


def test_equal_pairs_give_a_ratio_without_width() -> None:
    found = statistics.paired_ratio([(3.0, 2.0)] * 5)
    assert found == Interval(pytest.approx(1.5), pytest.approx(1.5), pytest.approx(1.5))


@pytest.mark.parametrize("n", [2, 9, 10, 19, 20, 99, 100, 359])
def test_spread_against_plain_loops(n: int) -> None:
    values = noise(n, seed=n)
    found = statistics.spread(values)
    assert found is not None
    mean, error = mean_and_error(values)
    assert found.mean == pytest.approx(mean, abs=CLOSE)
    assert found.se == pytest.approx(error, abs=CLOSE)
    assert found.median == pytest.approx(percentile(values, 0.5), abs=CLOSE)
    assert (found.max, found.min) == (max(values), min(values))
    for figure, fraction, needed in ((found.p99, 0.99, 100), (found.p95, 0.95, 20), (found.p90, 0.90, 10)):
        if n < needed:
            assert figure is None
        else:
            assert figure == pytest.approx(percentile(values, fraction), abs=CLOSE)


@pytest.mark.parametrize(
    ("names", "needed"), [(("p999",), 1000), (("p99", "p1"), 100), (("p95", "p5"), 20), (("p90", "p10"), 10)]
)
def test_a_percentile_is_said_from_the_size_on_at_which_one_lies_beyond_it(names: tuple[str, ...], needed: int) -> None:
    few, enough = (statistics.spread(noise(n, seed=n)) for n in (needed - 1, needed))
    assert [getattr(few, name) for name in names] == [None] * len(names)
    assert None not in [getattr(enough, name) for name in names]


def test_spread_of_one_and_of_none() -> None:
    one = statistics.spread([0.5])
    assert one is not None
    assert (one.mean, one.se, one.max, one.p90) == (0.5, None, 0.5, None)
    assert statistics.spread([]) is None


def test_rate_by_hand() -> None:
    # 8 of 10: sqrt(0.8 * 0.2 / 9) = 0.13333.
    assert statistics.rate(8, 10) == Rate(0.8, pytest.approx(2 / 15, abs=CLOSE), 10)
    assert statistics.rate(1, 1) == Rate(1.0, None, 1)
    assert statistics.rate(0, 0) is None


def test_perplexity_ratio_against_the_covariance_formula() -> None:
    variant = [-x for x in noise(200, 1)]
    baseline = [0.8 * v - x for v, x in zip(variant, noise(200, 2), strict=True)]
    n = len(variant)
    mean_v = sum(variant) / n
    mean_b = sum(baseline) / n
    var_v = sum(v * v for v in variant) / n - mean_v**2
    var_b = sum(b * b for b in baseline) / n - mean_b**2
    covariance = sum(v * b for v, b in zip(variant, baseline, strict=True)) / n - mean_v * mean_b
    log_ratio = mean_b - mean_v
    error = math.sqrt((var_v + var_b - 2 * covariance) / (n - 1))
    found = statistics.perplexity_ratio(variant, baseline)
    assert found.value == pytest.approx(math.exp(log_ratio), abs=CLOSE)
    assert found.low == pytest.approx(math.exp(log_ratio - 1.959963984540054 * error), abs=CLOSE)
    assert found.high == pytest.approx(math.exp(log_ratio + 1.959963984540054 * error), abs=CLOSE)


def test_perplexity_and_delta_p_by_hand() -> None:
    half, quarter = math.log(0.5), math.log(0.25)
    # Probabilities 1/2 and 1/8: the geometric mean is 1/4, so perplexity 4.
    assert statistics.perplexity([half, math.log(0.125)]) == pytest.approx(4.0, abs=CLOSE)
    # Every token half as probable: twice the perplexity, no width.
    found = statistics.perplexity_ratio([quarter, quarter], [half, half])
    assert found == Interval(pytest.approx(2.0), pytest.approx(2.0), pytest.approx(2.0))
    # 1/4 - 1/2 = -1/4 and 1/2 - 1/4 = +1/4: the mean is 0, the root mean square 1/4.
    shift = statistics.delta_p([quarter, half], [half, quarter])
    assert shift == [pytest.approx(-0.25), pytest.approx(0.25)]
    assert statistics.root_mean_square(shift) == pytest.approx(0.25, abs=CLOSE)


def test_hopeless_log_probabilities_give_a_huge_figure_and_no_error() -> None:
    assert statistics.perplexity([-1e300]) == math.exp(700)
    assert math.isfinite(statistics.perplexity_ratio([-1e300], [-1.0]).value)


def test_bootstrap_pools_positions_and_resamples_prompts() -> None:
    # Prompts of one position at 0 and of three at 1: the pooled mean is 3/4, and the possible resamples of two
    # prompts are 0 (a quarter of them), 3/4 (half) and 1 (a quarter): the 95 % interval is the whole range.
    assert statistics.bootstrap_mean([[0.0], [1.0, 1.0, 1.0]], seed=0) == Interval(0.75, 0.0, 1.0)
    groups = [noise(20, seed) for seed in range(5)]
    found = statistics.bootstrap_mean(groups, seed=3)
    assert found == statistics.bootstrap_mean(groups, seed=3)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    means = [sum(group) / 20 for group in groups]
    assert min(means) < found.low < found.value < found.high < max(means)
    assert statistics.bootstrap_mean([[1.0, 2.0]], seed=0) is None
    assert statistics.bootstrap_mean([[1.0], []], seed=0) is None


@pytest.mark.parametrize(
    ("kl", "top", "word"),
    [
        (0.0, 1.0, "indistinguishable"),
        (0.005, 0.97, "indistinguishable"),
        (0.0051, 0.97, "slight"),
        (0.005, 0.969, "slight"),
        (0.05, 0.90, "slight"),
        (0.051, 0.99, "noticeable"),
        (0.5, 0.65, "noticeable"),
        (0.5, 0.64, "broken"),
        (0.51, 1.0, "broken"),
        (float("nan"), 1.0, "broken"),
        (None, 0.5, "broken"),
        (0.001, None, "indistinguishable"),
        (None, None, None),
    ],
)
def test_quality_words_at_their_edges(kl: float | None, top: float | None, word: str | None) -> None:
    assert quality_word(kl, top) == word


@pytest.mark.parametrize(
    ("kl", "floor", "noise"),
    [
        (1e-8, 5e-8, True),
        (5e-8, 5e-8, True),
        (6e-8, 5e-8, False),
        (0.0, 0.0, True),  # the very same
        (1e-12, 0.0, False),
        (-4e-9, 0.0, True),  # llama.cpp's rule and rounding can leave it a hair under zero
        (0.001, None, False),
        (None, 0.001, False),
        (0.004, 0.005, True),
        (0.004, 0.0051, False),  # a floor that wide is no noise
        (0.3, 1.7, False),
        (float("nan"), 0.001, False),
        (0.001, float("nan"), False),
    ],
)
def test_the_noise_of_the_numerics_at_its_edges(kl: float | None, floor: float | None, noise: bool) -> None:
    assert is_numeric_noise(kl, floor) is noise


def test_a_floor_above_the_word_indistinguishable_is_no_noise() -> None:
    assert [numeric_floor(floor) for floor in (None, 0.0, 0.005, 0.0051)] == [None, 0.0, 0.005, None]
