"""Every figure that llama.cpp's perplexity tool reports under --kl-divergence, against its sums written out as loops in
float64 (tools/perplexity: kl_divergence, mean_and_uncertainty, covariance), from whole rows of probabilities."""

from __future__ import annotations

import math
import random

import pytest
import torch
from loops import mean_and_error, percentile

from optimizers.analysis.quality import text_quality
from optimizers.schema import Measurement
from optimizers.scores import KlTerms, PassageScores
from optimizers.worker.scoring import kl_divergence

POSITIONS, VOCABULARY = 1200, 11
TERMS: tuple[KlTerms, ...] = ("llama_cpp", "all")
EXACT = 1e-9


def rows(seed: int) -> list[list[float]]:
    """Log-probabilities, as float32 holds them."""
    source = random.Random(seed)
    logits = [[source.gauss(0, 2) for _ in range(VOCABULARY)] for _ in range(POSITIONS)]
    return torch.log_softmax(torch.tensor(logits), -1).tolist()


def same_spread(found: object, values: list[float]) -> None:
    middle, error = mean_and_error(values)
    wanted = {"mean": middle, "se": error, "max": max(values), "min": min(values), "median": percentile(values, 0.5)}
    named = {"p999": 0.999, "p99": 0.99, "p95": 0.95, "p90": 0.9, "p10": 0.1, "p5": 0.05, "p1": 0.01}
    wanted |= {name: percentile(values, fraction) for name, fraction in named.items()}
    for name, value in wanted.items():
        assert getattr(found, name) == pytest.approx(value, abs=EXACT), name


def test_every_figure_of_the_text() -> None:
    base = rows(1)
    ours = torch.log_softmax(0.7 * torch.tensor(base) + 0.3 * torch.tensor(rows(2)), -1).tolist()
    source = random.Random(3)
    token = [source.randrange(VOCABULARY) for _ in range(POSITIONS)]
    measured = kl_divergence(torch.tensor(base), torch.tensor(ours)).tolist()
    tops = [base_row.index(max(base_row)) == row.index(max(row)) for base_row, row in zip(base, ours, strict=True)]
    lb = [row[t] for row, t in zip(base, token, strict=True)]
    lv = [row[t] for row, t in zip(ours, token, strict=True)]
    half = POSITIONS // 2
    windows = tuple(
        PassageScores(f"text:{i}", "one_pass", *(tuple(c[i * half : (i + 1) * half]) for c in (measured, tops, lb, lv)))
        for i in range(2)
    )
    found = text_quality(Measurement("v", "v", (), "measured", scores=windows), noise=None, seed=0)
    assert found is not None and found.log_perplexity_ratio and found.perplexity_difference and found.kl_interval

    by_hand = [
        sum(math.exp(b) * (b - o) for b, o in zip(row, own, strict=True)) for row, own in zip(base, ours, strict=True)
    ]
    same_spread(found.kl_divergence, by_hand)
    same_spread(found.delta_p, [math.exp(v) - math.exp(b) for v, b in zip(lv, lb, strict=True)])

    nll, nll_error = mean_and_error([-x for x in lv])
    nll_base, base_error = mean_and_error([-x for x in lb])
    ppl, ppl_base = math.exp(nll), math.exp(nll_base)
    covariance = (sum(a * b for a, b in zip(lv, lb, strict=True)) / POSITIONS - nll * nll_base) / (POSITIONS - 1)
    assert found.perplexity == pytest.approx(ppl, rel=EXACT)
    assert found.baseline_perplexity == pytest.approx(ppl_base, rel=EXACT)
    assert found.perplexity_se == pytest.approx(ppl * nll_error, rel=EXACT)
    assert found.baseline_perplexity_se == pytest.approx(ppl_base * base_error, rel=EXACT)
    assert found.correlation == pytest.approx(covariance / (nll_error * base_error), abs=EXACT)
    log_error = math.sqrt(nll_error**2 + base_error**2 - 2 * covariance)
    assert found.log_perplexity_ratio.value == pytest.approx(nll - nll_base, abs=EXACT)
    assert found.log_perplexity_ratio.se == pytest.approx(log_error, abs=EXACT)
    assert found.perplexity_ratio.value == pytest.approx(ppl / ppl_base, rel=EXACT)
    spread = (ppl * nll_error) ** 2 + (ppl_base * base_error) ** 2 - 2 * ppl * ppl_base * covariance
    assert found.perplexity_difference.value == pytest.approx(ppl - ppl_base, rel=EXACT)
    assert found.perplexity_difference.se == pytest.approx(math.sqrt(spread), rel=1e-8)  # it is a small difference

    square, square_error = mean_and_error([(math.exp(v) - math.exp(b)) ** 2 for v, b in zip(lv, lb, strict=True)])
    assert found.rms_delta_p == pytest.approx(math.sqrt(square), abs=EXACT)
    assert found.rms_delta_p_se == pytest.approx(0.5 / math.sqrt(square) * square_error, abs=EXACT)
    share = sum(tops) / POSITIONS
    assert found.same_top.rate == share
    assert found.same_top.se == pytest.approx(math.sqrt(share * (1 - share) / (POSITIONS - 1)), abs=EXACT)
    assert found.kl_interval.low is not None and found.kl_interval.low <= found.kl_divergence.mean


def test_by_that_tools_rule_terms_at_and_under_16_are_dropped() -> None:
    """Log-probabilities on both sides of the rule's edge, one on it, and one of nothing at all."""
    source = random.Random(5)
    base = [[source.uniform(-20, -12) for _ in range(VOCABULARY)] for _ in range(POSITIONS)]
    base[0][:4] = [-16.0, math.nextafter(-16.0, 0.0), -math.inf, -0.5]
    ours = [[source.uniform(-20, -12) for _ in range(VOCABULARY)] for _ in range(POSITIONS)]
    wide_base, wide_ours = torch.tensor(base).tolist(), torch.tensor(ours).tolist()  # as float32 holds them
    found, whole = (kl_divergence(torch.tensor(base), torch.tensor(ours), terms).tolist() for terms in TERMS)
    for row, own, value, all_of_it in zip(wide_base, wide_ours, found, whole, strict=True):
        total = rest = 0.0
        for b, o in zip(row, own, strict=True):
            if b > -16.0:
                total += math.exp(b) * (b - o)
            elif b > -math.inf:
                rest += math.exp(b) * (b - o)
        assert value == pytest.approx(total, abs=1e-18, rel=EXACT)
        assert all_of_it == pytest.approx(max(0.0, total + rest), abs=1e-18, rel=EXACT)
    assert min(found) < 0.0  # no whole sum, so none that must be above 0; the tool leaves it so, too
    assert kl_divergence(torch.tensor(base), torch.tensor(ours)).tolist() == whole


def test_what_cannot_be_said_is_none() -> None:
    one = PassageScores("text:0", "one_pass", (0.5,), (True,), (-1.0,), (-1.0,))
    found = text_quality(Measurement("v", "v", (), "measured", scores=(one,)), noise=None, seed=0)
    assert found is not None and found.log_perplexity_ratio
    assert (found.perplexity_se, found.correlation, found.rms_delta_p_se, found.kl_interval) == (None,) * 4
    assert found.log_perplexity_ratio.se is None and found.kl_divergence.p999 is None
