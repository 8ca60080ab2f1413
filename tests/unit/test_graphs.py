"""Written graphs on disk and the reasons for having none: no library is loaded and nothing is exported here."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import planning_records
import pytest

from optimizers.errors import WorkerError
from optimizers.planning import plan
from optimizers.planning.stacks import completed, key_of, parse_stack
from optimizers.schema import Checkpoint, Choice, Machine, Workload
from optimizers.techniques import all_techniques
from optimizers.techniques.graphs import export, store
from optimizers.techniques.graphs.recipes import Recipe

GRAPHS = ("onnxruntime", "onnxruntime_int8", "onnxruntime_int4")
INT4 = Recipe("int4")


def machine() -> Machine:
    found = planning_records.machine()
    return dataclasses.replace(
        found, packages={"onnxruntime": "1.32.0", "onnxruntime-genai": "0.18.0", "onnxscript": "0.7.2"}
    )


def checkpoint(**changes: object) -> Checkpoint:
    return dataclasses.replace(planning_records.checkpoint(), **{"architecture": "LlamaForCausalLM", **changes})


def gpt2() -> Checkpoint:
    """Of an architecture that the builder does not know."""
    return checkpoint(architecture="GPT2LMHeadModel", model_type="gpt2")


def write_graph(goal: Path) -> None:
    (goal / "model.onnx").write_bytes(b"graph")
    (goal / "model.onnx.data").write_bytes(b"weights")


def silent(text: str) -> None:
    """A stage that nobody reads."""


def test_a_graph_is_made_once_and_found_again(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(goal: Path) -> None:
        made.append(goal)
        write_graph(goal)

    first = store.find_or_make(tmp_path, checkpoint(), INT4, make, silent)
    assert store.find_or_make(tmp_path, checkpoint(), INT4, make, silent) == first
    assert len(made) == 1
    assert not made[0].exists()
    assert store.disk_bytes(first) == len(b"graph") + len(b"weights")


@pytest.mark.parametrize("harm", ["cut short", "no marker", "nonsense in the marker", "marker of no graph"])
def test_a_folder_that_is_not_whole_is_not_believed(harm: str, tmp_path: Path) -> None:
    folder = store.find_or_make(tmp_path, checkpoint(), INT4, write_graph, silent)
    if harm == "cut short":
        (folder / "model.onnx.data").write_bytes(b"w")
    elif harm == "no marker":
        (folder / store.MARKER).unlink()
    elif harm == "nonsense in the marker":
        (folder / store.MARKER).write_text("[1")
    else:
        (folder / store.MARKER).write_text(json.dumps({"format": 3, "files": {}}))
    assert not store.is_whole(folder)
    assert store.is_whole(store.find_or_make(tmp_path, checkpoint(), INT4, write_graph, silent))


def test_what_a_dead_process_began_is_removed_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    left = tmp_path / f".{store.key(checkpoint(), INT4)}.making-dead"
    left.mkdir(parents=True)

    def fail(goal: Path) -> None:
        write_graph(goal)
        raise WorkerError("It was stopped.", "Start again.")

    with pytest.raises(WorkerError, match="It was stopped"):
        store.find_or_make(tmp_path, checkpoint(), INT4, fail, silent)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_the_key_changes_with_everything_that_the_graph_is_made_from() -> None:
    keys = {
        store.key(checkpoint(), INT4),
        store.key(checkpoint(), Recipe("int8")),
        store.key(checkpoint(), Recipe("int4", ("block_size=64",))),
        store.key(checkpoint(revision="another"), INT4),
        store.key(checkpoint(id="some/other model"), INT4),
    }
    assert len(keys) == 5
    assert all("/" not in key and " " not in key for key in keys)


def test_progress_counts_layers_from_one() -> None:
    assert export.progress("Reading layer 0", 30) == "writing the ONNX graph: layer 1 of 30"
    assert export.progress("Reading layer 29", 30) == "writing the ONNX graph: layer 30 of 30"
    assert export.progress("Reading layer x", 30) is None
    assert export.progress("a line of another library", 30) is None


def test_progress_of_the_exporter_counts_its_steps() -> None:
    lines = ("Tracing", "[torch.onnx] Run decompositions...", "[torch.onnx] Optimize the ONNX graph...", "Saving")
    said = [export.progress(line, 2) or "" for line in lines]
    assert ["step 1 of 4" in said[0], "step 2 of 4" in said[1], "step 4 of 4" in said[2]] == [True] * 3
    assert said[3] == "saving the ONNX graph"


def test_a_child_that_takes_too_long_is_ended_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "EXPORT_TIMEOUT_S", 0.01)
    with pytest.raises(WorkerError, match="not done after 0 seconds"):
        export.write(str(tmp_path), tmp_path, Recipe("fp32", (), "exporter"), 2, silent)


@pytest.mark.parametrize("name", GRAPHS)
def test_an_architecture_that_the_builder_does_not_know_is_exported_and_takes_minutes(name: str) -> None:
    technique = all_techniques()[name]
    assert technique.why_not(machine(), gpt2()) is None
    warning = technique.warn(machine(), gpt2())
    assert warning is not None
    assert "GPT2LMHeadModel" in warning
    assert "minutes" in warning
    assert "minutes" not in (technique.warn(machine(), checkpoint()) or "")
    assert technique.effort.once_s(gpt2()) > 30
    assert technique.effort.once_s(checkpoint()) == 0
    without = technique.why_not(dataclasses.replace(machine(), packages={"onnxruntime": "1.32.0"}), gpt2())
    assert without is not None
    assert without.remedy == "Install it: pip install onnxscript"


@pytest.mark.parametrize("kind", ["mamba2", "RWKV", "recurrent_gemma", "minimax"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_model_with_a_state_of_its_own_is_refused_before_the_run(name: str, kind: str) -> None:
    obstacle = all_techniques()[name].why_not(machine(), checkpoint(architecture="OtherForCausalLM", model_type=kind))
    assert obstacle is not None
    assert kind in obstacle.reason
    assert "state of its own kind" in obstacle.reason
    assert all_techniques()[name].why_not(machine(), checkpoint(model_type="minimax_m2")) is None


def test_a_recipe_takes_the_road_of_the_checkpoint_and_its_key_says_so() -> None:
    recipe = Recipe("int4", ("block_size=64",))
    assert recipe.for_checkpoint(checkpoint()) == recipe
    traced = recipe.for_checkpoint(gpt2())
    assert traced == Recipe("int4", (), "exporter")
    pytest.importorskip("onnxscript")
    assert store.key(checkpoint(), traced) != store.key(checkpoint(), INT4)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_missing_package_and_a_quantized_checkpoint_are_in_the_way(name: str) -> None:
    technique = all_techniques()[name]
    without = technique.why_not(dataclasses.replace(machine(), packages={"onnxruntime": "1.32.0"}), None)
    assert without is not None
    assert without.remedy == "Install it: pip install onnxruntime-genai"
    quantized = technique.why_not(machine(), checkpoint(quantization="gptq"))
    assert quantized is not None
    assert "gptq" in quantized.reason


def test_a_graph_takes_the_place_of_attention_weights_compiling_and_cache() -> None:
    own = parse_stack("fp32+sdpa")
    assert key_of(completed(parse_stack("onnxruntime_int4"), own)) == "fp32+onnxruntime_int4"


@pytest.mark.parametrize("half", ["bf16", "fp16"])
def test_half_precision_and_a_graph_are_refused_together(half: str) -> None:
    choice = Choice("model", (f"{half}+onnxruntime", "onnxruntime"), Workload(("Hello.",)))
    made = plan(choice, machine(), checkpoint(), 64 << 30)
    assert [variant.key for variant in made.variants] == ["fp32+sdpa", "fp32+onnxruntime"]
    (refused,) = made.skipped
    assert f"no {half} kernels" in refused.obstacle.reason
    assert "fp32+onnxruntime" in refused.obstacle.reason
