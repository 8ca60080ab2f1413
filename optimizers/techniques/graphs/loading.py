"""The `load` of a technique that runs a graph: find or write it, open it, hold it against PyTorch.

Runs in a worker. Covers the order of things and what each second is counted as.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from optimizers.errors import WorkerError
from optimizers.schema import Checkpoint
from optimizers.settings import settings
from optimizers.techniques.base import LoadContext, LoadOptions
from optimizers.techniques.graphs.recipes import Recipe

FOLDER = "graphs"


def loader(recipe: Recipe) -> Callable[[LoadContext, Callable[[str], None]], Any]:
    """The `load` of a recipe."""

    def load(context: LoadContext, stage: Callable[[str], None]) -> Any:
        return load_graph(context, stage, recipe)

    return load


def load_graph(context: LoadContext, stage: Callable[[str], None], recipe: Recipe) -> Any:
    """The model of the checkpoint's graph. Raises WorkerError when it cannot be written or is not the model.

    PyTorch is left one thread: it does nothing but pick tokens here, and its pool would take turns with the graph's."""
    import torch

    from optimizers.techniques.graphs import decoder, gate

    checkpoint = context.checkpoint
    check_window(Path(checkpoint.folder), context.longest_tokens)
    start = time.perf_counter()
    folder = find_or_write(checkpoint, recipe.for_checkpoint(checkpoint), stage)
    prepare_s = time.perf_counter() - start
    stage("opening the ONNX graph")
    torch.set_num_threads(1)
    model = decoder.load_model(folder, checkpoint.folder, context.threads, context.longest_tokens, prepare_s)
    stage("holding the graph against PyTorch")
    model.agreement = gate.check(model, folder, recipe.quantized)
    return model


def find_or_write(checkpoint: Checkpoint, recipe: Recipe, stage: Callable[[str], None]) -> Path:
    """The folder of the graph. What takes the exporter minutes is done once: its quantized graphs are made from its
    fp32 graph."""
    from optimizers.techniques.graphs import export, store

    def make(goal: Path) -> None:
        source = checkpoint.folder
        if recipe.road == "exporter" and recipe.quantized:
            source = str(find_or_write(checkpoint, replace(recipe, precision="fp32"), stage))
        export.write(source, goal, recipe, checkpoint.layers, stage)

    return store.find_or_make(settings().cache / FOLDER, checkpoint, recipe, make, stage)


def check_window(folder: Path, tokens: int) -> None:
    """Raise WorkerError for requests longer than the model's attention window: the texts that a graph is held against
    are shorter, so that nothing proves it there."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    if isinstance(window, int) and 0 < window < tokens:
        raise WorkerError(
            f"This model attends to {window} tokens at a time and the longest request has {tokens}: beyond the window "
            "its ONNX graph is not proven to be the same model.",
            f"Keep prompt and answer within {window} tokens, or leave ONNX Runtime out.",
        )


def import_early(context: LoadContext) -> LoadOptions:
    """The `options` of a graph: nothing for from_pretrained, but the library is imported now, so that its memory and
    its time count as the program's and not as the model's."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    return LoadOptions()
