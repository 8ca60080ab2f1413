"""Caveats about what quality is held against, about noise, prompts and graphics cards: each from evidence, each with a
remedy, and none without its cause. Others are tested beside what they are about."""

from __future__ import annotations

from dataclasses import replace

import analysis_records as make
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import STEPS, caveat_ids, result

from optimizers.analysis import compare
from optimizers.results import Caveat, Run, Stat
from optimizers.schema import Measurement, Record


def said(run: Run, name: str) -> list[Caveat]:
    found = [caveat for caveat in run.caveats if caveat.id == name]
    assert all(caveat.text.endswith(".") and caveat.remedy.endswith(".") for caveat in found)
    return found


def of(*items: Measurement) -> Record:
    return make.record(*items, replica=STEPS)


def test_nothing_is_said_without_its_cause() -> None:
    run = compare(of(make.measurement(BASE, STEPS), make.measurement("a", STEPS)))
    causes = {"quantized_reference", "loose_numerics", "prompt_logits", "shared_gpu", "energy"}
    assert not caveat_ids(run) & causes


def test_a_reference_that_was_quantized_itself_is_named() -> None:
    record = of(make.measurement(BASE, STEPS), make.measurement("a", STEPS))
    stored = replace(record.plan, checkpoint=replace(record.plan.checkpoint, quantization="bitsandbytes"))
    (found,) = said(compare(replace(record, plan=stored)), "quantized_reference")
    assert "itself is quantized (bitsandbytes)" in found.text
    foot, other = record.plan.variants
    packed = replace(record.plan, variants=(replace(foot, four_bit=True), other))
    (found,) = said(compare(replace(record, plan=packed)), "quantized_reference")
    assert found.text.startswith(f"The baseline {BASE} has its weights in 4 bits")
    beside = replace(record.plan, variants=(foot, replace(other, four_bit=True)))
    assert said(compare(replace(record, plan=beside)), "quantized_reference") == []


@pytest.mark.parametrize(("floor", "loose"), [(0.0, False), (0.005, False), (0.006, True), (1.72, True)])
def test_a_floor_that_wide_is_no_noise_and_said(floor: float, loose: bool) -> None:
    base = make.measurement(BASE, STEPS, scores=(make.passage("text_timed", [floor] * 4),))
    run = compare(of(base, make.measurement("a", STEPS, scores=(make.passage("answer:0", [0.0]),))))
    assert [f"{floor:.2g} nats" in caveat.text for caveat in said(run, "loose_numerics")] == [True] * loose
    quality = result(run, "a").quality
    assert quality is not None
    assert quality.within_noise is not loose


def test_quality_within_the_noise_is_recommended_as_such() -> None:
    base = make.measurement(BASE, STEPS, scores=(make.passage("text_timed", [1e-7] * 4),))
    fast = make.measurement("fast", [0.25] * 6, scores=(make.passage("answer:0", [1e-7] * 50),))
    found = compare(of(base, fast)).recommendation
    assert found is not None
    assert "its quality is the baseline's own within the noise of the numerics" in found.reason
    unknown = compare(of(make.measurement(BASE, STEPS), fast))
    assert unknown.recommendation is not None
    assert "its quality is indistinguishable" in unknown.recommendation.reason


def test_logits_of_a_whole_prompt_are_told_of_whom_the_census_saw_compute_them() -> None:
    last, whole = make.census(prompt_logits="last"), make.census(prompt_logits="all")
    base = make.measurement(BASE, STEPS, census=last)
    (found,) = said(compare(of(base, make.measurement("a", STEPS, census=whole))), "prompt_logits")
    assert found.variant == "a"
    assert "for 20 tokens 0.0307 MB" in found.text  # 20 x 384 logits of 4 bytes
    (found,) = said(
        compare(of(replace(base, census=whole), make.measurement("a", STEPS, census=whole))), "prompt_logits"
    )
    assert found.variant is None
    assert found.text.startswith("Every variant computes")
    unseen = of(make.measurement(BASE, STEPS), make.measurement("a", STEPS, census=last))
    assert said(compare(unseen), "prompt_logits") == []


def test_a_graphics_card_that_others_use_is_named_once_with_how_much_they_hold() -> None:
    def on_gpu(others: int | None) -> Measurement:
        return make.measurement("a", STEPS, memory=replace(make.memory(1000), device="cuda", others_bytes=others))

    base = replace(on_gpu(2 * 10**9), variant=BASE)
    (found,) = said(compare(of(base, on_gpu(3 * 10**9))), "shared_gpu")
    assert "hold 3 GB" in found.text
    for others in (0, None):
        quiet = on_gpu(others)
        assert said(compare(of(replace(quiet, variant=BASE), quiet)), "shared_gpu") == []


def test_joules_are_shared_by_the_new_tokens_and_said_to_be_the_whole_cards() -> None:
    def samples(*joules: float | None):
        timings = (replace(make.timing(0.5), joules=each) for each in joules)  # five tokens each
        return tuple(make.sample("a", number, 0.5, timing=timing) for number, timing in enumerate(timings))

    base = make.measurement(BASE, STEPS)
    run = compare(of(base, make.measurement("a", [], samples=samples(*[10.0] * 6, -1.0))))
    latency = result(run, "a").latency
    assert latency is not None
    assert latency.joules_per_token == Stat(2.0, 2.0, 2.0, 6)  # a counter that went back tells nothing
    assert len(said(run, "energy")) == 1
    unknown = result(compare(of(base, make.measurement("a", [], samples=samples(*[None] * 6)))), "a").latency
    assert unknown is not None
    assert unknown.joules_per_token is None
