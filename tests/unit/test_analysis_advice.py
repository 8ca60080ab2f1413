"""Promises, recommendation and caveats: what is said follows from evidence in the run."""

from __future__ import annotations

from dataclasses import replace

import analysis_records as make
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import STEPS, caveat_ids, promised, result, two

from optimizers.analysis import compare
from optimizers.analysis.quality_words import QUALITY_WORDS, QualityWord
from optimizers.analysis.recommendation import Wish, recommend
from optimizers.schema import Census, Promise, Record, SkippedModule


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
        promised("saved_bytes", None, 0.5),
        promised("kl_divergence", None, 0.1),
        promised(None, None, None),
    )
    assert [item.kept for item in found] == [True, False, True, False, None, False, None]
    assert found[0].measured == "2.00x the baseline's decode speed"
    assert found[2].measured == "0.50x the baseline's bytes of weights"
    assert found[5].measured == "mean KL divergence 0.2 nats"
    assert all(item.why for item in found if item.kept is not True)


def test_a_saved_file_is_held_against_the_baselines() -> None:
    weighed = replace(make.memory(256 * make.MIB), saved_bytes=72)
    record = two([0.25] * 6, memory=weighed)
    base = replace(record.measurements[0], memory=replace(make.memory(512 * make.MIB), saved_bytes=268))
    record = replace(record, measurements=(base, *record.measurements[1:]))
    (found,) = judged(record, promised("saved_bytes", None, 0.3))
    assert found.kept is True
    assert found.measured == "0.27x the baseline's saved file"


def test_a_speed_that_might_still_be_in_the_range_is_not_judged() -> None:
    wide = judged(two([0.25, 0.5, 0.25, 0.5, 0.25, 0.5]), promised("decode", 1.5, None))
    assert wide[0].kept is None
    assert "interval" in (wide[0].why or "")
    noisy = judged(two([0.5] * 6), promised("decode", 1.0, None), promised("decode", 0.9, 1.1))
    assert [item.kept for item in noisy] == [None, True]
    assert "within the noise" in (noisy[0].why or "")
    few = judged(two([0.25] * 3), promised("decode", 1.5, None))
    assert few[0].kept is None
    assert "too few rounds" in (few[0].why or "")


def test_a_technique_in_a_stack_is_judged_by_what_it_added() -> None:
    """The stack is 4x the baseline, and 2x the variant that lacks the technique."""
    under = make.measurement("a", [0.25] * 6)
    stack = make.measurement("a+b", [0.125] * 6, memory=make.memory(256 * make.MIB))
    record = make.record(make.measurement(BASE, STEPS), under, stack, replica=STEPS)
    promises = tuple(
        replace(promised(*claim), against=against)
        for claim, against in [
            (("decode", 1.5, 3.0), "a"),
            (("weights_bytes", None, 0.5), "a"),
            (("kl_divergence", None, 0.1), "a"),
            (("decode", 1.5, None), "b"),
        ]
    )
    foot, first, second = record.plan.variants

    def found(below: str | None):
        steps = (foot, first, replace(second, promises=promises, below=below))
        return result(compare(replace(record, plan=replace(record.plan, variants=steps))), "a+b").promises

    apart = found(None)
    assert [item.kept for item in apart] == [True, True, None, None]
    assert apart[0].measured == "2.00x a's decode speed"
    assert apart[1].measured == "0.50x a's bytes of weights"
    assert apart[2].why == "Quality is measured against the baseline, for the whole stack."
    assert apart[3].measured is None and apart[3].why == "Judging it alone takes b measured beside this."
    assert [item.kept for item in found("a")] == [True, True, None]  # on a step, what was judged below is not repeated


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
ROUGH = (make.passage("answer:0", [0.3] * 50, same_top=(True,) * 40 + (False,) * 10),)  # noticeable


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


def test_a_wish_for_memory_and_quality_changes_what_is_recommended() -> None:
    """A process takes 200 MiB beside its weights at most: 712 MiB the baseline, 456 and 328 MiB the others."""
    base = make.measurement(BASE, STEPS)
    alike = make.measurement("alike", [0.25] * 6, scores=GOOD, memory=make.memory(256 * make.MIB))
    poor = make.measurement("poor", [0.125] * 6, scores=ROUGH, memory=make.memory(128 * make.MIB))
    run = compare(make.record(base, alike, poor, replica=STEPS))

    def key(most_mib: int | None, quality: QualityWord) -> str | None:
        most = None if most_mib is None else most_mib * make.MIB
        found = recommend(run.variants, run.baseline, None, Wish(most, quality))
        return found.key if found else None

    assert [key(None, word) for word in QUALITY_WORDS] == ["alike", "alike", "poor", "poor"]
    assert [key(400, word) for word in QUALITY_WORDS] == [None, None, "poor", "poor"]
    assert [key(456, word) for word in QUALITY_WORDS] == ["alike", "alike", "poor", "poor"]
    assert key(100, "broken") is None
    broken = make.measurement("broken", [0.125] * 6, scores=POOR)
    run = compare(make.record(base, broken, replica=STEPS))
    assert (key(None, "noticeable"), key(None, "broken")) == (BASE, "broken")
    untold = replace(alike, memory=None)
    run = compare(make.record(base, untold, replica=STEPS))
    assert (key(None, "slight"), key(712, "slight"), key(711, "slight")) == ("alike", BASE, None)


def test_where_the_baseline_takes_too_much_the_smallest_that_keeps_to_the_wish_is_recommended() -> None:
    base = make.measurement(BASE, STEPS)
    small = make.measurement("small", [1.0] * 6, scores=ROUGH, memory=make.memory(128 * make.MIB))
    run = compare(make.record(base, small, replica=STEPS))
    found = recommend(run.variants, run.baseline, None, Wish(500 * make.MIB, "noticeable"))
    assert found is not None and found.key == "small"
    assert "it decodes at 0.50x the baseline's speed" in found.reason and "noticeably different" in found.reason
    assert recommend(run.variants, run.baseline, None, Wish(None, "noticeable")).key == BASE


def test_the_fastest_that_differs_names_the_fastest_that_does_not() -> None:
    base = make.measurement(BASE, STEPS)
    alike = make.measurement("alike", [0.25] * 6, scores=GOOD)
    slight = make.measurement("slight", [0.125] * 6, scores=(make.passage("answer:0", [0.02] * 50),))
    found = compare(make.record(base, alike, slight, replica=STEPS)).recommendation
    assert found is not None and found.key == "slight"
    assert found.reason.endswith("slightly different. If answers must not change, ALIKE: 2.00x [2.00 to 2.00].")


def test_four_bit_on_a_low_bit_grid_is_never_recommended_without_saying_so() -> None:
    checkpoint = replace(make.CHECKPOINT, low_bit_grid="Its weights were 4-bit before.")
    fast = make.measurement("packed", [0.25] * 6, scores=GOOD)
    record = make.record(make.measurement(BASE, STEPS), fast, replica=STEPS)
    planned = make.plan("packed", checkpoint=checkpoint)
    foot, packed = planned.variants
    run = compare(replace(record, plan=replace(planned, variants=(foot, replace(packed, four_bit=True)))))
    assert run.recommendation is not None
    assert "Its weights were 4-bit before." in run.recommendation.condition
    caveat = next(item for item in run.caveats if item.id == "low_bit_grid")
    assert "packed" in caveat.text
    wide = compare(replace(record, plan=planned))
    assert wide.recommendation is not None and "4-bit" not in wide.recommendation.condition
    plain = compare(replace(make.record(make.measurement(BASE, STEPS)), plan=make.plan(checkpoint=checkpoint)))
    assert "low_bit_grid" in caveat_ids(plain)


def test_caveats_name_what_the_reader_must_know() -> None:
    checkpoint = replace(make.CHECKPOINT, has_chat_template=False, has_pad_token=False)
    disturbed = (*make.samples(BASE, [0.5] * 3), make.sample(BASE, 3, 0.5, disturbed=True))
    notes = ("Raw prompt: no chat template.", "It has no padding token.", "Something of its own.")
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
    assert said == [("Said by each.", None)]
