"""Local folders through the one door: the facts of good ones, and a sentence with a remedy for every bad one."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import tiny

from optimizers import checkpoints
from optimizers.checkpoints import headers, kinds
from optimizers.errors import CheckpointBroken, CheckpointError, CheckpointNotFound, CheckpointRefused

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tiny_llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_llama, tmp_path / "copy"))


def refusal(folder: Path, kind: type[CheckpointError], *parts: str) -> None:
    """Assert that the folder is refused as `kind`, naming every part, with a remedy, in a sentence."""
    with pytest.raises(kind) as caught:
        checkpoints.resolve(str(folder))
    assert type(caught.value) is kind
    for part in parts:
        assert part in caught.value.reason
    assert caught.value.reason.endswith(".")
    assert caught.value.remedy.endswith(".")


def test_the_facts_of_a_llama(tiny_llama: Path) -> None:
    found = checkpoints.resolve(str(tiny_llama))
    # By hand: 384 x 64 embeddings; per layer q, o 64x64, k, v 32x64, three of 128x64, two norms of 64; a last norm.
    linear = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64)
    assert found.linear_parameters == linear
    assert found.parameters == 384 * 64 + linear + 2 * 2 * 64 + 64
    assert found.disk_bytes == (tiny_llama / WEIGHTS).stat().st_size
    assert (found.architecture, found.model_type, found.task) == ("LlamaForCausalLM", "llama", "text_generation")
    assert (found.context_length, found.vocab_size, found.hidden_size, found.layers) == (256, 384, 64, 2)
    assert (found.stored_dtype, found.source, found.quantization) == ("float32", "folder", None)
    assert (found.tied_embeddings, found.has_chat_template, found.has_pad_token) == (True, True, True)
    assert found.layer_kinds == ("Linear",)
    assert found.low_bit_grid is None
    assert found.id == str(tiny_llama) == found.folder


def test_the_facts_of_a_gpt2(tiny_gpt2: Path) -> None:
    found = checkpoints.resolve(str(tiny_gpt2))
    # Per layer: 64x192, 64x64, 64x256, 256x64, all Conv1D.
    assert found.linear_parameters == 2 * (64 * 192 + 64 * 64 + 2 * 64 * 256)
    assert found.layer_kinds == ("Conv1D",)
    assert (found.tied_embeddings, found.has_chat_template, found.has_pad_token) == (True, False, False)
    assert (found.context_length, found.hidden_size, found.layers) == (256, 64, 2)


def test_the_revision_of_a_folder_follows_its_contents(folder: Path, tiny_llama: Path, tmp_path: Path) -> None:
    before = checkpoints.resolve(str(folder)).revision
    assert before == checkpoints.resolve(str(tiny_llama)).revision
    other = tiny.make_llama(tmp_path / "other", seed=1)
    assert checkpoints.resolve(str(other)).revision != before
    tiny.edit_config(folder, rope_theta=5.0)
    assert checkpoints.resolve(str(folder)).revision != before


def test_a_relative_folder_and_a_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    for name in ("./copy", "copy", "~/copy", "../" + folder.parent.name + "/copy"):
        assert Path(checkpoints.resolve(name).folder).samefile(folder)
        assert checkpoints.resolve(name).id == name


def test_a_folder_without_config(folder: Path) -> None:
    (folder / "config.json").unlink()
    refusal(folder, CheckpointBroken, "config.json", str(folder))


@pytest.mark.parametrize("text", ["{", "[]", "null", '"x"', "", "\xff\xfe", "[" * 100_000])
def test_a_config_that_is_no_object(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text, encoding="latin-1")
    refusal(folder, CheckpointBroken, "config.json", "not a JSON object")


@pytest.mark.parametrize("value", ["many", -1, 0, 2.5, True, [1]])
def test_a_config_with_a_senseless_number(folder: Path, value: object) -> None:
    tiny.edit_config(folder, max_position_embeddings=value)
    refusal(folder, CheckpointBroken, "max_position_embeddings")


def test_a_short_weight_file(folder: Path) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[:-1000])
    refusal(folder, CheckpointBroken, WEIGHTS, f"{len(whole):,}", f"{len(whole) - 1000:,}", "cut short")


@pytest.mark.parametrize("kept", [0, 3, 8, 100])
def test_a_weight_file_cut_in_its_header(folder: Path, kept: int) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:kept])
    refusal(folder, CheckpointBroken, WEIGHTS)


def test_a_weight_file_with_something_behind_it(folder: Path) -> None:
    with (folder / WEIGHTS).open("ab") as file:
        file.write(b"more")
    refusal(folder, CheckpointBroken, WEIGHTS, "bytes where its header says")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 12]},
        {"dtype": "F32", "shape": [2, -2], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]},
        {"dtype": "F99", "shape": [4], "data_offsets": [0, 16]},
        {"dtype": ["F32"], "shape": [4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": 4, "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": ["4"], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": [0]},
        {"dtype": "F32"},
        [],
        None,
        "x",
    ],
)
def test_a_header_entry_that_is_wrong(folder: Path, entry: object) -> None:
    text = json.dumps({"model.wrong": entry}).encode()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
    refusal(folder, CheckpointBroken, WEIGHTS, "model.wrong")


@pytest.mark.parametrize("text", [b"{}", b"[]", b"not json", b"\xff" * 20])
def test_a_header_that_is_no_table(folder: Path, text: bytes) -> None:
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text)
    refusal(folder, CheckpointBroken)


def shard(folder: Path) -> None:
    """Store the one weight file as a sharded checkpoint of two files."""
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / WEIGHTS)
    spread = {name: f"model-0000{1 + place % 2}-of-00002.safetensors" for place, name in enumerate(tensors)}
    for shard_name in sorted(set(spread.values())):
        save_file({name: tensors[name] for name in tensors if spread[name] == shard_name}, folder / shard_name)
    (folder / WEIGHTS).unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": spread}))


def test_a_sharded_checkpoint_and_a_missing_shard(folder: Path, tiny_llama: Path) -> None:
    shard(folder)
    whole, found = checkpoints.resolve(str(tiny_llama)), checkpoints.resolve(str(folder))
    assert (found.parameters, found.linear_parameters) == (whole.parameters, whole.linear_parameters)
    shards = sorted(folder.glob("model-*.safetensors"))
    assert found.disk_bytes == sum(path.stat().st_size for path in shards)
    shards[1].unlink()
    refusal(folder, CheckpointBroken, "model-00002-of-00002.safetensors", "missing")


@pytest.mark.parametrize(
    "index", ["{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": 1}}']
)
def test_an_index_that_is_wrong(folder: Path, index: str) -> None:
    (folder / WEIGHTS).unlink()
    (folder / "model.safetensors.index.json").write_text(index)
    refusal(folder, CheckpointBroken, "model.safetensors.index.json")


@pytest.mark.parametrize("name", ["../copy/secret.safetensors", "/etc/passwd", "a\0b", "..", ""])
def test_an_index_that_points_elsewhere(folder: Path, name: str) -> None:
    (folder / WEIGHTS).rename(folder / "secret.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    refusal(folder, CheckpointBroken, "plain names")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth", "tf_model.h5"])
def test_only_pickled_weights(folder: Path, name: str) -> None:
    (folder / WEIGHTS).rename(folder / name)
    refusal(folder, CheckpointRefused, name, "pickled", "run a program")


def test_no_weights_at_all(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    refusal(folder, CheckpointBroken, WEIGHTS)


def test_code_of_its_own(folder: Path) -> None:
    tiny.edit_config(folder, auto_map={"AutoModelForCausalLM": "modeling_x.XForCausalLM"})
    refusal(folder, CheckpointRefused, "trust_remote_code", "config.json")


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        ({"AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM", "AutoConfig": "c.LlamaConfig"}, True),
        ({"AutoModelForCausalLM": "owner/name--modeling_llama.LlamaForCausalLM", "AutoModel": "m.LlamaModel"}, True),
        ({"AutoModelForSequenceClassification": "modeling_x.Own"}, True),
        ({"AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM", "AutoConfig": "c.OwnConfig"}, False),
        ({"AutoModelForCausalLM": "modeling_gpt2.GPT2LMHeadModel"}, False),
        ({"AutoModelForCausalLM": "LlamaForCausalLM.py.Evil"}, False),
        ({"AutoModelForCausalLM": None}, False),
        ({"AutoModelForCausalLM": ["modeling_llama.LlamaForCausalLM"]}, False),
    ],
)
def test_code_that_transformers_has_as_well(folder: Path, named: dict[str, object], taken: bool) -> None:
    tiny.edit_config(folder, auto_map=named)
    if taken:
        assert checkpoints.resolve(str(folder)).model_type == "llama"
    else:
        refusal(folder, CheckpointRefused, "trust_remote_code", "config.json")


def test_code_for_a_type_that_transformers_does_not_know(folder: Path) -> None:
    tiny.edit_config(folder, model_type="own", auto_map={"AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM"})
    refusal(folder, CheckpointRefused, "trust_remote_code")


def test_the_classes_of_each_type_are_those_of_transformers() -> None:
    from transformers.models.auto import configuration_auto, modeling_auto

    configs = {kind: (name,) for kind, name in configuration_auto.CONFIG_MAPPING_NAMES.items()}
    assert kinds._own_classes("AutoConfig").items() <= configs.items()
    assert kinds._own_classes("AutoConfig")["phi3"] == ("Phi3Config",)
    assert kinds._own_classes("AutoModel").keys() == modeling_auto.MODEL_MAPPING_NAMES.keys()
    assert kinds._own_classes("AutoTokenizer") == {}


def test_a_tokenizer_with_code_of_its_own(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "auto_map": {"AutoTokenizer": ["tokenization_x.X", None]}}))
    refusal(folder, CheckpointRefused, "trust_remote_code", "tokenizer_config.json")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["BertForSequenceClassification"], "model_type": "bert"}, "BertForSequenceClassification"),
        ({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"}, "T5ForConditionalGeneration"),
        ({"architectures": ["T5WithLMHeadModel"], "model_type": "t5", "is_encoder_decoder": True}, "T5WithLMHeadModel"),
        ({"architectures": ["LlamaModel"]}, "LlamaModel"),
        ({"architectures": None, "model_type": "vit"}, "vit"),
        ({"architectures": None, "model_type": None}, "neither"),
        ({"architectures": [], "model_type": 7}, "neither"),
        ({"architectures": "x", "model_type": "clip"}, "clip"),
    ],
)
def test_not_a_causal_model(folder: Path, changes: dict[str, Any], named: str) -> None:
    tiny.edit_config(folder, **changes)
    refusal(folder, CheckpointRefused, "not a causal language model", named)


def test_without_architectures_the_model_type_decides(folder: Path) -> None:
    tiny.edit_config(folder, architectures=None)
    assert checkpoints.resolve(str(folder)).architecture == "LlamaForCausalLM"


def test_a_model_type_from_the_future(folder: Path) -> None:
    tiny.edit_config(folder, architectures=["NovaForCausalLM"], model_type="nova9")
    refusal(folder, CheckpointRefused, "nova9", "does not know")


def test_the_causal_classes_are_those_of_transformers() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as MAPPING

    expected = {kind: (names,) if isinstance(names, str) else tuple(names) for kind, names in MAPPING.items()}
    assert kinds.causal_classes() == expected


def test_no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    refusal(folder, CheckpointRefused, "tokenizer")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    refusal(tmp_path / "absent", CheckpointNotFound, "absent")


def test_a_file_in_place_of_a_folder(folder: Path) -> None:
    refusal(folder / "config.json", CheckpointNotFound, "is a file")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "   ",
        "a\0b",
        "x" * 5000,
        "x" * 300,
        "./" + "y" * 3000,
        "a/b/c",
        "~no-such-user/x",
        "a\nb",
        "bad--name",
        "ü",
        "-",
    ],
)
def test_names_that_mean_nothing(name: str) -> None:
    with pytest.raises(CheckpointNotFound) as caught:
        checkpoints.resolve(name)
    assert len(caught.value.reason) < 400
    assert "\0" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["{folder}", "./copy", "../x", "~/copy", "~", ".", "C:\\models"])
def test_folders_are_refused_where_they_are_not_allowed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(folder.parent)
    with pytest.raises(CheckpointRefused, match="does not open folders"):
        checkpoints.resolve(name.format(folder=folder), folders=False)


def test_headers_agree_with_the_library(tiny_gpt2: Path) -> None:
    from safetensors import safe_open

    with safe_open(tiny_gpt2 / WEIGHTS, "np") as file:
        expected = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    assert {tensor.name: tensor.shape for tensor in headers.read_headers(tiny_gpt2)} == expected
