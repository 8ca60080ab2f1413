"""Why a technique is not available, and proofs of decoding, from machine descriptions and censuses alone."""

from __future__ import annotations

import sys
from pathlib import Path

import planning_records as make
import pytest

from optimizers.schema import CompileCensus, Gpu
from optimizers.techniques import all_techniques
from optimizers.techniques.torchao_int4_weight_only import group_size


def reason(name: str, checkpoint: object = None, **machine: object) -> str | None:
    obstacle = all_techniques()[name].why_not(make.machine(**machine), checkpoint)  # type: ignore[arg-type]
    if obstacle is not None:
        assert obstacle.remedy
    return None if obstacle is None else obstacle.reason


def gpu(*capability: int) -> tuple[Gpu, ...]:
    return (Gpu("test GPU", 80_000_000_000, (capability[0], capability[1])),)


@pytest.mark.parametrize(
    ("widths", "size"), [((576, 1536), 64), ((4096, 11008), 128), ((96, 160), 32), ((96, 100), 32), ((), 32)]
)
def test_the_group_size_is_the_largest_that_divides(widths: tuple[int, ...], size: int) -> None:
    assert group_size(widths) == size


def test_int4_where_no_group_size_divides_is_said_before_the_run() -> None:
    odd = make.checkpoint(linear_widths=(88, 176))
    assert "No group size" in str(reason("torchao_int4_weight_only", odd))
    assert "(88, 176)" in str(reason("torchao_int4_weight_only", odd))
    assert reason("torchao_int4_weight_only", make.checkpoint(linear_widths=(96, 100))) is None
    assert reason("torchao_int4_weight_only", make.checkpoint()) is None


def test_float8_and_flash_attention_want_a_recent_gpu() -> None:
    packages = {"torchao": "1.0", "flash-attn": "2.0"}
    for name, least, less in (("torchao_float8_dynamic", (8, 9), (8, 6)), ("flash_attention_2", (8, 0), (7, 5))):
        assert "no GPU" in str(reason(name))
        assert ".".join(map(str, less)) in str(reason(name, gpus=gpu(*less), packages=packages))
        assert reason(name, gpus=gpu(*least), packages=packages) is None
    assert "flash-attn" in str(reason("flash_attention_2", gpus=gpu(9, 0)))


def test_on_a_gpu_the_default_int4_layout_wants_its_kernels_and_graphs_stay_on_the_processor() -> None:
    packages = {"torchao": "1.0", "onnxruntime": "1.0", "onnxruntime-genai": "1.0"}
    assert "mslk" in str(reason("torchao_int4_weight_only", gpus=gpu(9, 0), packages=packages))
    assert reason("torchao_int4_weight_only", gpus=gpu(9, 0), packages={**packages, "mslk": "1.0"}) is None
    for name in ("onnxruntime", "onnxruntime_int8", "onnxruntime_int4"):
        assert "processors only" in str(reason(name, gpus=gpu(9, 0), packages=packages))


def test_flex_attention_wants_avx2_and_a_compiler() -> None:
    assert reason("flex_attention") is None
    assert "AVX2" in str(reason("flex_attention", instruction_sets=("asimd",)))
    assert "C++ compiler" in str(reason("flex_attention", cpp_compiler=None))


def verdict(name: str, **changes: object) -> str | None:
    census = make.census(**({"cache": "dynamic", "decoding": "greedy"} | changes))
    obstacle = all_techniques()[name].verify(census, make.checkpoint())
    return None if obstacle is None else obstacle.reason


def test_caches_and_decoding_are_proven_by_what_generate_made() -> None:
    assert "a dynamic cache" in str(verdict("static_cache"))
    assert verdict("static_cache", cache="static") is None
    assert "a state of the model's own" in str(verdict("no_cache", cache="own"))
    assert verdict("no_cache", cache="none") is None
    for name in ("sampling", "prompt_lookup"):
        assert "greedy" in str(verdict(name))
        assert verdict(name, decoding=name) is None


def test_compiling_is_proven_by_a_graph() -> None:
    for name in ("compile", "compile_max_autotune"):
        assert "nothing was compiled" in str(verdict(name))
        assert "nothing was compiled" in str(verdict(name, compile=CompileCensus(0, 0, 0)))
        assert verdict(name, compile=CompileCensus(1, 0, 0)) is None


def test_what_a_compiler_lacks_is_said_in_words() -> None:
    explain = all_techniques()["compile"].explain
    found = explain("fatal error: Python.h: No such file or directory")
    assert found is not None
    assert "python3-dev" in found.remedy
    assert explain("something else") is None


def test_a_technique_is_its_file_and_nothing_else(tmp_path: Path) -> None:
    """Without one technique's file the others are listed and planned, and a stack that names it is refused."""
    import shutil
    import subprocess

    import optimizers

    for name in ("static_cache", "bf16", "prompt_lookup"):
        root = tmp_path / name
        shutil.copytree(
            Path(optimizers.__file__).parent, root / "optimizers", ignore=shutil.ignore_patterns("__pycache__")
        )
        (root / "optimizers" / "techniques" / f"{name}.py").unlink()
        code = (
            "from optimizers import planning\n"
            "from optimizers.errors import ChoiceError\n"
            "from optimizers.techniques import all_techniques\n"
            "import planning_records as make\n"
            f"assert {name!r} not in all_techniques()\n"
            "stacks = tuple(all_techniques())\n"
            "plan = planning.plan(make.choice(*stacks), make.machine(), make.checkpoint(), 10**11)\n"
            "assert len(plan.variants) > 5\n"
            "planning.ladder(stacks, lambda technique: True)\n"
            "try:\n"
            f"    planning.parse_stack({name!r})\n"
            "except ChoiceError as error:\n"
            "    print(error.reason)\n"
        )
        path = f"{root}:{Path(__file__).parent.parent}"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert f"no technique named '{name}'" in done.stdout
