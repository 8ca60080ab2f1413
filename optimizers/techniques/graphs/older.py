"""Checkpoints that transformers 5 wrote, for transformers 4 to read without a silent mistake.

Transformers 5 keeps rotary embeddings under `rope_parameters`, which 4 passes over, computing with its default angles;
it names tokenizer classes and lists special tokens in ways that 4 does not know. Covers config.json and tokenizers;
what is left is caught by the gate, which compares with transformers 5's own figures. Runs in either environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimizers.errors import WorkerError

_CONFIG = "config.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"


def config(said: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json as transformers 4 reads it. Raises WorkerError for rotary embeddings that differ between layers."""
    rope = said.get("rope_parameters")
    known = {name: value for name, value in said.items() if name != "rope_parameters"}
    if not isinstance(rope, dict):
        return known
    if any(isinstance(value, dict) for value in rope.values()):
        raise WorkerError(
            "This model's layers differ in their rotary embeddings, which the engine's older transformers cannot read.",
            "Leave this variant out for this model, or use onnxruntime.",
        )
    kind = rope.get("rope_type", "default")
    apart = ("rope_theta", "rope_type", "partial_rotary_factor")
    known |= {name: rope[name] for name in ("rope_theta", "partial_rotary_factor") if name in rope}
    scaling = {name: value for name, value in rope.items() if name not in apart}
    return known | {"rope_scaling": None if kind == "default" else {"rope_type": kind, **scaling}}


def view(folder: Path, goal: Path) -> None:
    """Fill the empty folder `goal` with links to the checkpoint's files and a config.json for transformers 4."""
    for path in folder.iterdir():
        if path.is_file() and path.name != _CONFIG:
            (goal / path.name).symlink_to(path.absolute())
    said = json.loads((folder / _CONFIG).read_text("utf-8"))
    (goal / _CONFIG).write_text(json.dumps(config(said)), "utf-8")


def tokenizer(folder: Path) -> Any:
    """The checkpoint's tokenizer, in the transformers that is installed. Never fetches, never runs foreign code."""
    import transformers

    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    path = folder / _TOKENIZER_CONFIG
    said = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    named = said.get("tokenizer_class")
    if int(transformers.__version__.split(".")[0]) >= 5 or not (folder / "tokenizer.json").is_file():
        return transformers.AutoTokenizer.from_pretrained(folder, **where)
    if isinstance(said.get("extra_special_tokens"), list):
        # a list in 5; in 4 this is a table of names, and the list has another name
        where |= {"extra_special_tokens": {}, "additional_special_tokens": said["extra_special_tokens"]}
    auto = not isinstance(named, str) or hasattr(transformers, named)
    kind = transformers.AutoTokenizer if auto else transformers.PreTrainedTokenizerFast
    return kind.from_pretrained(folder, **where)
