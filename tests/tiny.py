"""Tiny random checkpoints, made on the spot: a Llama with tied embeddings and a GPT-2 whose layers are Conv1D.

They are seeded and small enough for a worker to load in an instant, and have real tokenizers (byte-level BPE trained on
the packaged text). Nothing here is a stand-in for quality figures: the weights are noise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from optimizers.schema import Checkpoint

CHAT_TEMPLATE = (
    "{% for message in messages %}<|user|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VOCABULARY = 384
CONTEXT = 256


@dataclass(frozen=True)
class Exported:
    """A cache with the traced graphs of the tiny GPT-2, and what was said while they were written."""

    cache: Path
    fp32: Path
    int8: Path
    stages: tuple[str, ...]


def make_tokenizer(folder: Path, *, chat: bool, pad: bool, vocabulary: int = VOCABULARY) -> None:
    """Save a byte-level BPE tokenizer of so many entries into `folder`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    text = (Path(__file__).parent.parent / "assets" / "human_text.txt").read_text()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|pad|>", "<|user|>", "<|assistant|>"]
    tokenizer.train_from_iterator(
        [text],
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>" if pad else None, model_max_length=CONTEXT
    )
    if chat:
        fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


def make_llama(
    folder: Path,
    *,
    hidden: int = 64,
    chat: bool = True,
    pad: bool = True,
    seed: int = 0,
    vocabulary: int = VOCABULARY,
) -> Path:
    """A Llama of 2 layers, `hidden` wide, 4 heads (2 for keys and values), tied embeddings, in float32. Its tokens are
    those of every tiny checkpoint with so large a vocabulary."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 2,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=1 if pad else None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    make_tokenizer(folder, chat=chat, pad=pad, vocabulary=vocabulary)
    return folder


def make_gpt2(folder: Path, *, seed: int = 0) -> Path:
    """A GPT-2 of 2 layers, 64 wide: Conv1D layers, no pad token, no chat template."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=CONTEXT,
        initializer_range=0.2,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for weight in (parameter for parameter in model.parameters() if parameter.dim() == 1):
            weight.add_(torch.randn_like(weight), alpha=0.1)  # biases that are all zero would prove nothing
    model.save_pretrained(folder)
    make_tokenizer(folder, chat=False, pad=False)
    return folder


def edit_config(folder: Path, **changes: object) -> None:
    """Change entries of a checkpoint's config.json; None removes one."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for name, value in changes.items():
        if value is None:
            config.pop(name, None)
        else:
            config[name] = value
    path.write_text(json.dumps(config))


def facts(folder: Path) -> Checkpoint:
    """What the worker needs to know of a tiny checkpoint, from its config."""
    config = json.loads((folder / "config.json").read_text())
    return Checkpoint(
        id=folder.name,
        source="folder",
        folder=str(folder),
        revision="test",
        architecture=config["architectures"][0],
        model_type=config["model_type"],
        task="text_generation",
        parameters=0,
        linear_parameters=0,
        disk_bytes=sum(path.stat().st_size for path in folder.glob("*.safetensors")),
        stored_dtype="float32",
        context_length=config.get("max_position_embeddings") or config["n_positions"],
        vocab_size=config["vocab_size"],
        hidden_size=config.get("hidden_size") or config["n_embd"],
        layers=2,
        tied_embeddings=True,
        has_chat_template=False,
        has_pad_token=False,
        quantization=config.get("quantization_config", {}).get("quant_method"),
    )
