"""Every technique on a Llama with tied embeddings and on a GPT-2 of Conv1D layers, each in a real worker process.

A technique must load, answer, and be proven by the census, or say why it is not applied and what to do. Byte counts are
worked out by hand below. All workers run once, two at a time; a new technique is covered by being in the folder.
"""

from __future__ import annotations

import importlib.metadata
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import planning_records as make
import pytest
import takeaway_records

sys.path.insert(0, str(Path(__file__).parent.parent / "worker"))

from driver import WorkerProcess, facts

from optimizers import takeaway
from optimizers.checkpoints.attentions import attentions
from optimizers.engines import all_engines
from optimizers.protocol import Answered, CensusTaken, Loaded, MemoryTaken, RunRequest, TakeCensus, TakeMemory
from optimizers.schema import SLOTS, EngineState, Machine
from optimizers.techniques import all_techniques
from optimizers.techniques.base import GenerationOptions, LoadContext, LoadOptions, Recipe, Technique

IDS = tuple(all_techniques())
MODELS = {"tiny-llama": ("llama", "LlamaForCausalLM"), "tiny-gpt2": ("gpt2", "GPT2LMHeadModel")}
NOT_APPLIED = {
    ("int8_dynamic", "tiny-gpt2"),
    ("torchao_int8_weight_only", "tiny-gpt2"),
    ("torchao_int8_dynamic", "tiny-gpt2"),
    ("torchao_int4_weight_only", "tiny-gpt2"),
}
NEW_TOKENS = 6
PROMPT = "The old captain"

# The tiny Llama: vocabulary 384, width 64, 2 layers, inner width 128, keys and values 32 wide, tied.
EMBEDDING = 384 * 64
LINEARS_OF_A_LAYER = 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 128
ROWS_OF_A_LAYER = 64 + 32 + 32 + 64 + 128 + 128 + 64
LINEARS = 2 * LINEARS_OF_A_LAYER
NORMS = 5 * 64
ROTARY_BYTES = 2 * 8 * 4  # the frequencies and their original, always in fp32


@dataclass(frozen=True)
class Outcome:
    loaded: Loaded
    answered: Answered
    census: CensusTaken
    memory: MemoryTaken


def machine(**changes: object) -> Machine:
    found = {}
    for package in ("torchao", "bitsandbytes", "accelerate", "onnxruntime", "onnxruntime-genai", "onnxscript"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    plain = Machine("Linux", "a processor", 2, ("avx2",), 8 << 30, 8 << 30, cpp_compiler="g++", packages=found)
    engines = tuple(EngineState(name, "An engine", 1_000_000, False, True) for name in all_engines())
    return replace(plain, **{"engines": engines, **changes})


def measured_here(name: str, model: str) -> bool:
    """Whether this machine can have the technique. Those that run in an engine's own environment are measured where one
    is made: tests/worker/test_engine_workers.py."""
    technique = all_techniques()[name]
    if technique.engine is not None:
        return False
    if technique.slot == "runtime" and model == "tiny-gpt2" and machine().packages["onnxscript"] is None:
        return False  # its graphs are traced
    model_type, architecture = MODELS[model]
    found = make.checkpoint(architecture=architecture, attentions=attentions(model_type, architecture))
    return technique.why_not(machine(), found) is None


def stack(technique: Technique) -> tuple[str, ...]:
    """The technique on top of the plain baseline."""
    filled = {technique.slot: technique.id, **{all_techniques()[name].slot: name for name in technique.brings}}
    base = {"precision": "fp32", "attention": "sdpa"}
    base = {slot: name for slot, name in base.items() if slot not in technique.also_fills}
    return tuple({**base, **filled}.values())


def run_case(folder: Path, techniques: tuple[str, ...], log: Path) -> Outcome:
    with WorkerProcess(log) as worker:
        loaded = worker.load(folder, *techniques)
        answered = worker.do(RunRequest(0, PROMPT, NEW_TOKENS), Answered)
        census = worker.do(TakeCensus(), CensusTaken)
        memory = worker.do(TakeMemory(), MemoryTaken)
        return Outcome(loaded, answered, census, memory)


CASES = tuple((name, model) for name in IDS for model in MODELS if measured_here(name, model))
ELSEWHERE = {"flash_attention_2", "torchao_float8_dynamic"}  # these want a GPU


@pytest.fixture(scope="module")
def outcomes(
    tiny_llama: Path, tiny_gpt2: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[tuple[str, str], Outcome]:
    logs = tmp_path_factory.mktemp("logs")
    stacks = {pair: stack(all_techniques()[pair[0]]) for pair in CASES}
    folders = {folder.name: folder for folder in (tiny_llama, tiny_gpt2)}
    cases = {(key, folders[model]) for (_, model), key in stacks.items()}
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        traced = any(all_techniques()[name].slot == "runtime" and model == "tiny-gpt2" for name, model in CASES)
        cache = request.getfixturevalue("exported_gpt2").cache if traced else tmp_path_factory.mktemp("cache")
        patch.setenv("LEVERS_CACHE", str(cache))
        futures = {
            (key, folder.name): pool.submit(run_case, folder, key, logs / f"{'+'.join(key)}-{folder.name}.log")
            for key, folder in sorted(cases)
        }
        return {pair: futures[key, pair[1]].result() for pair, key in stacks.items()}


@pytest.mark.parametrize(("name", "model"), CASES)
def test_loads_answers_and_is_proven_or_says_why_not(
    name: str, model: str, outcomes: dict[tuple[str, str], Outcome]
) -> None:
    outcome = outcomes[name, model]
    assert outcome.answered.output.generated == NEW_TOKENS
    assert len(outcome.answered.timing.token_times_s) == NEW_TOKENS
    assert outcome.census.census.inference_mode
    obstacle = outcome.census.obstacle
    if (name, model) in NOT_APPLIED:
        assert obstacle is not None
        assert "Conv1D" in obstacle.reason
        assert "8 layers" in obstacle.reason
        assert "nn.Linear" in obstacle.remedy
    else:
        assert obstacle is None


@pytest.mark.parametrize(("name", "model"), CASES)
def test_memory_agrees_with_the_census(name: str, model: str, outcomes: dict[tuple[str, str], Outcome]) -> None:
    outcome = outcomes[name, model]
    memory = outcome.memory.memory
    assert memory.weights_bytes == sum(outcome.census.census.bytes_by_dtype.values())
    assert memory.runtime_bytes > 50_000_000
    assert memory.steady_bytes is not None
    assert memory.steady_bytes > memory.weights_bytes


@pytest.mark.parametrize("model", MODELS)
def test_attention_is_the_one_that_the_profiler_saw(model: str, outcomes: dict[tuple[str, str], Outcome]) -> None:
    assert outcomes["eager", model].census.census.attention == "eager"
    sdpa = outcomes["sdpa", model].census.census
    assert sdpa.attention == "sdpa"
    assert "flash" in sdpa.attention_kernel


def test_bytes_of_the_precisions(outcomes: dict[tuple[str, str], Outcome]) -> None:
    parameters = EMBEDDING + LINEARS + NORMS
    full = {"float32": parameters * 4 + ROTARY_BYTES}
    assert outcomes["fp32", "tiny-llama"].census.census.bytes_by_dtype == full
    assert outcomes["library_default", "tiny-llama"].census.census.bytes_by_dtype == full
    for name, dtype in (("bf16", "bfloat16"), ("fp16", "float16")):
        half = {dtype: parameters * 2, "float32": ROTARY_BYTES}
        assert outcomes[name, "tiny-llama"].census.census.bytes_by_dtype == half


def test_bytes_of_torchao_int8_are_a_byte_a_weight_and_a_scale_a_row(outcomes: dict[tuple[str, str], Outcome]) -> None:
    counted = outcomes["torchao_int8_weight_only", "tiny-llama"].census.census
    rows = 2 * ROWS_OF_A_LAYER
    # torchao keeps a zero point of one byte beside each float32 scale
    assert counted.bytes_by_dtype["int8"] == LINEARS + rows
    assert counted.bytes_by_dtype["float32"] == (EMBEDDING + NORMS) * 4 + ROTARY_BYTES + rows * 4
    assert counted.modules_converted == 14
    assert [skip.name for skip in counted.modules_skipped] == ["lm_head"]
    assert "tied" in counted.modules_skipped[0].why


def test_bytes_of_dynamic_int8_hold_the_head_twice(outcomes: dict[tuple[str, str], Outcome]) -> None:
    outcome = outcomes["int8_dynamic", "tiny-llama"]
    counted = outcome.census.census
    assert counted.bytes_by_dtype["qint8"] == LINEARS + EMBEDDING
    assert counted.bytes_by_dtype["float32"] == (EMBEDDING + NORMS) * 4 + ROTARY_BYTES
    assert counted.modules_converted == 15
    assert any("output head" in note for note in outcome.loaded.notes)


def test_bytes_of_torchao_int4_are_half_a_byte_a_weight_and_two_numbers_a_group(
    outcomes: dict[tuple[str, str], Outcome],
) -> None:
    counted = outcomes["torchao_int4_weight_only", "tiny-llama"].census.census
    # groups of 32 where the widths are not known, each with a float32 scale and zero point
    assert counted.bytes_by_dtype["uint8"] == LINEARS / 2
    assert counted.bytes_by_dtype["float32"] == (EMBEDDING + NORMS) * 4 + ROTARY_BYTES + LINEARS // 32 * 8
    assert counted.modules_converted == 14


@pytest.mark.parametrize("name", ["bnb_nf4", "bnb_fp4"])
def test_bytes_of_four_bits_are_half_a_byte_a_weight_and_scales(
    name: str, outcomes: dict[tuple[str, str], Outcome]
) -> None:
    counted = outcomes[name, "tiny-llama"].census.census.bytes_by_dtype
    assert counted["uint8"] == LINEARS / 2
    unquantized, code_books = (EMBEDDING + NORMS) * 4 + ROTARY_BYTES, 14 * 16 * 4
    # a scale for each block of 64, in fp32, or in bf16 where the processor's own kernel takes them so
    scales = {"float32": LINEARS // 64 * 4} if "bfloat16" not in counted else {"bfloat16": LINEARS // 64 * 2}
    assert counted.get("bfloat16", 0) == scales.get("bfloat16", 0)
    assert counted["float32"] == unquantized + code_books + scales.get("float32", 0)


def test_bytes_of_bitsandbytes_int8(outcomes: dict[tuple[str, str], Outcome]) -> None:
    counted = outcomes["bnb_int8", "tiny-llama"].census.census.bytes_by_dtype
    assert counted["int8"] == LINEARS
    assert outcomes["bnb_int8", "tiny-gpt2"].census.census.modules_converted == 8


@pytest.mark.parametrize("name", IDS)
def test_texts_and_promises_are_well_formed(name: str) -> None:
    technique = all_techniques()[name]
    assert technique.slot in SLOTS
    assert technique.id == name
    assert technique.title
    assert technique.summary.endswith(".")
    assert "\n" not in technique.summary
    assert 40 <= len(technique.about.text.split()) <= 100
    assert technique.about.text.endswith(".")
    assert technique.about.source
    for promise in technique.promises:
        assert promise.claim
        assert promise.promised
        assert promise.source
        if promise.metric is not None:
            assert promise.low is not None or promise.high is not None
    for other, why in technique.conflicts.items():
        assert other in IDS
        assert why.endswith(".")


@pytest.mark.parametrize("name", IDS)
def test_why_not_is_none_here_and_whole_sentences_elsewhere(name: str, tiny_llama: Path) -> None:
    technique = all_techniques()[name]
    here = (technique.why_not(machine(), None), technique.why_not(machine(), facts(tiny_llama)))
    assert all((obstacle is not None) is (name in ELSEWHERE) for obstacle in here)
    bare = technique.why_not(machine(packages={}), None)
    needs_package = name.startswith(("torchao", "bnb", "onnxruntime", "optimum"))
    if name in ELSEWHERE:
        return
    assert (bare is not None) is needs_package
    if bare is not None:
        assert bare.reason.endswith(".")
        assert "pip install" in bare.remedy


@pytest.mark.parametrize("name", IDS)
def test_an_already_quantized_checkpoint_overrules_quantizers_only(name: str, tiny_llama: Path) -> None:
    technique = all_techniques()[name]
    quantized = replace(facts(tiny_llama), quantization="gptq")
    missing = technique.why_not(machine(), facts(tiny_llama))
    obstacle = technique.why_not(machine(), quantized)
    if missing is not None:
        assert obstacle is not None  # what the machine lacks stays lacking
        return
    assert (obstacle is not None) is (technique.slot in ("weights", "runtime"))
    if obstacle is not None:
        assert "gptq" in obstacle.reason


def test_a_compiled_step_is_one_graph_of_its_own_in_a_cache_of_fixed_length(
    outcomes: dict[tuple[str, str], Outcome],
) -> None:
    outcome = outcomes["compile", "tiny-llama"]
    found = outcome.census.census
    assert found.compile is not None
    assert found.compile.graphs == 1
    assert (found.compile.graph_breaks, found.compile.recompiles, found.compile.late_graphs) == (0, 0, 0)
    assert found.cache == "static"
    assert outcome.loaded.cost.prepare_s > 0
    same = outcomes["fp32", "tiny-llama"].answered.output.token_ids
    assert outcome.answered.output.token_ids == same


@pytest.mark.parametrize("model", MODELS)
def test_caches_and_decoding_are_those_that_generate_made(model: str, outcomes: dict[tuple[str, str], Outcome]) -> None:
    plain = outcomes["fp32", model]
    assert (plain.census.census.cache, plain.census.census.decoding) == ("dynamic", "greedy")
    assert plain.census.census.compile is None
    for name, cache, decoding in (
        ("static_cache", "static", "greedy"),
        ("no_cache", "none", "greedy"),
        ("prompt_lookup", "dynamic", "prompt_lookup"),
    ):
        outcome = outcomes[name, model]
        assert (outcome.census.census.cache, outcome.census.census.decoding) == (cache, decoding)
        assert outcome.answered.scored_ids == plain.answered.scored_ids
        assert 0 < outcome.answered.timing.prefill_s <= outcome.answered.timing.ttft_s
    assert outcomes["sampling", model].census.census.decoding == "sampling"


@pytest.mark.parametrize(
    ("name", "instructions"),
    [("bf16", "avx512_bf16"), ("fp16", "avx512_fp16"), ("int8_dynamic", "avx512_vnni")],
)
def test_warnings_depend_on_the_instructions(name: str, instructions: str) -> None:
    technique = all_techniques()[name]
    plain = technique.warn(machine(), None)
    assert plain is not None
    assert plain.endswith(".")
    assert technique.warn(machine(instruction_sets=("avx2", instructions)), None) is None


# Each technique on the Llama; on the GPT-2, which has no chat template and no pad token, what differs there.
TAKEN = tuple((name, model) for name, model in CASES if model == "tiny-llama" or name in ("fp32", "bnb_int8"))


@pytest.fixture(scope="module")
def scripts(
    tiny_llama: Path, tiny_gpt2: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Future[str]]:
    """What each recipe prints, run two at a time, each stack once."""
    folders = {folder.name: folder for folder in (tiny_llama, tiny_gpt2)}
    runs = {(stack(all_techniques()[name]), model): None for name, model in TAKEN}
    with ThreadPoolExecutor(2) as pool:
        answers = {
            (key, name): pool.submit(
                takeaway_records.answer,
                takeaway.recipe(takeaway_records.on(folders[name], key, PROMPT, NEW_TOKENS), "+".join(key)),
                tmp_path_factory.mktemp("recipes") / "here",
            )
            for key, name in runs
        }
    return {(name, model): answers[stack(all_techniques()[name]), model] for name, model in TAKEN}


@pytest.mark.parametrize(("name", "model"), TAKEN)
def test_the_recipe_answers_as_the_worker_does(
    name: str, model: str, outcomes: dict[tuple[str, str], Outcome], scripts: dict[tuple[str, str], Future[str]]
) -> None:
    assert scripts[name, model].result() == outcomes[name, model].answered.output.text


@pytest.mark.parametrize("name", IDS)
def test_what_changes_or_loads_a_model_has_a_recipe_of_its_own(name: str) -> None:
    technique = all_techniques()[name]
    context = LoadContext(make.checkpoint(), "float32", 1, 64, ())
    recipe = technique.recipe(context, GenerationOptions())
    assert bool(recipe.change) is (technique.transform is not None)
    assert bool(recipe.load) is (technique.load is not None)
    declares = technique.load is not None or technique.options(context) != LoadOptions()
    declares = declares or technique.generation(context) != GenerationOptions()
    assert declares or recipe != Recipe()
