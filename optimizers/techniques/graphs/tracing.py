"""A graph from transformers' exporter, written in the child process of export.py: the model is traced by torch.export
and translated, for architectures that onnxruntime-genai's builder does not know.

One graph serves the prompt and every later step: new tokens and past keys and values of any number, none included. Its
inputs and outputs get the names that the builder's graphs have. Covers models whose cache is keys and values and
nothing else; what keeps a state of another kind is refused in a sentence. Quantizing is quantizing.py's.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from optimizers.errors import WorkerError
from optimizers.techniques.graphs.names import GRAPH, PAST, POSITIONS, PRESENT

_BATCH, _PAST_TOKENS, _NEW_TOKENS = 2, 5, 3
_LEAF = re.compile(r"(input|output)\.cache\.layers\.(\d+)\.(key|value)s")
_KNOWN = frozenset({"input_ids", "attention_mask", "position_ids", POSITIONS})


def make(folder: str, goal: Path) -> None:
    """Trace the checkpoint in `folder` in fp32 and write its graph into `goal`. Raises WorkerError for a model that the
    graph could not carry, and whatever the exporter raises for code that it cannot trace."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.exporters import OnnxConfig, OnnxExporter

    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **where).eval()
    inputs, shapes = sample(model)
    sys.stdout.write("Tracing\n")
    with torch.no_grad():
        exported = OnnxExporter().export(model, inputs, OnnxConfig(dynamic=True, dynamic_shapes=shapes))
    program = exported.program
    rename(program.graph)
    sys.stdout.write("Saving\n")
    OnnxExporter.save_program(program, goal / GRAPH)


def sample(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs to trace with, several of everything so that no number is taken for a constant, and which of their
    dimensions vary."""
    import torch

    parameters = inspect.signature(model.forward).parameters
    total = _PAST_TOKENS + _NEW_TOKENS
    ids = torch.arange(_BATCH * total).remainder(model.config.get_text_config().vocab_size).view(_BATCH, total)
    varies = torch.export.Dim.DYNAMIC
    cache = keys_and_values(model, ids[:, :_PAST_TOKENS])
    inputs = {
        "input_ids": ids[:, _PAST_TOKENS:].contiguous(),
        "attention_mask": torch.ones_like(ids),
        "position_ids": torch.arange(_PAST_TOKENS, total).repeat(_BATCH, 1),
        "logits_to_keep": torch.arange(1, _NEW_TOKENS),
        "cache": cache,
    }
    shapes = {
        "input_ids": {0: varies, 1: varies},
        # how long the mask is follows from the others, which the tracer finds out
        "attention_mask": {0: varies, 1: torch.export.Dim.AUTO},
        "position_ids": {0: varies, 1: varies},
        "logits_to_keep": {0: varies},
        "cache": [{0: varies, 2: varies} for _ in range(2 * len(cache.layers))],
    }
    taken = [name for name in inputs if name in parameters]
    return {name: inputs[name] for name in taken}, {name: shapes[name] for name in taken}


def keys_and_values(model: Any, ids: Any) -> Any:
    """The model's cache after `ids`. Raises WorkerError when it is not keys and values alone."""
    import torch
    from transformers.cache_utils import DynamicLayer

    name = type(model).__name__
    with torch.no_grad():
        cache = getattr(model(input_ids=ids, use_cache=True), "cache", None)
    layers = getattr(cache, "layers", [])
    if not layers or not all(isinstance(layer, DynamicLayer) and layer.keys is not None for layer in layers):
        raise WorkerError(
            f"{name} keeps a state of its own kind between tokens ({type(cache).__name__}), and the graphs that Levers "
            "runs carry keys and values.",
            "Leave ONNX Runtime out for this model.",
        )
    return cache


def rename(graph: Any) -> None:
    """Give the traced graph's inputs and outputs the builder's names. Raises WorkerError for one of no known kind."""
    prefixes = {"input": PAST, "output": PRESENT}
    for value in [*graph.inputs, *graph.outputs]:
        if (leaf := _LEAF.fullmatch(value.name)) is not None:
            value.name = f"{prefixes[leaf[1]]}{leaf[2]}.{leaf[3]}"
        elif value.name == "logits_to_keep":
            value.name = POSITIONS
    known = (*_KNOWN, "logits")
    strange = [
        value.name
        for value in [*graph.inputs, *graph.outputs]
        if value.name not in known and not value.name.startswith((PAST, PRESENT))
    ]
    if strange:
        raise WorkerError(
            f"The exporter's graph takes or gives what Levers does not know: {', '.join(strange[:3])}.",
            "Leave ONNX Runtime out for this model.",
        )
