"""Thread counts in a plan: how they are read, swept, named, judged and refused."""

from __future__ import annotations

from dataclasses import replace

import planning_records as make
import pytest

from optimizers import api, planning
from optimizers.errors import ChoiceError, ThreadsError
from optimizers.planning import Another, predictions
from optimizers.planning.stacks import Stack, known
from optimizers.schema import Choice, Plan, Workload
from optimizers.techniques import all_techniques

PLENTY = 100_000_000_000


def planned(choice: Choice, cores: int = 4, found: dict[str, Another] | None = None) -> Plan:
    return planning.plan(choice, make.machine(usable_cores=cores), make.checkpoint(), PLENTY, None, found or {})


def keys(plan: Plan) -> list[str]:
    return [variant.key for variant in plan.variants]


@pytest.mark.parametrize(
    ("text", "stack"),
    [
        ("threads=1", Stack((), None, 1)),
        ("Threads = 2 + BF16", Stack(("bf16",), None, 2)),
        ("threads=3+checkpoint=a+eager", Stack(("eager",), "a", 3)),
    ],
)
def test_a_count_is_part_of_a_stack(text: str, stack: Stack) -> None:
    assert planning.read_stack(text) == stack


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("threads=", "has no whole number above 0 after threads=. Write one, such as threads=1."),
        ("threads=0", "has no whole number above 0"),
        ("threads=-1", "has no whole number above 0"),
        ("threads=1.5", "has no whole number above 0"),
        ("threads=\u0662", "has no whole number above 0"),  # a two, not an ASCII one
        ("threads=1234567", "has no whole number above 0"),
        ("threads=1+threads=2", "names two thread counts."),
        ("threads", "There is no technique named 'threads'. A thread count is written threads=NUMBER."),
    ],
)
def test_a_wrong_one_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ChoiceError) as caught:
        planning.read_stack(text)
    assert sentence in str(caught.value)


def test_a_baseline_has_the_plans_count() -> None:
    with pytest.raises(ChoiceError, match="names a thread count, which only a variant can have"):
        planned(make.choice("bf16", baseline="fp32+threads=1"))


def test_it_is_a_variant_of_its_own_with_the_count_last_in_its_key() -> None:
    small = Another(make.checkpoint(id="small", folder="/m/small", parameters=50_000_000), None, True)
    stacks = ("bf16", "threads=1", "bf16+threads=1", "threads=2+checkpoint=s+bf16")
    plan = planned(make.choice(*stacks), found={"s": small})
    assert keys(plan) == [
        "fp32+sdpa",
        "bf16+sdpa",
        "fp32+sdpa+threads=1",
        "bf16+sdpa+threads=1",
        "bf16+sdpa+checkpoint=small+threads=2",
    ]
    first, half, one, both, other = plan.variants
    assert [variant.threads for variant in plan.variants] == [None, None, 1, 1, 2]
    assert one.title == f"{first.title}, 1 thread"
    assert both.title == f"{half.title}, 1 thread"
    assert other.title.endswith(", 2 threads") and other.checkpoint == small.checkpoint
    assert (one.techniques, both.predicted_bytes) == (first.techniques, half.predicted_bytes)


def test_the_plans_own_count_is_none_other() -> None:
    plan = planned(make.choice("bf16+threads=4", "bf16", "fp32+threads=4"))
    assert keys(plan) == ["fp32+sdpa", "bf16+sdpa"]
    assert plan.notes == ("fp32+sdpa is the baseline itself, so it has one row, not two.",)
    assert keys(planned(make.choice("bf16+threads=4", threads=2))) == ["fp32+sdpa", "bf16+sdpa+threads=4"]
    assert planned(make.choice("threads=1")).notes == ()


def test_a_baseline_that_is_as_stored_is_swept_as_it_is() -> None:
    assert keys(planned(make.choice("threads=1", baseline="library_default")))[1] == "library_default+threads=1"


def test_more_than_there_are_cores_is_left_out() -> None:
    (skipped,) = planned(make.choice("bf16+threads=5", "eager")).skipped
    assert skipped.key == "bf16+sdpa+threads=5"
    assert skipped.obstacle.reason == "5 threads were asked for, and 4 processor cores can be used here."


def test_promises_are_judged_against_the_same_stack_with_as_many_threads() -> None:
    registry = all_techniques()
    *_, alone, both = planned(make.choice("bf16+threads=1", "bf16+eager+threads=1")).variants
    assert {promise.against for promise in alone.promises} == {"fp32+sdpa+threads=1"}
    assert {(promise.claim, promise.against) for promise in both.promises} == {
        *((promise.claim, "fp32+eager+threads=1") for promise in registry["bf16"].promises),
        *((promise.claim, "bf16+sdpa+threads=1") for promise in registry["eager"].promises),
    }
    assert planned(make.choice("threads=1")).variants[1].promises == ()


def test_a_sweep_adds_the_baseline_and_everything_once_more_for_each_further_count() -> None:
    machine = make.machine()
    assert planning.swept(("bf16", "eager+threads=3"), (4, 2, 1), machine) == (
        "bf16",
        "eager+threads=3",
        "threads=2",
        "bf16+threads=2",
        "threads=1",
        "bf16+threads=1",
    )
    assert planning.swept(("bf16",), (2,), machine) == planning.swept(("bf16",), (), machine) == ("bf16",)
    with pytest.raises(ThreadsError, match="5 threads were asked for, and 4 processor cores can be used here"):
        planning.swept(("bf16",), (2, 5), machine)
    with pytest.raises(
        ThreadsError, match=r"16 stacks, timed with 2 thread counts, are 33 variants\. Compare at most 32"
    ):
        planning.swept(("bf16",) * 16, (2, 1), machine)
    assert len(planning.swept(("bf16",) * 15, (2, 1), machine)) == 31
    with pytest.raises(ChoiceError):
        planning.swept(("bf61",), (), machine)


def test_counts_are_whole_numbers_each_once() -> None:
    assert planning.thread_counts(None) == planning.thread_counts([]) == ()
    assert (planning.thread_counts(2), planning.thread_counts([2, 1])) == ((2,), (2, 1))
    with pytest.raises(ThreadsError, match="The thread count 2 is named twice"):
        planning.thread_counts((2, 1, 2))
    for wrong in (["2"], "2,1", [True], True, [1.0]):
        with pytest.raises(ThreadsError, match="not all whole numbers"):
            planning.thread_counts(wrong)  # type: ignore[arg-type]


def test_what_is_no_number_or_no_list_is_refused_with_a_sentence() -> None:
    for name in ("rounds", "max_new_tokens", "seed", "seconds"):
        for wrong in ("x", True, [1]):
            with pytest.raises(ChoiceError, match=f"{name} is .*, which is no (whole )?number"):
                api.choose("a model", **{name: wrong})  # type: ignore[arg-type]
    for name in ("techniques", "prompts"):
        with pytest.raises(ChoiceError, match=f"The {name} hold something that is not text"):
            api.choose("a model", **{name: 5})  # type: ignore[arg-type]
    with pytest.raises(ChoiceError, match=r"rounds is 2\.5, which is no whole number"):
        api.choose("a model", rounds=2.5)  # type: ignore[arg-type]


def test_a_choice_with_several_counts_has_the_first_as_its_own() -> None:
    for wrong in (2.0, "2", [1.5], True):
        with pytest.raises(ThreadsError, match="not all whole numbers"):
            api.choose("a model", ["bf16"], threads=wrong)  # type: ignore[arg-type]
    asked = api.choose("a model", ["bf16"], threads=[1])
    assert (asked.workload.threads, asked.stacks) == (1, ("bf16",))
    assert api.choose("a model", ["bf16"]).workload.threads is None
    with pytest.raises(ThreadsError):
        api.choose("a model", ["bf16"], threads=[1, 100_000])


def test_a_ladder_is_swept_step_by_step() -> None:
    stacks = planning.ladder(("bf16", "eager", "eager+threads=3"), lambda technique: True)
    assert stacks == ("bf16", "bf16+eager", "eager+threads=3")
    swept = planning.swept(stacks[:2], (2, 1), make.machine())
    plan = planned(Choice("m", swept, Workload(("Hello",), threads=2), ways="ladder"))
    assert {variant.key: variant.below for variant in plan.variants} == {
        "fp32+sdpa": None,
        "bf16+sdpa": "fp32+sdpa",
        "bf16+eager": "bf16+sdpa",
        "fp32+sdpa+threads=1": None,
        "bf16+sdpa+threads=1": "fp32+sdpa+threads=1",
        "bf16+eager+threads=1": "bf16+sdpa+threads=1",
    }


def test_the_estimate_takes_each_variants_own_threads() -> None:
    work, model, plain = Workload(("Hello",), max_new_tokens=20, rounds=2), make.checkpoint(), known(("fp32", "sdpa"))
    four = predictions.seconds([(plain, model, 4), (plain, model, 4)], work)
    one = predictions.seconds([(plain, model, 4), (plain, model, 1)], work)
    # 20 + 64 + 3 x 20 tokens at 100 M x 4.8e-10 s; 768 positions of text and 3 x 64 of the prompt at 100 M x 2.1e-11 s.
    assert one - four == pytest.approx(0.75 * (144 * 0.048 + (768 + 192) * 0.0021))
    choice = make.choice("threads=1", rounds=2, max_new_tokens=20)
    same = replace(choice, stacks=("threads=4", "bf16"))
    assert planned(choice).estimate_s - planned(same).estimate_s == pytest.approx(one - four)
