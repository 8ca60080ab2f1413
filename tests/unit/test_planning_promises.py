"""What planning says of each variant: titles, warnings, promises and what to judge them against, and the attention that
the model has."""

from __future__ import annotations

import planning_records as make

from optimizers import planning
from optimizers.manager.conductor import saved_files
from optimizers.schema import Choice, Plan
from optimizers.techniques import all_techniques

PLENTY = 100_000_000_000


def planned(choice: Choice, **checkpoint: object) -> Plan:
    return planning.plan(choice, make.machine(), make.checkpoint(**checkpoint), PLENTY)


def test_titles_and_promises_are_of_what_differs_from_the_baseline() -> None:
    registry = all_techniques()
    first, nf4 = planned(make.choice("bnb_nf4")).variants
    assert first.title == f"{registry['fp32'].title} + {registry['sdpa'].title}"
    assert first.promises == ()
    assert nf4.title == registry["bnb_nf4"].title
    assert nf4.promises == registry["bnb_nf4"].promises
    assert nf4.techniques == ("fp32", "sdpa", "bnb_nf4")


def test_a_promise_in_a_stack_is_judged_against_the_stack_without_the_technique() -> None:
    stack = "bf16+torchao_int8_weight_only+compile"
    _, alone, whole = planned(make.choice("bf16", stack)).variants
    assert {promise.against for promise in alone.promises} == {None}
    against = {(promise.claim, promise.against) for promise in whole.promises}
    registry = all_techniques()
    rest = {
        "bf16": "fp32+sdpa+torchao_int8_weight_only+compile+static_cache",
        "torchao_int8_weight_only": "bf16+sdpa+compile+static_cache",
        "compile": "bf16+sdpa+torchao_int8_weight_only",  # and what it brings along
    }
    assert against == {(promise.claim, key) for name, key in rest.items() for promise in registry[name].promises}


def test_a_promise_is_not_judged_against_another_runtime() -> None:
    """Without the technique the baseline's graph would run in its place, which takes more than its slot."""
    packages = make.machine().packages | {"onnxruntime": "1", "onnxruntime-genai": "1"}
    choice = make.choice("int8_dynamic", "eager+int8_dynamic", "onnxruntime_int8", baseline="onnxruntime")
    plan = planning.plan(choice, make.machine(packages=packages), make.checkpoint(), PLENTY)
    against = {variant.key: {promise.against for promise in variant.promises} for variant in plan.variants[1:]}
    assert against == {
        "fp32+int8_dynamic": set(),
        "fp32+eager+int8_dynamic": {"fp32+eager"},
        "fp32+onnxruntime_int8": {None},  # takes the very place of the baseline's
    }


def test_a_saved_file_is_weighed_of_both_sides_of_a_promise() -> None:
    def weighed(*stacks: str) -> set[str]:
        return set(saved_files(planned(make.choice(*stacks))))

    assert weighed("bf16", "eager") == set()
    assert weighed("int8_dynamic", "bf16") == {"fp32+sdpa", "fp32+sdpa+int8_dynamic"}
    assert weighed("int8_dynamic+threads=1", "threads=1") == {
        "fp32+sdpa+threads=1",
        "fp32+sdpa+int8_dynamic+threads=1",
    }
    assert weighed("int8_dynamic+eager", "eager") == {"fp32+eager", "fp32+eager+int8_dynamic"}


def test_what_stores_weights_in_4_bits_says_so() -> None:
    four = {"bnb_nf4", "bnb_fp4", "torchao_int4_weight_only", "onnxruntime_int4"}
    for name, technique in all_techniques().items():
        if technique.slot in ("weights", "runtime"):
            (variant,) = planned(make.choice(name)).variants[1:] or (None,)
            assert variant is None or variant.four_bit == (name in four), name


def test_a_model_without_fused_attention_has_a_baseline_that_runs() -> None:
    kinds = ("eager", "flash_attention_2")
    plan = planned(make.choice("bf16", "sdpa", "flex_attention"), attentions=kinds, architecture="BloomForCausalLM")
    assert [variant.key for variant in plan.variants] == ["fp32+eager", "bf16+eager"]
    assert plan.notes[0] == (
        "The baseline is fp32+eager: transformers has no fused attention (sdpa) for BloomForCausalLM."
    )
    reasons = {skipped.key: skipped.obstacle for skipped in plan.skipped}
    assert reasons["fp32+sdpa"].reason == "transformers has no sdpa for BloomForCausalLM."
    assert reasons["fp32+sdpa"].remedy == "Use what it has: eager, flash_attention_2."
    assert "flex_attention" in reasons["fp32+flex_attention"].reason
    stored = planned(make.choice("eager", baseline="library_default"), attentions=kinds, stored_dtype="bfloat16")
    assert [variant.key for variant in stored.variants] == ["library_default", "bf16+eager"]


def test_what_is_known_to_disappoint_is_said_once_before_the_run() -> None:
    choice = make.choice("compile", "bf16+compile")
    short = make.choice("compile", "bf16+compile", max_new_tokens=31)
    long = planned(choice).warnings
    more = planned(short).warnings
    assert (added := more.keys() - long.keys()) == {
        "Answers of 31 new tokens are too short to show what Compiled (torch.compile) gives: ask for 32 or more."
    }
    compiled = planned(choice).variants[1]
    assert compiled.key == "fp32+sdpa+compile+static_cache"
    assert {more[warning] for warning in added} == {compiled.title}
    assert sum(warning.startswith("The first run compiles") for warning in long) == 1
