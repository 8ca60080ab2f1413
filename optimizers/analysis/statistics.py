"""The formulas: medians, paired ratios, spreads, rates, perplexity ratios and the bootstrap.

Covers numbers in, numbers out, no records of a run. Sequences are one-dimensional and finite. The distributions come
from scipy.special, whose functions scipy.stats itself calls (scipy.stats takes twice the memory to import).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from optimizers.quality import Estimate, Interval, Rate, Spread
from optimizers.results import Stat

Z_95 = 1.959963984540054
RESAMPLES = 2000
# A percentile is shown when at least one position in expectation lies beyond it.
PERCENTILE_NEEDS = {99.9: 1000, 99: 100, 95: 20, 90: 10, 10: 10, 5: 20, 1: 100}
_LARGEST_EXPONENT = 700.0


def stat(values: Sequence[float]) -> Stat | None:
    """The median with a distribution-free 95 % interval from order statistics; None without values.

    The interval is [x(k), x(n+1-k)] with the largest k for which P(Binomial(n, 1/2) < k) <= 0.025 (Conover, Practical
    Nonparametric Statistics, on quantiles); its ends are None under six values, where no such k exists."""
    if not values:
        return None
    ordered = sorted(values)
    n = len(ordered)
    k = sum(1 for below in range(n // 2) if special.bdtr(below, n, 0.5) <= 0.025)
    low, high = (ordered[k - 1], ordered[n - k]) if k else (None, None)
    return Stat(median=float(np.median(ordered)), low=low, high=high, n=n)


def paired_ratio(pairs: Sequence[tuple[float, float]], confidence: float = 0.95) -> Interval | None:
    """The geometric mean of first / second over pairs of positive figures, with its interval (95 % unless told).

    The mean of the log-ratios and its t interval with n - 1 degrees of freedom, transformed back. The ends are None
    with one pair, the whole is None with none."""
    if not pairs:
        return None
    logs = [math.log(first) - math.log(second) for first, second in pairs]
    n = len(logs)
    middle = math.fsum(logs) / n
    if n < 2:
        return Interval(exp(middle), None, None)
    deviation = math.sqrt(math.fsum((x - middle) ** 2 for x in logs) / (n - 1))
    half = float(special.stdtrit(n - 1, (1 + confidence) / 2)) * deviation / math.sqrt(n)
    return Interval(exp(middle), exp(middle - half), exp(middle + half))


def spread(values: Sequence[float]) -> Spread | None:
    """Per-position figures summed up as llama.cpp's perplexity tool does; None without values.

    Standard error of the mean: sqrt((E[x^2] - E[x]^2) / (n - 1)); percentiles interpolate linearly between the
    positions (n - 1) * p. One that fewer positions than PERCENTILE_NEEDS cannot carry is None."""
    if not values:
        return None
    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    percentiles = {p: float(np.percentile(array, p)) if n >= need else None for p, need in PERCENTILE_NEEDS.items()}
    return Spread(
        mean=float(array.mean()),
        se=math.sqrt(float(array.var()) / (n - 1)) if n > 1 else None,
        max=float(array.max()),
        p99=percentiles[99],
        p95=percentiles[95],
        p90=percentiles[90],
        median=float(np.median(array)),
        min=float(array.min()),
        p999=percentiles[99.9],
        p10=percentiles[10],
        p5=percentiles[5],
        p1=percentiles[1],
    )


def rate(hits: int, n: int) -> Rate | None:
    """A share with its binomial standard error sqrt(p (1 - p) / (n - 1)), as llama.cpp's perplexity tool has it; None
    when `n` is 0."""
    if n < 1:
        return None
    share = hits / n
    return Rate(rate=share, se=math.sqrt(share * (1 - share) / (n - 1)) if n > 1 else None, n=n)


def perplexity(logprobs: Sequence[float]) -> float:
    """exp of the mean negative log-probability (nats) of a passage's tokens; needs at least one."""
    return exp(-math.fsum(logprobs) / len(logprobs))


def log_perplexity_ratio(variant: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """ln of the variant's perplexity over the baseline's on the same tokens, from their log-probabilities in nats.

    The variance is var(variant) + var(baseline) - 2 cov, each over n - 1 (llama.cpp's perplexity tool), which is the
    variance of the difference per token. Needs at least one."""
    return mean(np.asarray(baseline, dtype=np.float64) - np.asarray(variant, dtype=np.float64))


def perplexity_ratio(variant: Sequence[float], baseline: Sequence[float]) -> Interval:
    """Perplexity of the variant over the baseline's on the same tokens: exp of `log_perplexity_ratio`, with the
    interval exp(value +- 1.96 se). Needs at least one."""
    log = log_perplexity_ratio(variant, baseline)
    if log.se is None:
        return Interval(exp(log.value), None, None)
    return Interval(exp(log.value), exp(log.value - Z_95 * log.se), exp(log.value + Z_95 * log.se))


def mean(values: Sequence[float] | NDArray[np.float64]) -> Estimate:
    """The mean with its standard error sqrt((E[x^2] - E[x]^2) / (n - 1)); needs at least one value."""
    array = np.asarray(values, dtype=np.float64)
    se = math.sqrt(float(array.var()) / (len(array) - 1)) if len(array) > 1 else None
    return Estimate(float(array.mean()), se)


def perplexity_error(logprobs: Sequence[float]) -> float | None:
    """Standard error of `perplexity`: itself times that of its logarithm (first order, as llama.cpp's tool has it)."""
    se = mean(logprobs).se
    return None if se is None else perplexity(logprobs) * se


def perplexity_difference(variant: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Perplexity of the variant less the baseline's on the same tokens. With P and Q the two perplexities and s, t the
    errors of their logarithms the variance is (P s)^2 + (Q t)^2 - 2 P Q cov / (n - 1) (llama.cpp's perplexity tool)."""
    ours, theirs = perplexity(variant), perplexity(baseline)
    first, second = np.asarray(variant, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if len(first) < 2:
        return Estimate(ours - theirs, None)
    scaled = ours * first - theirs * second
    return Estimate(ours - theirs, math.sqrt(float(scaled.var()) / (len(scaled) - 1)))


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's correlation; None under two values or where one side does not vary."""
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(one) < 2 or not one.std() or not other.std():
        return None
    return float(np.corrcoef(one, other)[0, 1])


def root_mean_square_error(values: Sequence[float]) -> float | None:
    """Standard error of `root_mean_square`: that of the mean square over twice the root (llama.cpp's perplexity tool);
    None where it cannot be said."""
    root, se = root_mean_square(values), mean([x * x for x in values]).se
    return None if se is None or not root else 0.5 * se / root


def delta_p(variant: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """Probability of each passage token under the variant minus that under the baseline, from log-probabilities."""
    difference: NDArray[np.float64] = np.exp(np.asarray(variant)) - np.exp(np.asarray(baseline))
    return [float(x) for x in difference]


def root_mean_square(values: Sequence[float]) -> float:
    """sqrt(E[x^2]); needs at least one value."""
    return math.sqrt(math.fsum(x * x for x in values) / len(values))


def bootstrap_mean(groups: Sequence[Sequence[float]], seed: int) -> Interval | None:
    """The mean over all positions, with a 95 % percentile interval from resampling whole groups (prompts), because
    the tokens of one prompt are not independent (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13).

    None with fewer than two non-empty groups."""
    filled = [group for group in groups if group]
    return bootstrap_ratio([math.fsum(group) for group in filled], [len(group) for group in filled], seed)


def bootstrap_ratio(sums: Sequence[float], counts: Sequence[int], seed: int) -> Interval | None:
    """The sum of `sums` over that of `counts` (each above 0), with the interval of `bootstrap_mean`: one entry of both
    is one group. None with fewer than two groups."""
    if len(sums) < 2:
        return None
    over, under = np.array(sums), np.array(counts)
    picks = np.random.default_rng(seed).integers(0, len(over), size=(RESAMPLES, len(over)))
    means = over[picks].sum(axis=1) / under[picks].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(over.sum() / under.sum()), float(low), float(high))


def exp(x: float) -> float:
    """e^x, held within what a float can carry, so that a broken variant gives an extreme figure and not an error."""
    return math.exp(max(-_LARGEST_EXPONENT, min(x, _LARGEST_EXPONENT)))


def sign_test(one: int, other: int) -> float | None:
    """The exact two-sided sign test of a split: how likely one at least as uneven is when both sides are as likely, at
    most 1; None where nothing was split. Twice P(Binomial(n, 1/2) <= the smaller side) (Conover, Practical
    Nonparametric Statistics, on the sign test)."""
    n = one + other
    return min(1.0, 2 * float(special.bdtr(min(one, other), n, 0.5))) if n else None


def holm(ps: Sequence[float]) -> list[float]:
    """The p values of several tests, each corrected for their number by Holm's step-down rule: the k-th smallest of m
    times m + 1 - k, no less than the one before it, at most 1 (Holm, A Simple Sequentially Rejective Multiple Test
    Procedure)."""
    corrected, highest = [0.0] * len(ps), 0.0
    for place, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - place) * ps[index]))
        corrected[index] = highest
    return corrected
