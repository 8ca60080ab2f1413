"""A graph that Optimum exports, in the child process of export.py, and that its ORTModelForCausalLM runs.

Optimum traces the model in transformers 4 into a graph of ONNX's own operators, with keys and values that grow by
concatenation; its model class hands arrays to the session and takes them back at each step, which generate() drives.
All of this runs in the engine's environment (`engines/optimum_onnx.txt`), but for the reference. Covers exporting,
loading and what the class lacks for a worker.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from optimizers.errors import WorkerError
from optimizers.techniques.base import LoadContext
from optimizers.techniques.graphs import gate, older, reference
from optimizers.techniques.graphs.backed import GraphBacked
from optimizers.techniques.graphs.loading import check_window, find_or_write
from optimizers.techniques.graphs.names import DATA, GRAPH, REFERENCE
from optimizers.techniques.graphs.recipes import Recipe

RECIPE = Recipe("fp32", road="optimum")
_OWN = ("transformers", "optimum", "optimum-onnx", "onnxruntime")
_SMALLEST_EXTERNAL = 1024


@dataclass(frozen=True)
class _Graph:
    """The graph's folder and the session that runs it."""

    folder: Path
    session: Any


class _OptimumModel(GraphBacked):
    """What ORTModelForCausalLM lacks for a worker. Mixed into it by `model_class`."""

    def eval(self) -> Any:
        """Itself: a graph has no training mode."""
        return self

    def step(self, ids: Any, mask: Any, state: Any) -> tuple[Any, Any]:
        """Logits of the next `ids`, and the state after them; positions count as generate() counts them."""
        positions = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)[:, -ids.shape[1] :]
        found = self.forward(ids, mask, state, positions, use_cache=True)  # type: ignore[attr-defined]
        return found.logits, found.past_key_values


@lru_cache(maxsize=1)
def model_class() -> Any:
    """Optimum's class with what it lacks."""
    from optimum.onnxruntime import ORTModelForCausalLM

    return type("OptimumModel", (_OptimumModel, ORTModelForCausalLM), {"__module__": __name__})


def load(context: LoadContext, stage: Callable[[str], None]) -> Any:
    """The model of the checkpoint's graph. Raises WorkerError when it cannot be written or is not the model.

    The session has all threads, PyTorch one: it does nothing but pick tokens here."""
    import torch

    folder = Path(context.checkpoint.folder)
    check_window(folder, context.longest_tokens)
    start = time.perf_counter()
    graph = find_or_write(context.checkpoint, RECIPE, stage)
    prepare_s = time.perf_counter() - start
    stage("opening the ONNX graph")
    torch.set_num_threads(1)
    model = _opened(graph, folder, context.threads, prepare_s)
    stage("holding the graph against PyTorch")
    _check_tokens(graph, folder)
    model.agreement = gate.check(model, graph, quantized=False)
    return model


def _opened(graph: Path, checkpoint: Path, threads: int, prepare_s: float) -> Any:
    import importlib.metadata

    import onnxruntime
    from transformers import GenerationConfig

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    own = checkpoint if (checkpoint / "generation_config.json").is_file() else graph
    model = model_class().from_pretrained(
        graph,
        local_files_only=True,
        provider="CPUExecutionProvider",
        session_options=options,
        generation_config=GenerationConfig.from_pretrained(own, local_files_only=True),
    )
    model.attach(_Graph(graph, model.session), prepare_s)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _OWN)
    model.notes = (f"It ran in an environment of its own: {versions}.",)
    return model


def _check_tokens(graph: Path, checkpoint: Path) -> None:
    """Raise WorkerError unless the older library splits texts into the same tokens as the program's own."""
    from safetensors.numpy import load_file

    kept = load_file(graph / REFERENCE)
    for name, ids in reference.token_ids(older.tokenizer(checkpoint)).items():
        if name not in kept or kept[name].tolist() != ids:
            raise WorkerError(
                "The engine's older transformers splits text into other tokens than the program's own, so that the "
                "answers could not be compared.",
                "It is not measured. Leave this variant out for this model.",
            )


def export(checkpoint: Path, goal: Path) -> None:
    """Write the graph of a checkpoint into `goal`, in this process; weights lie beside it as the other graphs' do."""
    import onnx
    from optimum.exporters.onnx import main_export

    scratch = goal / "scratch"
    source, written = scratch / "checkpoint", scratch / "graph"
    for folder in (source, written):
        folder.mkdir(parents=True)
    older.view(checkpoint, source)
    main_export(
        str(source),
        written,
        task="text-generation-with-past",
        dtype="fp32",
        do_validation=False,
        local_files_only=True,
        trust_remote_code=False,
    )
    model = onnx.load(written / GRAPH)
    onnx.save(
        model,
        goal / GRAPH,
        save_as_external_data=True,
        location=DATA,
        size_threshold=_SMALLEST_EXTERNAL,
    )
    for name in ("config.json", "generation_config.json"):
        shutil.copyfile(written / name, goal / name)
    shutil.rmtree(scratch)
