"""Another checkpoint in a stack: how it is read, named, planned by its own facts, and left out with a reason."""

from __future__ import annotations

import planning_records as make
import pytest

from optimizers import planning
from optimizers.errors import ChoiceError
from optimizers.planning import Another, models
from optimizers.planning.models import Found
from optimizers.planning.stacks import Stack
from optimizers.schema import Choice, Obstacle, Plan

PLENTY = 10_000_000_000
GONE = Obstacle("There is no folder ./gone.", "Check the spelling.")


def another(folder: str = "/models/small", same: bool = True, lengths: tuple[int, ...] | None = None, **facts: object):
    """Half of the usual parameters, in a folder of its own."""
    halved = {"id": folder, "folder": folder, "parameters": 50_000_000, "linear_parameters": 40_000_000, "layers": 5}
    return Another(make.checkpoint(**(halved | facts)), lengths, same)


def planned(choice: Choice, found: Found, limit: int = PLENTY, **checkpoint: object) -> Plan:
    return planning.plan(choice, make.machine(), make.checkpoint(**checkpoint), limit, None, found)


@pytest.mark.parametrize(
    ("text", "stack"),
    [
        ("checkpoint=./Small-1", Stack((), "./Small-1")),
        (" Checkpoint = org/Name +BF16", Stack(("bf16",), "org/Name")),
        ("bf16+eager", Stack(("bf16", "eager"))),
        ("checkpoint=a=b", Stack((), "a=b")),
    ],
)
def test_a_checkpoint_is_read_as_it_is_typed(text: str, stack: Stack) -> None:
    assert planning.read_stack(text) == stack


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("checkpoint=", "names no checkpoint after the =. Write one, such as checkpoint="),
        ("checkpoint=a+checkpoint=b", "names two checkpoints."),
        ("checkpoint", "There is no technique named 'checkpoint'. Another model is written checkpoint=NAME."),
        ("checkpoint=./a+b", "There is no technique named 'b'. The name of a checkpoint cannot hold a plus sign"),
        ("checkpoint=a+bf16+fp16", "names two techniques for precision"),
    ],
)
def test_a_wrong_one_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ChoiceError) as caught:
        planning.read_stack(text)
    assert sentence in str(caught.value)


def test_a_baseline_is_of_the_model_itself() -> None:
    with pytest.raises(ChoiceError, match="names another checkpoint, which only a variant can have"):
        planned(make.choice("bf16", baseline="checkpoint=x"), {})


def test_it_is_a_variant_of_its_own_facts() -> None:
    found = {"./small": another(same=False)}
    plan = planned(make.choice("checkpoint=./small", "checkpoint=./small+bf16", "bf16"), found)
    first, small, half, bf16 = plan.variants
    assert [v.key for v in plan.variants] == [
        "fp32+sdpa",
        "fp32+sdpa+checkpoint=small",
        "bf16+sdpa+checkpoint=small",
        "bf16+sdpa",
    ]
    assert small.title == "small in place of nowhere"
    assert half.title == f"small in place of nowhere + {bf16.title}"
    assert small.checkpoint == half.checkpoint == found["./small"].checkpoint
    assert (small.same_tokenizer, bf16.same_tokenizer, bf16.checkpoint) == (False, True, None)
    # 450 MB of libraries, 4 bytes for each of 50 million weights, a cache of 5 layers, logits as ever.
    assert small.predicted_bytes == 450_000_000 + 200_000_000 + 1_024_000 + 2_048_000
    assert half.predicted_bytes == 450_000_000 + 100_000_000 + 512_000 + 2_048_000
    assert [promise.metric for promise in small.promises] == ["decode"]
    assert half.promises == small.promises  # what bf16 promises is of one model with and without it
    assert plan.checkpoint.folder == "/nowhere" and first.checkpoint is None


def test_the_estimate_takes_each_models_size() -> None:
    both = planned(make.choice("checkpoint=s", rounds=11), {"s": another()}).estimate_s
    once = planned(make.choice("checkpoint=s", rounds=1), {"s": another()}).estimate_s
    # As in test_threads_and_time: the baseline twice, and a model of half its size.
    assert both - once == pytest.approx(10 * 2.5 * (48 * 0.012 + 64 * 0.000525))


def test_a_larger_model_is_promised_nothing() -> None:
    assert planned(make.choice("checkpoint=l"), {"l": another(parameters=200_000_000)}).variants[1].promises == ()


def test_one_that_is_not_found_is_left_out_and_the_others_stay() -> None:
    plan = planned(make.choice("checkpoint=./gone", "bf16"), {"./gone": GONE})
    (skipped,) = plan.skipped
    assert (skipped.key, skipped.obstacle) == ("fp32+sdpa+checkpoint=./gone", GONE)
    assert skipped.title == "gone in place of nowhere"
    assert [v.key for v in plan.variants] == ["fp32+sdpa", "bf16+sdpa"]


def test_techniques_memory_and_context_are_judged_by_its_own_facts() -> None:
    found: Found = {
        "packed": another("/m/packed", quantization="bitsandbytes 4-bit"),
        "big": another("/m/big", parameters=9_000_000_000, linear_parameters=0),
        "short": another("/m/short", context_length=40),
        "prompts": another("/m/prompts", context_length=100, lengths=(60,)),
    }
    stacks = ("packed+bnb_nf4", "big", "short", "prompts")
    plan = planned(make.choice(*(f"checkpoint={stack}" for stack in stacks)), found)
    reasons = {skipped.key: skipped.obstacle.reason for skipped in plan.skipped}
    assert list(reasons) == [
        "stored+sdpa+bnb_nf4+checkpoint=packed",
        "fp32+sdpa+checkpoint=big",
        "fp32+sdpa+checkpoint=short",
        "fp32+sdpa+checkpoint=prompts",
    ]
    for reason, words in zip(
        reasons.values(),
        ("already quantized (bitsandbytes 4-bit)", "GB of memory", "context of /m/short", "Prompt 1 has 60"),
        strict=True,
    ):
        assert words in reason
    assert len(plan.variants) == 1


def test_a_quantized_one_keeps_its_precision_and_a_stored_baseline_is_spelt_out_by_its_own() -> None:
    packed = another(quantization="bitsandbytes")
    assert planned(make.choice("checkpoint=p"), {"p": packed}).variants[1].techniques == ("sdpa",)
    half = another(stored_dtype="float16")
    plan = planned(make.choice("checkpoint=h", baseline="library_default"), {"h": half})
    assert plan.variants[1].key == "fp16+sdpa+checkpoint=small"


def test_the_plans_own_checkpoint_is_none_other() -> None:
    own = Another(make.checkpoint(id="again"), None, True)
    plan = planned(make.choice("checkpoint=again", "checkpoint=again+bf16"), {"again": own})
    assert [v.key for v in plan.variants] == ["fp32+sdpa", "bf16+sdpa"]
    assert plan.notes == ("fp32+sdpa is the baseline itself, so it has one row, not two.",)


def test_labels_tell_checkpoints_apart_and_stay_short() -> None:
    found: Found = {
        "a/x": another("/one/a/x"),
        "b/x": another("/two/b/x"),
        "again": another("/one/a/x"),
        "org/name": another(id="org/name", source="hub", folder="/cache/1"),
        "alone": another("/models/al+one\u202e"),
        "q" * 300: GONE,
    }
    said = models.labels(found)
    assert [said[name] for name in list(found)[:5]] == ["a/x", "b/x", "a/x", "org/name", "al_one_"]
    long = said["q" * 300]
    assert len(long) == 48 and long.startswith("q" * 39 + "~")
    assert models.labels({"q" * 300: GONE}) == {"q" * 300: long}
    plan = planned(make.choice("checkpoint=a/x", "checkpoint=again", "checkpoint=b/x"), found)
    assert [v.key for v in plan.variants[1:]] == ["fp32+sdpa+checkpoint=a/x", "fp32+sdpa+checkpoint=b/x"]


def test_it_stands_beside_the_ladder() -> None:
    stacks = planning.ladder(("checkpoint=s+bf16", "bf16", "eager"), lambda technique: True)
    assert stacks == ("bf16", "bf16+eager", "checkpoint=s+bf16")
    choice = Choice("m", stacks, make.choice().workload, ways="ladder")
    plan = planned(choice, {"s": another()})
    assert {v.key: v.below for v in plan.variants[1:]} == {
        "bf16+sdpa": "fp32+sdpa",
        "bf16+eager": "bf16+sdpa",
        "bf16+sdpa+checkpoint=small": None,
    }
