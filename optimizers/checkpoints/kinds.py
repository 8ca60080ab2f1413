"""What kind of model a config.json describes, and whether Levers loads that kind: causal language models only.

The classes of each model type are read from the source text of the installed transformers, whose import would bring
torch. A checkpoint that names program code (auto_map) is taken when every class it names is transformers' own for its
model type: then transformers' own code runs, never the checkpoint's. Any other is refused.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

from optimizers.errors import CheckpointBroken, CheckpointRefused

_CAUSAL_ENDINGS = ("ForCausalLM", "LMHeadModel")
# The classes that loading asks for, and where transformers lists its own: the files to look in, and the table's name.
_OWN_CLASSES = {
    "AutoConfig": (("auto_mappings.py", "configuration_auto.py"), "CONFIG_MAPPING_NAMES"),
    "AutoModel": (("modeling_auto.py",), "MODEL_MAPPING_NAMES"),
    "AutoModelForCausalLM": (("modeling_auto.py",), "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    "AutoTokenizer": ((), ""),
}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
_CONV1D = frozenset({"gpt2", "openai-gpt"})
_OTHER = "Pick a causal language model: one whose config.json names a class that ends in ForCausalLM."


def read_config(folder: Path) -> dict[str, Any]:
    """The object in config.json. Raises CheckpointBroken when it is missing or is not an object."""
    path = folder / "config.json"
    if not path.is_file():
        raise CheckpointBroken(
            f"{folder} has no config.json, so it is not a checkpoint.",
            "Name the folder that holds config.json, the weights (model.safetensors) and the tokenizer.",
        )
    config = read_object(path)
    if config is None:
        raise CheckpointBroken(f"{path} is not a JSON object.", "Download or copy the checkpoint again.")
    return config


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, None when there is no such file or it holds anything else."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def text_part(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config that describes the language model: `text_config` where a model has several parts."""
    part = config.get("text_config")
    return part if isinstance(part, dict) else config


def refuse_config(config: dict[str, Any], name: str) -> None:
    """Raise CheckpointRefused unless the config of the checkpoint called `name` is of a kind that Levers loads."""
    _refuse_code(config, name, "config.json", model_type(config))
    _refuse_other_tasks(config, name)


def refuse_unfit(config: dict[str, Any], folder: Path) -> None:
    """Raise CheckpointRefused unless the config and the small files beside it are of a kind that Levers loads."""
    refuse_config(config, folder.name)
    tokenizer = read_object(folder / "tokenizer_config.json") or {}
    _refuse_code(tokenizer, folder.name, "tokenizer_config.json", model_type(config))
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise CheckpointRefused(
            f"{folder} has no tokenizer files, so text cannot be turned into tokens.",
            "Put the model's tokenizer.json and tokenizer_config.json beside its config.json.",
        )


def architecture(config: dict[str, Any]) -> str:
    """The class that the checkpoint was saved from, or the one that transformers uses for its model type, or ""."""
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return causal_classes().get(model_type(config), ("",))[0]


def model_type(config: dict[str, Any]) -> str:
    found = config.get("model_type")
    return found if isinstance(found, str) else ""


def layer_kinds(config: dict[str, Any], head_apart: bool) -> tuple[str, ...]:
    """The kinds of modules that hold the matrices: GPT-2 and its ancestor keep theirs in Conv1D, transposed."""
    if model_type(config) not in _CONV1D:
        return ("Linear",)
    return ("Conv1D", "Linear") if head_apart else ("Conv1D",)


def own_code(name: str, how: str) -> CheckpointRefused:
    """The refusal of a checkpoint that brings program code; `how` is where that shows."""
    return CheckpointRefused(
        f"{name} brings program code of its own ({how}), and Levers runs no code from a checkpoint.",
        "Pick a model whose class is part of transformers.",
    )


def causal_classes() -> dict[str, tuple[str, ...]]:
    """Model type to the names of transformers' causal language models; empty where transformers is not found."""
    return _own_classes("AutoModelForCausalLM")


@functools.cache
def _own_classes(auto_class: str) -> dict[str, tuple[str, ...]]:
    """Model type to the names of transformers' own classes behind one of its Auto classes; empty where not found."""
    files, table = _OWN_CLASSES[auto_class]
    spec = importlib.util.find_spec("transformers")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for name in files:
            path = Path(place) / "models" / "auto" / name
            if path.is_file() and (found := _mapping_in(path.read_text("utf-8"), table)):
                return found
    return {}


def _mapping_in(source: str, table: str) -> dict[str, tuple[str, ...]]:
    start = source.find(f"\n{table} = OrderedDict(\n")
    end = source.find("\n)\n", start)
    if start < 0 or end < 0:
        return {}
    call = ast.parse(source[start + 1 : end + 2]).body[0]
    assert isinstance(call, ast.Assign) and isinstance(call.value, ast.Call)
    pairs = ast.literal_eval(call.value.args[0])
    return {kind: (names,) if isinstance(names, str) else tuple(names) for kind, names in pairs}


def _refuse_code(said: dict[str, Any], name: str, where: str, kind: str) -> None:
    """Raise CheckpointRefused when the auto_map of a file names a class that is not transformers' own for this kind."""
    wanted = said.get("auto_map")
    wanted = wanted if isinstance(wanted, dict) else {}
    for auto_class in _OWN_CLASSES:
        # "modeling_x.XForCausalLM", or with a repository before it: "owner/name--modeling_x.XForCausalLM"
        named = str(wanted.get(auto_class, "")).rsplit(".", 1)[-1]
        if auto_class in wanted and named not in _own_classes(auto_class).get(kind, ()):
            raise own_code(name, f"{where} has an auto_map that wants trust_remote_code")


def _refuse_other_tasks(config: dict[str, Any], name: str) -> None:
    found, kind, known = architecture(config), model_type(config), causal_classes()
    causal = found.endswith(_CAUSAL_ENDINGS) or found in known.get(kind, ())
    if not causal or config.get("is_encoder_decoder") is True:
        what = found or kind or "a model whose config.json names neither its class nor its type"
        raise CheckpointRefused(f"{name} is not a causal language model: it is {what}.", _OTHER)
    if known and kind not in known:
        raise CheckpointRefused(
            f"The installed transformers does not know the model type {kind!r} of {name}.",
            "Upgrade transformers within the range of requirements.txt, or pick another model.",
        )
