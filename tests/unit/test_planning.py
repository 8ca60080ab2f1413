"""Planning: keys, completed stacks, what is refused, what is left out, what fits. Figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import planning_records as make
import pytest

from optimizers import api, planning
from optimizers.errors import ChoiceError
from optimizers.planning import known, predictions
from optimizers.planning import stacks as stacks_module
from optimizers.schema import Choice, Gpu, Plan, Way, Workload
from optimizers.settings import TEXT_POSITIONS
from optimizers.techniques import all_techniques

PLENTY = 10_000_000_000
# 450 MB of libraries, 4 bytes for each of 100 million weights, and for 256 positions 2 x 10 layers x 100 x 4 bytes of
# cache and 2 x 4 bytes for each of 1000 words.
FP32_BYTES = 450_000_000 + 400_000_000 + 2_048_000 + 2_048_000


def planned(choice: Choice, limit: int = PLENTY, **checkpoint: object) -> Plan:
    return planning.plan(choice, make.machine(), make.checkpoint(**checkpoint), limit)


def keys(plan: Plan) -> list[str]:
    return [variant.key for variant in plan.variants]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("bf16", ("bf16",)),
        ("eager+bf16", ("bf16", "eager")),
        (" BF16 + torchao-int8-weight-only ", ("bf16", "torchao_int8_weight_only")),
        ("bf16+bf16", ("bf16",)),
        ("library default", ("library_default",)),
    ],
)
def test_a_stack_is_read_in_slot_order(text: str, ids: tuple[str, ...]) -> None:
    assert planning.parse_stack(text) == ids


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The stack '' is empty or has an empty part."),
        ("bf16++sdpa", "The stack 'bf16++sdpa' is empty or has an empty part."),
        ("bf61", "There is no technique named 'bf61'. Did you mean bf16"),
        ("zzzzzz", "There is no technique named 'zzzzzz'. The choices are "),
        ("bf16+fp32", "The stack 'bf16+fp32' names two techniques for precision: bf16 and fp32."),
        ("library_default+eager", "names two techniques for attention: library_default and eager."),
        ("x\x1b[31m" + "y" * 100, r"There is no technique named 'x\x1b[31myyy"),
    ],
)
def test_a_wrong_stack_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ChoiceError) as caught:
        planning.parse_stack(text)
    assert sentence in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("stacks", "baseline", "expected"),
    [
        (("bf16", "eager"), None, ["fp32+sdpa", "bf16+sdpa", "fp32+eager"]),
        (("bnb_nf4", "library_default"), None, ["fp32+sdpa", "fp32+sdpa+bnb_nf4", "library_default"]),
        (("bf16", "bf16+sdpa", "sdpa+bf16", "fp32"), None, ["fp32+sdpa", "bf16+sdpa"]),
        (("bnb_nf4",), "bf16", ["bf16+sdpa", "bf16+sdpa+bnb_nf4"]),
        (("eager", "fp32"), "library_default", ["library_default", "bf16+eager", "fp32+sdpa"]),
        ((), None, ["fp32+sdpa"]),
    ],
)
def test_open_slots_take_the_baselines_value(
    stacks: tuple[str, ...], baseline: str | None, expected: list[str]
) -> None:
    plan = planned(make.choice(*stacks, baseline=baseline))
    assert keys(plan) == expected
    assert plan.baseline == expected[0]
    same = ("fp32+sdpa is the baseline itself, so it has one row, not two.",) if "fp32" in stacks[-1:] else ()
    assert plan.notes == (same if baseline is None else ())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"quantization": "bitsandbytes 4-bit"}, ["library_default", "stored+eager"]),
        ({"stored_dtype": "float64"}, ["library_default", "stored+eager"]),
        ({"stored_dtype": "float16"}, ["library_default", "fp16+eager"]),
    ],
)
def test_a_key_names_precision_and_attention_always(changes: dict[str, str], expected: list[str]) -> None:
    assert keys(planned(make.choice("eager", baseline="library_default"), **changes)) == expected


def test_memory_by_hand() -> None:
    plan = planned(make.choice("bf16", "torchao_int8_weight_only"))
    by_key = {variant.key: variant.predicted_bytes for variant in plan.variants}
    bf16 = 450_000_000 + 200_000_000 + 1_024_000 + 2_048_000
    int8 = FP32_BYTES + 80_000_000  # the unquantized weights are loaded first
    assert by_key == {"fp32+sdpa": FP32_BYTES, "bf16+sdpa": bf16, "fp32+sdpa+torchao_int8_weight_only": int8}
    assert plan.predicted_bytes == 2 * FP32_BYTES + bf16 + int8  # the baseline has two processes
    assert plan.resident


def test_residents_up_to_the_limit_and_one_after_another_above_it() -> None:
    bf16 = 653_072_000
    together = 2 * FP32_BYTES + bf16
    assert planned(make.choice("bf16"), together).resident
    plan = planned(make.choice("bf16"), together - 1)
    assert not plan.resident
    assert plan.predicted_bytes == FP32_BYTES
    assert keys(plan) == ["fp32+sdpa", "bf16+sdpa"]
    assert "one after another" in plan.notes[0]


def test_a_variant_too_large_by_itself_is_skipped_with_its_size() -> None:
    plan = planned(make.choice("bf16", "torchao_int8_weight_only"), FP32_BYTES)
    assert keys(plan) == ["fp32+sdpa", "bf16+sdpa"]
    (skipped,) = plan.skipped
    assert skipped.key == "fp32+sdpa+torchao_int8_weight_only"
    assert skipped.obstacle.reason == "It would need about 934 MB of memory, and 854 MB may be used."
    assert "LEVERS_MEMORY_BYTES" in skipped.obstacle.remedy


def test_where_fp32_does_not_fit_the_baseline_is_as_stored_and_says_so() -> None:
    plan = planned(make.choice("bf16", "eager"), FP32_BYTES - 1)
    assert keys(plan) == ["library_default", "bf16+sdpa", "bf16+eager"]
    assert plan.notes[0].startswith(
        "The baseline is the checkpoint as stored, not fp32+sdpa: It would need about 854 MB"
    )


def test_where_nothing_fits_it_is_a_sentence() -> None:
    with pytest.raises(ChoiceError, match=r"The baseline library_default cannot run here\. It would need about 653 MB"):
        planned(make.choice("bf16"), 100_000_000)


def test_a_quantized_checkpoint_is_its_own_baseline_and_keeps_its_precision() -> None:
    plan = planned(make.choice("eager", "bnb_nf4"), quantization="bitsandbytes")
    assert keys(plan) == ["library_default", "stored+eager"]
    assert plan.notes == ("The checkpoint is quantized already (bitsandbytes), so the baseline is it as stored.",)
    assert "already quantized (bitsandbytes)" in plan.skipped[0].obstacle.reason
    assert plan.variants[0].predicted_bytes == 450_000_000 + 200_000_000 + 1_024_000 + 2_048_000  # as on disk


def test_an_unavailable_technique_and_a_conflict_are_skipped_with_reason_and_remedy() -> None:
    machine = make.machine(packages={"torch": "1.0"})
    plan = planning.plan(make.choice("bnb_nf4", "bf16+int8_dynamic"), machine, make.checkpoint(), PLENTY)
    missing, conflict = plan.skipped
    assert missing.obstacle.reason == "The Python package bitsandbytes is not installed."
    assert conflict.key == "bf16+sdpa+int8_dynamic"
    assert "float32" in conflict.obstacle.reason
    assert conflict.obstacle.remedy == "Leave out int8_dynamic or bf16."
    assert keys(plan) == ["fp32+sdpa"]


def test_an_unavailable_baseline_is_refused() -> None:
    machine = make.machine(packages={"torch": "1.0"})
    with pytest.raises(
        ChoiceError, match=r"bnb_nf4 cannot run here\. The Python package bitsandbytes is not installed"
    ):
        planning.plan(make.choice(baseline="bnb_nf4"), machine, make.checkpoint(), PLENTY)


def test_what_is_slow_to_prepare_goes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = dict(all_techniques())
    registry["eager"] = replace(registry["eager"], slow_to_prepare=True)
    monkeypatch.setattr(stacks_module, "all_techniques", lambda: registry)
    assert keys(planned(make.choice("eager", "bf16", "fp16"))) == ["fp32+sdpa", "bf16+sdpa", "fp16+sdpa", "fp32+eager"]


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        ({"prompts": ()}, "There is no prompt."),
        ({"prompts": ("a", " \n")}, "Prompt 2 is blank."),
        ({"prompts": ("a",) * 65}, "There are 65 prompts."),
        ({"prompts": ("a" * 100_001,)}, "Prompt 1 has 100001 characters."),
        ({"max_new_tokens": 0}, "The number of new tokens is 0."),
        ({"max_new_tokens": 2048}, "2048 new tokens do not fit: the context of test-model is 2048 tokens"),
        ({"max_new_tokens": 100_000}, "100000 new tokens do not fit: the context of test-model is 2048 tokens"),
        ({"rounds": 0}, "The number of rounds is 0."),
        ({"rounds": 201}, "The number of rounds is 201."),
        ({"seconds": 0.0}, "The time budget is 0 seconds."),
        ({"seconds": float("nan")}, "The time budget is nan seconds."),
        ({"seconds": float("inf")}, "The time budget is inf seconds."),
        ({"batch_size": 2}, "The batch size is 2."),
        ({"seed": -1}, "The seed is -1."),
        ({"threads": 5}, "5 threads were asked for, and 4 processor cores can be used here."),
        ({"threads": 0}, "0 threads were asked for"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(workload: dict[str, object], sentence: str) -> None:
    with pytest.raises(ChoiceError) as caught:
        planned(make.choice("bf16", **workload))
    assert sentence in caught.value.reason
    assert caught.value.remedy


def test_one_token_and_a_context_that_is_not_known_are_fine() -> None:
    assert planned(make.choice(max_new_tokens=1)).variants
    assert planned(make.choice(max_new_tokens=30_000), context_length=0).variants
    with pytest.raises(ChoiceError, match="at most 32768"):
        planned(make.choice(max_new_tokens=40_000), context_length=0)


def test_a_prompt_longer_than_the_context() -> None:
    checkpoint = make.checkpoint(context_length=100)
    two = make.choice(prompts=("a", "b"), max_new_tokens=40)
    assert planning.plan(two, make.machine(), checkpoint, PLENTY, (60, 60)).variants
    with pytest.raises(ChoiceError, match=r"Prompt 2 has 61 tokens; with 40 new ones it is longer .* 100 tokens"):
        planning.plan(two, make.machine(), checkpoint, PLENTY, (60, 61))


def test_too_many_stacks() -> None:
    with pytest.raises(ChoiceError, match="33 stacks were asked for"):
        planned(make.choice(*["bf16"] * 33))


def test_threads_and_time() -> None:
    assert planned(make.choice("bf16")).threads == 4
    assert planned(make.choice("bf16", threads=2)).threads == 2
    short = planned(make.choice("bf16", rounds=1)).estimate_s
    long = planned(make.choice("bf16", rounds=11)).estimate_s
    # Ten rounds of three turns: 48 tokens at 100 M x 4.8e-10 / 4 s each, and 64 prompt tokens at 100 M x 2.1e-11 / 4 s.
    assert long - short == pytest.approx(30 * (48 * 0.012 + 64 * 0.000525))
    assert planned(make.choice("bf16", seconds=100.0)).estimate_s == 100.0
    assert planned(make.choice("bf16", seconds=1.0)).estimate_s == pytest.approx(short)
    most = planned(make.choice("bf16", rounds=200)).estimate_s
    assert planned(make.choice("bf16", seconds=5000.0)).estimate_s == pytest.approx(most)  # no more rounds than that


def test_the_estimate_by_hand() -> None:
    """Two processes of 100 M parameters on 4 threads: 4 s to start, 0.4 s to load, 20 + 64 tokens of 0.012 s and 768
    positions of 0.000525 s scored; then 20 tokens and a prompt of 64 for each turn: two rounds of two, and one more of
    the variant (A' has none) to see where its time goes; 8 s for the limits of the machine."""
    work, model = Workload(("Hello",), max_new_tokens=20, rounds=2), make.checkpoint(layers=0)
    ready = 4.0 + 0.4 + 84 * 0.012 + TEXT_POSITIONS * 0.000525
    turn = 20 * 0.012 + 64 * 0.000525
    found = predictions.seconds([(known(("fp32", "sdpa")), model, 4)], work)
    assert found == pytest.approx(2 * ready + 5 * turn + 8.0)
    budget = replace(work, seconds=found + 100.0)
    assert predictions.seconds([(known(("fp32", "sdpa")), model, 4)], budget) == pytest.approx(found + 100.0)


@pytest.mark.parametrize(
    ("stack", "token_s", "once_s"),
    [
        ("eager", 0.012, 0.0),
        ("no_cache", 0.012 + (64 + 10) * 0.000525, 0.0),  # 64 of the prompt and half of the 20 of the answer
        ("torchao_int4_weight_only", 30 * 0.012, 0.0),
        ("torchao_int8_weight_only", 1.6 * 0.012, 0.0),
        ("torchao_int8_weight_only+compile", 0.012, 30.0),  # ten layers of three seconds
        ("torchao_int8_weight_only+no_cache", 1.6 * 0.012 + (64 + 10) * 0.000525, 0.0),
        ("onnxruntime", 0.8 * 0.012, 10.0),  # 100 M parameters at a tenth of a second for each million
    ],
)
def test_the_estimate_knows_what_is_slow(stack: str, token_s: float, once_s: float) -> None:
    # One prompt of 20 new tokens and 64 positions of the text through the timed path, then two rounds of 20, and 20
    # once more to see where the time goes.
    work, model = Workload(("Hello",), max_new_tokens=20, rounds=2), make.checkpoint()
    plain, slow = known(("fp32", "sdpa")), known(stack.split("+"))
    without = predictions.seconds([(plain, model, 4), (plain, model, 4)], work)
    told = predictions.seconds([(plain, model, 4), (slow, model, 4)], work)
    assert told - without == pytest.approx((20 + 64 + 3 * 20) * (token_s - 0.012) + once_s)


def test_the_estimate_of_a_gpu_takes_other_factors() -> None:
    work, model = Workload(("Hello",), max_new_tokens=20, rounds=2), make.checkpoint()
    stacks = [known(("fp32",)), known(("torchao_int4_weight_only",)), known(("torchao_float8_dynamic",))]
    plain, int4, float8 = (
        predictions.seconds([(stacks[0], model, 4), (stack, model, 4)], work, "cuda") for stack in stacks
    )
    assert int4 == pytest.approx(plain)
    assert float8 - plain == pytest.approx(144 * 2 * 0.012)  # three times a token's seconds, 144 tokens


def test_the_memory_limit_is_the_settings_or_four_fifths_of_what_is_free() -> None:
    assert planning.memory_limit(make.machine(), None) == 8_000_000_000
    assert planning.memory_limit(make.machine(), 5) == 5


def test_a_gpu_takes_the_whole_comparison() -> None:
    """What runs on processors only is left out with its reason; memory is the GPU's."""
    machine = make.machine(gpus=(Gpu("test GPU", 80_000_000_000, (9, 0)),))
    assert planning.memory_limit(machine, None) == 64_000_000_000
    plan = planning.plan(make.choice("int8_dynamic", "bf16", "onnxruntime"), machine, make.checkpoint(), PLENTY)
    assert plan.device == "cuda" and planned(make.choice("bf16")).device == "cpu"
    assert keys(plan) == ["fp32+sdpa", "bf16+sdpa"]
    packages = "onnxruntime is not installed"
    reasons = [skipped.obstacle.reason for skipped in plan.skipped]
    assert "int8 runs on processors only" in reasons[0] and "test GPU" in reasons[0] and packages in reasons[1]
    assert "CUDA_VISIBLE_DEVICES" in plan.skipped[0].obstacle.remedy


def test_compiling_brings_a_static_cache_wherever_the_slot_is_open() -> None:
    plan = planned(make.choice("compile", "bf16+compile+static_cache"))
    assert keys(plan) == ["fp32+sdpa", "fp32+sdpa+compile+static_cache", "bf16+sdpa+compile+static_cache"]
    assert plan.variants[1].techniques == ("fp32", "sdpa", "compile", "static_cache")
    assert keys(planned(make.choice("compile", baseline="no_cache")))[1] == "fp32+sdpa+compile+static_cache"
    (refused,) = planned(make.choice("no_cache+compile")).skipped
    assert refused.key == "fp32+sdpa+compile+no_cache"
    assert "cache of fixed length" in refused.obstacle.reason


def test_compiling_needs_a_compiler_and_a_model_that_can_be() -> None:
    bare = make.machine(cpp_compiler=None)
    (refused,) = planning.plan(make.choice("compile"), bare, make.checkpoint(), PLENTY).skipped
    assert "no C++ compiler" in refused.obstacle.reason
    assert "g++" in refused.obstacle.remedy
    hosted = make.machine(hosted="ZeroGPU")
    assert (
        "ZeroGPU" in planning.plan(make.choice("compile"), hosted, make.checkpoint(), PLENTY).skipped[0].obstacle.reason
    )
    assert "llama4" in planned(make.choice("compile"), model_type="llama4_text").skipped[0].obstacle.reason
    assert "rwkv" in planned(make.choice("static_cache"), model_type="rwkv").skipped[0].obstacle.reason


def test_compiling_takes_memory_and_time() -> None:
    plan = planned(make.choice("compile"))
    assert plan.variants[1].predicted_bytes == FP32_BYTES + 500_000_000
    plain, compiled = planned(make.choice("bf16", "bf16+compile")).variants[1:]
    packed = 2 * 100_000_000  # the weights again, as compiled code wants them in bf16
    assert compiled.predicted_bytes == plain.predicted_bytes + 500_000_000 + packed
    static = planned(make.choice("static_cache"))
    assert plan.estimate_s - static.estimate_s == pytest.approx(30.0)  # ten layers of three seconds


def rungs(*stacks: str, missing: tuple[str, ...] = ()) -> list[str]:
    return list(planning.ladder(stacks, lambda technique: technique.id not in missing))


def test_the_ladder_puts_each_step_on_top_of_the_last_in_the_taught_order() -> None:
    taught = ["bf16", "bf16+compile", "bf16+torchao_int8_weight_only+compile"]
    assert rungs("torchao_int8_weight_only", "compile", "bf16") == taught
    assert rungs("compile+bf16", "eager", "bf16") == ["bf16", "bf16+eager", "bf16+compile"]  # written ones stay
    assert rungs("bf16", "fp16", "eager") == ["bf16", "fp16", "bf16+eager"]
    assert rungs("bf16", "int8_dynamic", "prompt_lookup") == ["bf16", "bf16+int8_dynamic", "bf16+prompt_lookup"]
    assert rungs("bf16", "compile", "static_cache", missing=("compile",)) == [
        "bf16",
        "bf16+static_cache",
        "bf16+compile+static_cache",
    ]
    assert rungs("compile", "prompt_lookup") == ["compile", "compile+prompt_lookup"]
    plan = planned(make.choice(*rungs(*taught)))
    assert keys(plan)[1:] == [
        "bf16+sdpa",
        "bf16+sdpa+compile+static_cache",
        "bf16+sdpa+torchao_int8_weight_only+compile+static_cache",
    ]
    with pytest.raises(ChoiceError):
        rungs("bf61")


def test_a_step_of_a_ladder_knows_the_nearest_one_below_it_that_will_run() -> None:
    def below(*stacks: str, ways: Way = "ladder", **choice: str) -> dict[str, str | None]:
        asked = replace(make.choice(*stacks, **choice), ways=ways)
        return {variant.key: variant.below for variant in planned(asked).variants}

    compiled = "bf16+sdpa+compile+static_cache"
    assert below("bf16", "bf16+compile", "bf16+torchao_int8_weight_only+compile") == {
        "fp32+sdpa": None,
        "bf16+sdpa": "fp32+sdpa",
        compiled: "bf16+sdpa",
        "bf16+sdpa+torchao_int8_weight_only+compile+static_cache": compiled,
    }
    # fp16 stands beside bf16; bf16+eager, which no_cache stands on, is not in the run, so bf16 takes its place.
    assert below("bf16", "fp16", "bf16+no_cache+eager") == {
        "fp32+sdpa": None,
        "bf16+sdpa": "fp32+sdpa",
        "fp16+sdpa": "fp32+sdpa",
        "bf16+eager+no_cache": "bf16+sdpa",
    }
    assert below("bf16", "fp32", baseline="bf16") == {"bf16+sdpa": None, "fp32+sdpa": "bf16+sdpa"}
    assert set(below("bf16", "bf16+compile", ways="alone").values()) == {None}


def test_a_choice_remembers_that_it_is_a_ladder_and_starts_from_the_usual_one() -> None:
    usual = api.choose("a model", ways="ladder")
    assert (usual.ways, usual.stacks[0]) == ("ladder", "bf16")
    assert [len(stack.split("+")) for stack in usual.stacks][:2] == [1, 2]
    mixed = api.choose("a model", ["eager", "bf16", "fp16+no_cache"], ways="ladder")
    assert mixed.stacks == ("bf16", "bf16+eager", "fp16+no_cache")
    assert api.choose("a model", ["eager"]).ways == "alone"
    assert api.named_in("eager + bf16") == ("bf16", "eager")
