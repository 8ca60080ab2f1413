"""From records to the finished run: figures worked out by hand, the verdict rule at its edges, run.json's names."""

from __future__ import annotations

import math
from dataclasses import replace

import analysis_records as make
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import STEPS, caveat_ids, result, two

from optimizers.analysis import compare
from optimizers.analysis.requests import counted, decode_tokens_per_s
from optimizers.analysis.verdicts import farthest, verdict
from optimizers.quality import Interval
from optimizers.results import Run, Stat
from optimizers.schema import Obstacle, Record, Sample, from_json, to_json
from optimizers.scores import Candidate, Disagreement


def test_latency_by_hand() -> None:
    # Five tokens from 0.5 s on, half a second apart: the last at 2.5 s, 2 s for four steps, the end at 2.5625 s.
    run = compare(two(STEPS))
    figures = result(run, BASE).latency
    assert figures is not None
    assert figures.ttft_s == Stat(0.5, 0.5, 0.5, 6)
    assert figures.time_per_output_token_s == Stat(0.5, 0.5, 0.5, 6)
    assert figures.decode_tokens_per_s == Stat(2.0, 2.0, 2.0, 6)
    assert figures.prefill_tokens_per_s == Stat(80.0, 80.0, 80.0, 6)  # 20 tokens in 0.25 s
    assert figures.total_s == Stat(2.5625, 2.5625, 2.5625, 6)
    assert figures.stages is not None
    assert vars(figures.stages) == {
        "tokenize_s": 0.125,
        "prefill_s": 0.25,
        "decode_s": 2.0,
        "detokenize_s": 0.0625,
        "overhead_s": 0.125,  # 2.5625 - 0.125 - 0.25 - 2 - 0.0625
    }
    (point,) = result(run, BASE).points
    assert (point.batch_size, point.prompt_tokens, point.padding, point.latency) == (1, 20, 0.0, figures)
    assert point.throughput is not None
    assert point.throughput.median == pytest.approx(5 / 2.5625)


def test_one_new_token_has_no_time_per_output_token() -> None:
    once = make.timing(0.5, tokens=1)
    samples = tuple(make.sample(BASE, n, 0.5, timing=once) for n in range(6))
    other = tuple(make.sample("a", n, 0.5, timing=once) for n in range(6))
    run = compare(make.record(make.measurement(BASE, [], samples=samples), make.measurement("a", [], samples=other)))
    for key in (BASE, "a"):
        item = result(run, key)
        assert item.latency is not None
        assert item.latency.time_per_output_token_s is None
        assert item.latency.decode_tokens_per_s is None
        assert item.versus_baseline is not None
        assert item.versus_baseline.decode is None
        assert item.versus_baseline.ttft is not None
    assert from_json(Run, to_json(run)) == run


def test_ratios_are_above_one_when_the_variant_is_faster() -> None:
    faster = tuple(make.sample("a", n, 0.25, timing=make.timing(0.25, ttft_s=0.25)) for n in range(6))
    run = compare(two([], samples=faster, memory=make.memory(256 * make.MIB)))
    versus = result(run, "a").versus_baseline
    assert versus is not None
    assert versus.decode is not None
    assert versus.ttft is not None
    assert (versus.decode.ratio, versus.decode.verdict) == (pytest.approx(2.0), "faster")
    assert (versus.ttft.ratio, versus.ttft.verdict) == (pytest.approx(2.0), "faster")
    assert versus.weights_bytes == 0.5
    assert versus.run_peak_bytes == (256 + 200) / (512 + 200)


def test_the_baseline_is_its_own_measure() -> None:
    base = result(compare(two(STEPS)), BASE)
    assert base.versus_baseline is not None
    assert base.versus_baseline.decode is not None
    assert (base.versus_baseline.decode.ratio, base.versus_baseline.decode.verdict) == (1.0, "baseline")
    assert base.quality is None
    assert base.outputs


@pytest.mark.parametrize(
    ("low", "high", "pairs", "floor", "word"),
    [
        (1.03, 1.10, 5, 0.02, "faster"),
        (1.03, 1.10, 4, 0.02, "too few rounds"),
        (1.02, 1.10, 5, 0.02, "within noise"),  # touches the floor
        (1.03, 1.10, 5, 0.05, "within noise"),
        (1.06, 1.10, 5, 0.05, "faster"),
        (0.90, 0.97, 5, 0.02, "slower"),
        (0.90, 0.98, 5, 0.02, "within noise"),
        (0.50, 2.00, 50, 0.02, "within noise"),
        (1.03, 1.10, 5, None, "faster"),
        (0.01, 0.02, 5, 3.0, "within noise"),  # a floor that wide swallows everything
        (None, None, 5, 0.02, "too few rounds"),
    ],
)
def test_the_verdict_rule_at_its_edges(
    low: float | None, high: float | None, pairs: int, floor: float | None, word: str
) -> None:
    assert verdict(Interval(1.0, low, high), pairs, floor) == word


def test_pairs_are_formed_by_round_and_only_of_what_counts() -> None:
    slow = make.sample("a", 0, 5.0, superseded=True)
    good = make.samples("a", [0.25] * 6)
    beyond = make.sample("a", 6, 0.25)  # the baseline has no such round
    run = compare(two([], samples=(slow, *good[:5], beyond)))
    decode = result(run, "a").versus_baseline.decode  # type: ignore[union-attr]
    assert decode is not None
    assert (decode.ratio, decode.verdict) == (pytest.approx(2.0), "faster")
    four = result(compare(two([], samples=(*good[:4], beyond))), "a").versus_baseline
    assert four is not None
    assert four.decode is not None
    assert four.decode.verdict == "too few rounds"


def test_rounds_on_different_prompts_make_no_pair() -> None:
    crossed = tuple(make.sample("a", number, 0.25, prompt=(number + 1) % 3) for number in range(6))
    versus = result(compare(two([], samples=crossed)), "a").versus_baseline
    assert versus is not None
    assert (versus.decode, versus.ttft) == (None, None)


def rounds_of(record: Record) -> tuple[dict[int, Sample], dict[int, Sample]]:
    return counted(record.replica_samples), counted(record.measurements[0].samples)


def test_the_noise_floor_by_hand() -> None:
    # A' at 0.5, 0.5, 0.25, 0.25 of A's 0.5: log-ratios 0, 0, ln 2, ln 2 (speed). Mean ln 2 / 2; all deviations are
    # ln 2 / 2, so sd = sqrt(4 (ln 2 / 2)^2 / 3) = ln 2 / sqrt(3), se = ln 2 / (2 sqrt(3)); t(3, 0.975) = 3.1824463.
    record = make.record(make.measurement(BASE, STEPS), replica=[0.5, 0.5, 0.25, 0.25])
    floor = compare(record).noise_floor
    high = math.log(2) / 2 + 3.182446305284264 * math.log(2) / (2 * math.sqrt(3))
    assert floor.decode == pytest.approx(math.sqrt(2) - 1, rel=1e-9)
    assert farthest(*rounds_of(record), decode_tokens_per_s) == pytest.approx(math.exp(high) - 1, rel=1e-9)
    assert floor.ttft == 0.02  # equal to the last digit, and never under 2 %
    assert floor.kl_divergence is None
    assert "noisy" in caveat_ids(compare(record))
    assert "noisy" not in caveat_ids(compare(two(STEPS)))


def test_both_processes_of_the_baseline_are_what_a_variant_is_held_against() -> None:
    # A takes 0.5 s a token, A' 0.125 s in the first four rounds and does not answer the last two: the baseline's 0.25 s
    # (the geometric mean) and 0.5 s. Log-ratios of a variant at 0.25 s: 0, 0, 0, 0, ln 2, ln 2; the mean is ln 2 / 3,
    # the deviation ln 2 sqrt((4/9 + 8/9) / 5), t(5, 0.975) = 2.570581836.
    base, fast = make.measurement(BASE, [0.5] * 6), make.measurement("a", [0.25] * 6)
    versus = result(compare(make.record(base, fast, replica=[0.125] * 4)), "a").versus_baseline
    assert versus is not None and versus.decode is not None
    half = 2.570581836 * math.log(2) * math.sqrt((4 / 9 + 8 / 9) / 5) / math.sqrt(6)
    assert versus.decode.ratio == pytest.approx(2 ** (1 / 3), rel=1e-9)
    assert versus.decode.low == pytest.approx(2 ** (1 / 3) * math.exp(-half), rel=1e-9)
    alone = result(compare(make.record(base, fast)), "a").versus_baseline
    assert alone is not None and alone.decode is not None and alone.decode.ratio == pytest.approx(2.0)


def test_no_second_process_means_two_percent_and_says_so() -> None:
    run = compare(make.record(make.measurement(BASE, STEPS)))
    assert run.noise_floor.decode == 0.02
    assert "no_replica" in caveat_ids(run)
    once = compare(make.record(make.measurement(BASE, STEPS), replica=[0.5]))
    assert once.noise_floor.decode is None
    assert "noise_unknown" in caveat_ids(once)
    assert not {"no_replica", "noise_unknown"} & caveat_ids(compare(two(STEPS)))


@pytest.mark.parametrize("status", ["not_applied", "failed", "cancelled", "skipped"])
def test_what_was_not_measured_carries_no_figures(status: str) -> None:
    run = compare(two([0.25] * 6, status=status, reason="Why.", remedy="What to do."))
    item = result(run, "a")
    assert (item.latency, item.memory, item.versus_baseline, item.quality) == (None, None, None, None)
    assert (item.points, item.promises) == ((), ())
    assert (item.census, item.reason, item.remedy) == (make.census(), "Why.", "What to do.")


def test_without_a_baseline_nothing_is_compared_and_the_figures_stay() -> None:
    base = make.measurement(BASE, [], status="failed", reason="It died.")
    run = compare(make.record(base, make.measurement("a", STEPS)))
    item = result(run, "a")
    assert item.latency is not None
    assert item.versus_baseline is None
    assert run.recommendation is None
    assert "no_baseline" in caveat_ids(run)


def test_quality_by_hand() -> None:
    answers = (make.passage("answer:0", [0.0, 0.2]), make.passage("answer:1", [0.05, 0.05, 0.7]))
    scored = (*answers, make.passage("text:0", [0.0, 0.1]), make.passage("text:1", [0.2]))
    quality = result(compare(two(STEPS, scores=scored)), "a").quality
    assert quality is not None
    assert quality.positions == 5
    assert quality.kl_divergence is not None
    assert quality.kl_divergence.mean == pytest.approx(0.2)  # 1.0 over 5 positions
    assert quality.same_top is not None
    assert quality.same_top.rate == 0.6  # 0.0, 0.05, 0.05 of five
    assert quality.kl_interval is not None
    assert quality.kl_interval.value == pytest.approx(0.2)
    assert quality.text is not None
    assert (quality.text.positions, quality.text.one_pass) == (3, True)
    assert quality.text.kl_divergence.mean == pytest.approx(0.1)
    assert quality.text.baseline_perplexity == pytest.approx(2.0)  # every token at 1/2
    assert quality.text.perplexity == pytest.approx(4.0)  # every token at 1/4
    assert quality.text.perplexity_ratio.value == pytest.approx(2.0)
    assert quality.text.rms_delta_p == pytest.approx(0.25)
    assert quality.text.delta_p.mean == pytest.approx(-0.25)


def test_positions_that_are_not_finite_are_left_out_and_said() -> None:
    broken = make.passage("answer:0", [0.1, float("nan"), float("inf")], left_out=2)
    torn = make.passage("answer:1", [0.1], same_top=(True, False))
    run = compare(two(STEPS, scores=(broken, torn)))
    quality = result(run, "a").quality
    assert quality is not None
    assert quality.positions == 1
    caveat = next(item for item in run.caveats if item.id == "positions_left_out")
    assert caveat.variant == "a"
    assert ": 6 (answer:0, answer:1)" in caveat.text  # 2 said, 2 not finite, 2 of a passage that cannot be believed
    assert from_json(Run, to_json(run)) == run


@pytest.mark.parametrize(
    ("one_pass", "timed", "noise", "disagrees"),
    [
        ([1.0, 1.0], [0.5, 0.5], 0.0, True),
        ([0.0, 0.0], [0.5, 0.5], 0.0, True),
        ([1.0, 1.0], [0.75, 0.75], 0.0, False),  # a factor of 1.33
        ([0.002, 0.002], [0.0012, 0.0012], 0.0, False),  # under a thousandth of a nat apart
        ([1.0, 1.0], [0.5, 0.5], 0.75, False),  # the baseline's own paths lie farther apart
    ],
)
def test_the_timed_path_is_shown_where_the_paths_disagree(
    one_pass: list[float], timed: list[float], noise: float, disagrees: bool
) -> None:
    # The third position is beyond the timed ones and must not count for the rule.
    scores = (make.passage("text:0", [*one_pass, 50.0]), make.passage("text_timed", timed))
    base = make.measurement(BASE, STEPS, scores=(make.passage("text_timed", [noise, noise]),))
    run = compare(make.record(base, make.measurement("a", STEPS, scores=scores)))
    quality = result(run, "a").quality
    assert quality is not None
    assert quality.text is not None
    assert run.noise_floor.kl_divergence == noise
    assert quality.text.one_pass is not disagrees
    assert quality.text.positions == (2 if disagrees else 3)
    assert ("path_disagreement" in caveat_ids(run)) is disagrees


def test_first_divergence_by_common_prefix() -> None:
    base = (make.output(0, (1, 2, 3)), make.output(1, (1, 2, 3)), make.output(2, (1, 2), stopped=False))
    ours = (make.output(0, (1, 9, 3)), make.output(1, (1, 2, 3, 4)), make.output(2, (1, 2), stopped=True))
    where = Disagreement(1, (Candidate("b", 0.5), Candidate("c", 0.49)), (Candidate("c", 0.6),))
    elsewhere = replace(where, position=0)
    scores = (
        make.passage("answer:0", [0.1], disagreement=where),
        make.passage("answer:1", [0.1], disagreement=elsewhere),
    )
    record = make.record(
        make.measurement(BASE, STEPS, outputs=base), make.measurement("a", STEPS, outputs=ours, scores=scores)
    )
    run = compare(record)
    quality = result(run, "a").quality
    assert quality is not None
    assert [(item.prompt, item.token) for item in quality.first_divergence] == [(0, 1), (1, 3), (2, 2)]
    assert [item.disagreement for item in quality.first_divergence] == [where, None, None]
    assert quality.exact_match_rate == 0.0
    assert quality.length_ratio == pytest.approx((1 + 4 / 3 + 1) / 3)
    assert "near_tie" in caveat_ids(run)
    same = result(compare(make.record(record.measurements[0], replace(record.measurements[0], variant="a"))), "a")
    assert same.quality is not None
    assert (same.quality.exact_match_rate, same.quality.length_ratio) == (1.0, 1.0)
    assert [item.token for item in same.quality.first_divergence] == [None, None, None]


def test_obstacles_of_skipped_variants_reach_the_run() -> None:
    skipped = make.measurement("onnx", [], status="skipped", reason="Not here.", remedy="Install it.", census=None)
    run = compare(make.record(make.measurement(BASE, STEPS), skipped))
    assert Obstacle(result(run, "onnx").reason or "", result(run, "onnx").remedy or "") == Obstacle(
        "Not here.", "Install it."
    )


def test_a_step_of_a_ladder_is_held_against_the_one_below_it() -> None:
    # Half a second a token at the foot, a quarter on the first step: twice as fast. On the second a fifth of a second
    # in every round: 2.5 times the foot and 1.25 times the step below, and half its bytes.
    record = make.record(
        make.measurement(BASE, STEPS),
        make.measurement("a", [0.25] * 6),
        make.measurement("b", [0.2] * 6, memory=make.memory(256 * make.MIB)),
        replica=STEPS,
    )
    foot, first, second = record.plan.variants
    steps = replace(record.plan, variants=(foot, replace(first, below=BASE), replace(second, below="a")))
    run = compare(replace(record, plan=steps))
    assert result(run, BASE).step is None
    one, two = result(run, "a").step, result(run, "b").step
    assert one is not None
    assert (one.below, one.versus) == (BASE, result(run, "a").versus_baseline)
    assert two is not None
    assert two.versus.decode is not None
    assert two.below == "a"
    assert (two.versus.decode.ratio, two.versus.decode.verdict) == (pytest.approx(1.25), "faster")
    assert two.versus.weights_bytes == 0.5
    assert from_json(Run, to_json(run)) == run
    fallen = replace(record.measurements[1], status="failed", reason="It fell.")
    measurements = (record.measurements[0], fallen, record.measurements[2])
    assert result(compare(replace(record, plan=steps, measurements=measurements)), "b").step is None
    assert result(compare(record), "b").step is None  # no ladder, no step
