"""`python -m optimizers.checkpoints.convert GGUF FOLDER`: write a GGUF file as a bfloat16 safetensors checkpoint.

Runs in a child process, because it is the one thing among checkpoints that needs torch. The folder is written in place
and is worth something only when this exits with 0: whoever started it moves it to its goal (`packaged.py`). The result
is read back and must give the very logits of the GGUF file, and its tied embeddings must still be one tensor.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

_STORED = "bfloat16"


def convert(source: Path, goal: Path) -> None:
    """Write the model and tokenizer of the GGUF file `source` to the folder `goal`, which must not exist.

    Raises RuntimeError when what was written does not give the logits of what was read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": source.parent, "gguf_file": source.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    loaded = AutoModelForCausalLM.from_pretrained(**where, dtype=getattr(torch, _STORED)).eval()
    _repair_tokenizer(tokenizer, source, loaded.config.max_position_embeddings)
    _plain_model(loaded, tokenizer).save_pretrained(goal)
    tokenizer.save_pretrained(goal)
    again = AutoModelForCausalLM.from_pretrained(goal, dtype=getattr(torch, _STORED)).eval()
    _check_same(loaded, again, tokenizer)


def _repair_tokenizer(tokenizer: Any, source: Path, context: int) -> None:
    """Split text before its digits as the file says; transformers reads the merges from GGUF but not this.

    Without it a blank line before a number becomes other tokens than the model was trained on. The rule for "smollm" is
    that of llama.cpp (LLAMA_VOCAB_PRE_TYPE_SMOLLM): each digit alone, then GPT-2's splitting."""
    from gguf import GGUFReader
    from tokenizers import pre_tokenizers

    field = GGUFReader(source).fields.get("tokenizer.ggml.pre")
    if field is not None and field.contents() == "smollm":
        steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.model_max_length = context


def _plain_model(loaded: Any, tokenizer: Any) -> Any:
    """The same weights under a configuration that no longer says GGUF: with it, save_pretrained refuses."""
    from transformers import AutoModelForCausalLM, GenerationConfig

    said = loaded.config.to_dict()
    for name in ("quantization_config", "_model_name_or_path", "_name_or_path"):
        said.pop(name, None)
    ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    config = type(loaded.config)(**{**said, **ids})
    plain = AutoModelForCausalLM.from_config(config, dtype=loaded.dtype)
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = GenerationConfig(**ids)
    return plain.eval()


def _check_same(loaded: Any, again: Any, tokenizer: Any) -> None:
    import torch

    ids = tokenizer("The same text must give the same numbers.", return_tensors="pt").input_ids
    with torch.inference_mode():
        before, after = loaded(ids).logits, again(ids).logits
    if not torch.equal(before, after):
        raise RuntimeError("the converted checkpoint does not give the logits of the file it was made from")
    tied = again.get_input_embeddings().weight is again.get_output_embeddings().weight
    if tied != bool(loaded.config.tie_word_embeddings):
        raise RuntimeError("the converted checkpoint does not tie its embeddings as the file does")


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
