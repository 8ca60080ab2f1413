"""`python onnx_architectures.py FOLDER`: a graph of a small random model of each architecture that Levers knows, held
against PyTorch. Prints the three mean KL divergences of each as one JSON object. Run by test_onnx_architectures.py, in
a process of its own: the builder is made to be run once, as a program."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import tiny
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from optimizers.techniques.graphs import decoder, export, gate

_SIZES = {
    "vocab_size": tiny.VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": tiny.CONTEXT,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 1,
}
_WINDOWED = {"head_dim": 16, "sliding_window": 16, "query_pre_attn_scalar": 16}
MODELS = {
    "Ernie4_5ForCausalLM": ("ernie4_5", {"head_dim": 16}),
    "Gemma2ForCausalLM": ("gemma2", _WINDOWED),
    "GemmaForCausalLM": ("gemma", {"head_dim": 16}),
    "GraniteForCausalLM": ("granite", {}),
    "HunYuanDenseV1ForCausalLM": ("hunyuan_v1_dense", {"head_dim": 16}),
    "LlamaForCausalLM": ("llama", {}),
    "MistralForCausalLM": ("mistral", {"sliding_window": None}),
    "Phi3ForCausalLM": ("phi3", {"original_max_position_embeddings": tiny.CONTEXT}),
    "Qwen2ForCausalLM": ("qwen2", {}),
    "Qwen3ForCausalLM": ("qwen3", {"head_dim": 16}),
    "SmolLM3ForCausalLM": ("smollm3", {}),
}


def measured(folder: Path, model_type: str, sizes: dict[str, object]) -> gate.Agreement:
    """A graph of a model of that type with wide random weights, and how far it is from PyTorch."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **{**_SIZES, **sizes}))
    with torch.no_grad():
        for weight in (parameter for parameter in model.parameters() if parameter.dim() == 2):
            weight.normal_(0, 0.2)
    model.save_pretrained(folder)
    tiny.make_tokenizer(folder, chat=True, pad=True)
    goal = folder / "graph"
    goal.mkdir()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        export.make("builder", str(folder), goal, "fp32", [])
    return gate.measure(decoder.load_model(goal, str(folder), 1, 32, 0.0), goal)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = Path(sys.argv[1])
    found = {name: dataclasses.asdict(measured(root / name, *said)) for name, said in MODELS.items()}
    sys.stdout.write(json.dumps(found))
