"""From records to the finished run: figures worked out by hand, the verdict rule at its edges, run.json's names."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import analysis_records as make
import pytest

from optimizers.analysis import compare
from optimizers.analysis.verdicts import verdict
from optimizers.results import Interval, Run, Stat, VariantResult
from optimizers.schema import (
    Candidate,
    Census,
    Disagreement,
    Obstacle,
    Promise,
    Record,
    SkippedModule,
    from_json,
    to_json,
)

BASE = make.BASELINE
STEPS = [0.5] * 6


def result(run: Run, key: str) -> VariantResult:
    return next(item for item in run.variants if item.key == key)


def caveat_ids(run: Run) -> set[str]:
    return {caveat.id for caveat in run.caveats}


def two(steps: list[float], **changes) -> Record:
    """The baseline at half a second a token against a variant, in six rounds."""
    return make.record(make.measurement(BASE, STEPS), make.measurement("a", steps, **changes), replica=STEPS)


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


def test_the_noise_floor_by_hand() -> None:
    # A' at 0.5, 0.5, 0.25, 0.25 of A's 0.5: log-ratios 0, 0, ln 2, ln 2 (speed). Mean ln 2 / 2; all deviations are
    # ln 2 / 2, so sd = sqrt(4 (ln 2 / 2)^2 / 3) = ln 2 / sqrt(3), se = ln 2 / (2 sqrt(3)); t(3, 0.975) = 3.1824463.
    record = make.record(make.measurement(BASE, STEPS), replica=[0.5, 0.5, 0.25, 0.25])
    floor = compare(record).noise_floor
    high = math.log(2) / 2 + 3.182446305284264 * math.log(2) / (2 * math.sqrt(3))
    assert floor.decode == pytest.approx(math.exp(high) - 1, rel=1e-9)
    assert floor.ttft == 0.02  # equal to the last digit, and never under 2 %
    assert floor.kl_divergence is None


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


def promised(metric: str | None, low: float | None, high: float | None) -> Promise:
    return Promise("A claim.", "what it says", "a page", metric, low, high)


def judged(record: Record, *promises: Promise):
    planned = record.plan.variants[1]
    plan = replace(record.plan, variants=(record.plan.variants[0], replace(planned, promises=promises)))
    return result(compare(replace(record, plan=plan)), planned.key).promises


def test_promises_kept_and_broken() -> None:
    record = two([0.25] * 6, memory=make.memory(256 * make.MIB), scores=(make.passage("answer:0", [0.2]),))
    found = judged(
        record,
        promised("decode", 1.5, 3.0),
        promised("ttft", 1.5, None),
        promised("weights_bytes", None, 0.5),
        promised("run_peak_bytes", None, 0.5),
        promised("kl_divergence", None, 0.1),
        promised(None, None, None),
    )
    assert [item.kept for item in found] == [True, False, True, False, False, None]
    assert found[0].measured == "2.00x the baseline's decode speed"
    assert found[2].measured == "0.50x the baseline's bytes of weights"
    assert found[4].measured == "mean KL divergence 0.2 nats"
    assert all(item.why for item in found if item.kept is not True)


def test_a_speed_that_might_still_be_in_the_range_is_not_judged() -> None:
    wide = judged(two([0.25, 0.5, 0.25, 0.5, 0.25, 0.5]), promised("decode", 1.5, None))
    assert wide[0].kept is None
    assert "interval" in (wide[0].why or "")
    few = judged(two([0.25] * 3), promised("decode", 1.5, None))
    assert few[0].kept is None
    assert "too few rounds" in (few[0].why or "")


@pytest.mark.parametrize(
    ("key", "metric", "words"),
    [
        ("bf16+sdpa", "decode", "no native bf16"),
        ("fp16+sdpa", "decode", "no native fp16"),
        ("fp32+sdpa+int8_dynamic", "decode", "VNNI"),
        ("bf16+sdpa+bnb_nf4", "decode", "written for GPUs"),
        ("fp32+sdpa+torchao_int8_weight_only", "decode", "Nothing is compiled"),
        ("fp32+eager", "decode", "64 wide"),
        ("fp32+sdpa+int8_dynamic", "weights_bytes", "21% of the parameters"),
        ("fp32+sdpa+int8_dynamic", "weights_bytes", "2 modules were left as they were, such as lm_head: It is tied."),
    ],
)
def test_a_broken_promise_is_explained_by_evidence(key: str, metric: str, words: str) -> None:
    census: Census = make.census(modules_converted=14, modules_skipped=(SkippedModule("lm_head", "It is tied.", 2),))
    record = make.record(make.measurement(BASE, STEPS), make.measurement(key, STEPS, census=census), replica=STEPS)
    (found,) = judged(record, promised(metric, 0.01, 0.02))
    assert found.kept is False
    assert words in (found.why or "")


def test_native_instructions_are_not_blamed() -> None:
    record = make.record(make.measurement(BASE, STEPS), make.measurement("bf16+sdpa", STEPS), replica=STEPS)
    machine = replace(make.MACHINE, instruction_sets=("avx512_bf16", "avx512_vnni"))
    record = replace(record, plan=replace(record.plan, machine=machine))
    (found,) = judged(record, promised("decode", 2.0, None))
    assert "bf16" not in (found.why or "")


GOOD = (make.passage("answer:0", [0.001] * 50),)
POOR = (make.passage("answer:0", [0.3] * 50),)


def test_the_fastest_with_acceptable_quality_is_recommended() -> None:
    base = make.measurement(BASE, STEPS)
    fast = make.measurement("fast", [0.25] * 6, scores=GOOD)
    fastest_but_poor = make.measurement("poor", [0.125] * 6, scores=POOR)
    found = compare(make.record(base, fast, fastest_but_poor, replica=STEPS)).recommendation
    assert found is not None
    assert found.key == "fast"
    assert "2.00x" in found.reason
    assert "indistinguishable" in found.reason


def test_memory_is_recommended_when_nothing_is_faster_and_the_baseline_when_nothing_helps() -> None:
    base = make.measurement(BASE, STEPS)
    small = make.measurement("small", STEPS, scores=GOOD, memory=make.memory(256 * make.MIB))
    found = compare(make.record(base, small, replica=STEPS)).recommendation
    assert found is not None
    assert found.key == "small"
    assert "0.50x" in found.reason
    poor = make.measurement("small", STEPS, scores=POOR, memory=make.memory(256 * make.MIB))
    found = compare(make.record(base, poor, replica=STEPS)).recommendation
    assert found is not None
    assert found.key == BASE
    assert compare(make.record(base)).recommendation is None


def test_four_bit_on_a_low_bit_grid_is_never_recommended_without_saying_so() -> None:
    checkpoint = replace(make.CHECKPOINT, low_bit_grid="Its weights were 4-bit before.")
    fast = make.measurement("bnb_nf4", [0.25] * 6, scores=GOOD)
    record = make.record(make.measurement(BASE, STEPS), fast, replica=STEPS)
    run = compare(replace(record, plan=make.plan("bnb_nf4", checkpoint=checkpoint)))
    assert run.recommendation is not None
    assert "Its weights were 4-bit before." in run.recommendation.condition
    caveat = next(item for item in run.caveats if item.id == "low_bit_grid")
    assert "bnb_nf4" in caveat.text
    plain = compare(replace(make.record(make.measurement(BASE, STEPS)), plan=make.plan(checkpoint=checkpoint)))
    assert "low_bit_grid" in caveat_ids(plain)


def test_caveats_name_what_the_reader_must_know() -> None:
    checkpoint = replace(make.CHECKPOINT, has_chat_template=False, has_pad_token=False)
    disturbed = (*make.samples(BASE, [0.5] * 3), make.sample(BASE, 3, 0.5, disturbed=True))
    notes = ("Raw prompt: no chat template.", "Something of its own.")
    base = make.measurement(BASE, [], samples=disturbed, outputs=(make.output(0, (1,), stopped=False),), notes=notes)
    record = replace(make.record(base, status="cancelled"), plan=make.plan("a", checkpoint=checkpoint, resident=False))
    run = compare(record)
    assert caveat_ids(run) == {
        "unfinished", "raw_prompt", "no_pad_token", "few_rounds", "no_replica", "disturbed", "cut_answers",
        "sequential", "note",
    }  # fmt: skip
    assert all(caveat.text and caveat.remedy for caveat in run.caveats)
    assert [caveat.text for caveat in run.caveats if caveat.id == "note"] == ["Something of its own."]
    assert next(caveat for caveat in run.caveats if caveat.id == "disturbed").text.endswith(": 1 of 4.")


def test_notes_of_the_plan_are_carried_and_a_note_of_all_is_of_the_run() -> None:
    both = [make.measurement(key, STEPS, notes=("Said by each.",)) for key in (BASE, "a")]
    record = replace(make.record(*both), plan=make.plan("a", notes=("The baseline is as stored.",)), notes=("Late.",))
    run = compare(record)
    assert run.notes == ("The baseline is as stored.", "Late.")
    said = [(caveat.text, caveat.variant) for caveat in run.caveats if caveat.id == "note"]
    assert said == [("The baseline is as stored.", None), ("Late.", None), ("Said by each.", None)]


def full_run() -> Run:
    scores = (
        make.passage("answer:0", [0.1] * 3),
        make.passage("answer:1", [0.2] * 3),
        make.passage("text:0", [0.1] * 3),
    )
    base = make.measurement(BASE, STEPS, scores=(make.passage("text_timed", [0.0]),))
    fast = make.measurement("a", [0.25] * 6, scores=scores)
    missing = make.measurement("b", [], status="not_applied", reason="No.", remedy="Do.", census=make.census())
    record = make.record(base, fast, missing, replica=STEPS)
    variants = tuple(replace(item, promises=(promised("decode", 1.5, 3.0),)) for item in record.plan.variants)
    return compare(replace(record, plan=replace(record.plan, variants=variants)))


def test_a_run_survives_its_file() -> None:
    run = full_run()
    assert from_json(Run, to_json(run)) == run
    assert compare(two(STEPS)) == compare(two(STEPS))


def test_run_json_has_the_names_of_the_design() -> None:
    data = json.loads(to_json(full_run()))
    assert {
        "schema", "id", "created_at", "status", "machine", "model", "workload", "baseline", "noise_floor", "variants",
        "recommendation", "caveats",
    } <= data.keys()  # fmt: skip
    assert data["schema"] == "levers.run/1"
    assert data["model"].keys() >= {"id", "source", "revision", "task", "parameters", "architecture"}
    assert data["workload"].keys() >= {"prompts", "max_new_tokens", "batch_size", "rounds", "seed"}
    assert data["noise_floor"].keys() == {"decode", "ttft", "kl_divergence"}
    variant = data["variants"][1]
    assert variant.keys() >= {
        "key", "title", "techniques", "status", "reason", "remedy", "census", "cost", "points", "latency", "memory",
        "quality", "outputs", "samples_file", "versus_baseline", "promises",
    }  # fmt: skip
    assert variant["samples_file"] == "samples.jsonl"
    assert variant["census"].keys() >= {
        "bytes_by_dtype", "modules_converted", "modules_skipped", "attention", "compile", "providers",
    }  # fmt: skip
    assert variant["cost"].keys() == {"load_s", "prepare_s", "warm_up_s"}
    latency = {
        "ttft_s", "time_per_output_token_s", "decode_tokens_per_s", "prefill_tokens_per_s", "total_s", "stages",
    }  # fmt: skip
    assert variant["latency"].keys() == latency
    assert variant["latency"]["ttft_s"].keys() == {"median", "low", "high", "n"}
    assert variant["latency"]["stages"].keys() == {
        "tokenize_s", "prefill_s", "decode_s", "detokenize_s", "overhead_s",
    }  # fmt: skip
    assert variant["points"][0].keys() == {"batch_size", "prompt_tokens", "padding", "latency", "throughput"}
    assert variant["memory"].keys() >= {
        "weights_bytes", "disk_bytes", "load_peak_bytes", "steady_bytes", "run_peak_bytes", "runtime_bytes",
    }  # fmt: skip
    quality = variant["quality"]
    assert quality.keys() >= {
        "task", "positions", "kl_divergence", "same_top", "text", "first_divergence", "exact_match_rate",
        "length_ratio",
    }  # fmt: skip
    assert quality["kl_divergence"].keys() >= {"mean", "se", "max", "p99", "p95", "p90", "median"}
    assert quality["same_top"].keys() >= {"rate", "se"}
    assert quality["text"].keys() >= {
        "positions", "one_pass", "kl_divergence", "same_top", "perplexity", "rms_delta_p", "perplexity_ratio",
    }  # fmt: skip
    assert quality["text"]["perplexity_ratio"].keys() == {"value", "low", "high"}
    assert variant["outputs"][0].keys() >= {"prompt", "text", "token_ids", "stopped"}
    assert variant["versus_baseline"].keys() >= {"decode", "ttft", "weights_bytes", "run_peak_bytes"}
    assert variant["versus_baseline"]["decode"].keys() == {"ratio", "low", "high", "verdict"}
    assert variant["promises"][0].keys() >= {"claim", "promised", "measured", "kept", "why"}


def test_obstacles_of_skipped_variants_reach_the_run() -> None:
    skipped = make.measurement("onnx", [], status="skipped", reason="Not here.", remedy="Install it.", census=None)
    run = compare(make.record(make.measurement(BASE, STEPS), skipped))
    assert Obstacle(result(run, "onnx").reason or "", result(run, "onnx").remedy or "") == Obstacle(
        "Not here.", "Install it."
    )
