"""What is said of compiled, cached, drawn and guessed tokens: from the census and the requests, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import analysis_records as make
import pytest
from analysis_records import BASELINE, STEPS, caveat_ids, promised, result

from optimizers.analysis import compare
from optimizers.results import PromiseResult, Run
from optimizers.schema import CompileCensus, Cost, Record, SkippedModule


def run_of(steps: list[float], census: dict[str, Any], **changes: Any) -> Record:
    """The baseline against one variant with such a census."""
    made = make.measurement("a", steps, census=make.census(**census), **changes)
    return make.record(make.measurement(BASELINE, STEPS), made, replica=STEPS)


def judged(record: Record, metric: str, low: float | None, high: float | None) -> PromiseResult:
    first, planned = record.plan.variants
    planned = replace(planned, promises=(promised(metric, low, high),))
    return result(compare(replace(record, plan=replace(record.plan, variants=(first, planned)))), "a").promises[0]


@pytest.mark.parametrize(
    ("census", "words"),
    [
        ({"compile": CompileCensus(3, 0, 2, 2)}, "compiled anew 2 times"),
        ({"compile": CompileCensus(1, 4, 0)}, "plain Python at 4 places"),
        ({"compile": CompileCensus(1, 0, 0)}, "most of the 537 MB of weights"),
        ({"decoding": "sampling"}, "Choosing a token is little work"),
        ({"cache": "none"}, "The texts are short (25 tokens"),
    ],
)
def test_a_broken_promise_names_what_the_census_shows(census: dict[str, Any], words: str) -> None:
    found = judged(run_of(STEPS, census), "decode", 1.5, None)
    assert found.kept is False
    assert words in (found.why or "")


def test_a_large_head_that_stayed_is_named() -> None:
    head = SkippedModule("lm_head", "output head: left as it was")
    record = run_of(STEPS, {"modules_converted": 14, "modules_skipped": (head,)})
    checkpoint = replace(record.plan.checkpoint, parameters=100_000)
    record = replace(record, plan=replace(record.plan, checkpoint=checkpoint))
    assert "The output head, 25% of the parameters" in (judged(record, "decode", 1.5, None).why or "")  # 384 x 64


def guessed(steps: int) -> Record:
    """Requests of 5 tokens that took so many steps."""
    record = run_of(STEPS, {"decoding": "prompt_lookup"})
    base, variant = record.measurements
    samples = tuple(replace(item, timing=replace(item.timing, steps=steps)) for item in variant.samples)
    return replace(record, measurements=(base, replace(variant, samples=samples)))


def test_tokens_for_each_step_are_counted_and_explain_a_lookup_that_found_nothing() -> None:
    latency = result(compare(guessed(4)), "a").latency
    assert latency is not None
    assert latency.tokens_per_step == 1.25
    assert "seldom repeat" not in (judged(guessed(4), "decode", 1.5, None).why or "")
    assert "A step gave 1.00 tokens" in (judged(guessed(5), "decode", 1.5, None).why or "")
    assert "scored_plainly" in caveat_ids(compare(guessed(5)))


def test_slower_within_the_noise_is_not_called_slower() -> None:
    found = judged(run_of(STEPS, {"decoding": "sampling"}), "decode", None, 1.0)
    assert found.kept is None
    assert "cannot be called slower" in (found.why or "")
    assert judged(run_of([1.25] * 6, {"cache": "none"}), "decode", None, 0.5).kept is True


def test_drawn_answers_are_never_compared_word_by_word() -> None:
    drawn = compare(run_of(STEPS, {"decoding": "sampling"}, scores=(make.passage("answer:0", [0.2]),)))
    quality = result(drawn, "a").quality
    assert quality is not None
    assert quality.first_divergence == ()
    assert quality.exact_match_rate is None
    assert quality.kl_divergence is not None
    assert quality.kl_divergence.mean == pytest.approx(0.2)
    assert "drawn" in caveat_ids(drawn)
    plain = result(compare(run_of(STEPS, {"decoding": "greedy"})), "a").quality
    assert plain is not None
    assert plain.exact_match_rate == 1.0


def texts(run: Run) -> dict[str, str]:
    return {caveat.id: caveat.text for caveat in run.caveats if caveat.variant == "a"}


def test_cold_and_cached_compiling_are_told_apart_and_late_compiling_is_a_caveat() -> None:
    cost = Cost(1.0, 90.4, 0.5)
    cold = compare(run_of(STEPS, {"compile": CompileCensus(1, 0, 0, 0, False)}, cost=cost))
    assert texts(cold)["compiled_cold"] == "Compiling a took 90 s, from scratch."
    warm = texts(compare(run_of(STEPS, {"compile": CompileCensus(3, 0, 2, 2, True)}, cost=cost)))
    assert "earlier run" in warm["compiled_warm"]
    assert "2 more times" in warm["recompiled"]
    assert not caveat_ids(compare(run_of(STEPS, {}))) & {"compiled_cold", "compiled_warm", "recompiled"}
