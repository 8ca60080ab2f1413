"""A graph written by a child: `python -m optimizers.techniques.graphs.export ROAD FOLDER GOAL PRECISION OPTION...`

The child (child.py) runs onnxruntime-genai's model builder (building.py), transformers' exporter (tracing.py),
onnxruntime's quantizer (quantizing.py) or Optimum (optimum.py), and keeps what the graph is held against beside it
(reference.py). `write` is the parent's side.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from optimizers import engines
from optimizers.settings import EXPORT_TIMEOUT_S
from optimizers.techniques.graphs import building, child, gate, optimum, quantizing, reference, traced_graph, tracing
from optimizers.techniques.graphs.names import GRAPH, REFERENCE
from optimizers.techniques.graphs.recipes import Recipe

_STAGES = {
    "Saving ONNX model": "quantizing and saving the ONNX graph",
    "Reference": "asking PyTorch for reference",
    "Tracing": "writing the ONNX graph: tracing the model, step 1 of 4 (this takes minutes)",
    "[torch.onnx] Run decompositions": "writing the ONNX graph: simplifying its operators, step 2 of 4",
    "[torch.onnx] Translate the graph": "writing the ONNX graph: translating it, step 3 of 4",
    "[torch.onnx] Optimize the ONNX": "writing the ONNX graph: optimizing it, step 4 of 4 (the longest)",
    "Saving": "saving the ONNX graph",
    "Checking": "holding the fp32 graph against PyTorch",
    "Quantizing": "quantizing the ONNX graph",
}


def write(folder: str, goal: Path, recipe: Recipe, layers: int, stage: Callable[[str], None]) -> None:
    """Write the graph of the checkpoint in `folder` into `goal`; a quantized graph on the exporter's road is made from
    the fp32 graph, which `folder` then holds. Raises WorkerError when the child fails or takes too long.

    In an engine's environment the reference is a second child's, which runs in the program's own."""
    stage("writing the ONNX graph")

    def heard(text: str) -> None:
        if (said := progress(text, layers)) is not None:
            stage(said)

    words = [__name__, recipe.road, folder, str(goal), recipe.precision, *recipe.options]
    wanted = (GRAPH,) if recipe.road == "optimum" else (GRAPH, REFERENCE)
    child.run(words, goal, heard=heard, wanted=wanted, limit_s=EXPORT_TIMEOUT_S)
    if recipe.road == "optimum":
        words = [reference.__name__, folder, str(goal)]
        python = engines.program_python()
        child.run(words, goal, heard=heard, wanted=(REFERENCE,), limit_s=EXPORT_TIMEOUT_S, python=python)


def progress(text: str, layers: int) -> str | None:
    """What a line of the child means for a person, None for a line that means nothing."""
    if text.startswith("Reading layer "):
        number = text.removeprefix("Reading layer ").split()[0]
        return f"writing the ONNX graph: layer {int(number) + 1} of {layers}" if number.isdecimal() else None
    return next((words for start, words in _STAGES.items() if text.startswith(start)), None)


def make(road: str, folder: str, goal: Path, precision: str, options: list[str]) -> None:
    """Write the graph and its reference into `goal`, in this process; for `folder` see `write`. Raises WorkerError when
    a graph that is to be quantized is not the model."""
    if road == "optimum":
        optimum.export(Path(folder), goal)
        return
    if road == "builder":
        building.make(folder, goal, precision, options)
    elif precision == "fp32":
        tracing.make(folder, goal)
    else:
        sys.stdout.write("Checking\n")
        gate.check(traced_graph.Steps(Path(folder)), Path(folder), quantized=False)
        sys.stdout.write("Quantizing\n")
        quantizing.make(Path(folder), goal, precision)
        return
    reference.write(folder, goal)


if __name__ == "__main__":
    road, folder, goal, precision, *options = sys.argv[1:]
    raise SystemExit(child.does(lambda: make(road, folder, Path(goal), precision, options)))
