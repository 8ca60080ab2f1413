"""Written graphs on disk, each under a key of all that it was made from.

    <cache>/graphs/KEY/              model.onnx, its data, reference.safetensors, and levers.json: every file's size
    <cache>/graphs/KEY.lock          held while it is made
    <cache>/graphs/.KEY.making-*/    work in progress; under the lock, any that exists is a dead process's

All work happens beside the goal and one rename puts it in place; the marker is written last, so a folder is believed
only when it is whole. Covers keeping; writing a graph is the caller's.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from optimizers import keeping
from optimizers.errors import WorkerError
from optimizers.schema import Checkpoint
from optimizers.techniques.graphs.recipes import Recipe

MARKER = "levers.json"
_FORMAT = 3  # changes with what export.py does to every graph and keeps beside it
_VERSIONED = {
    "builder": ("onnxruntime", "onnxruntime-genai", "transformers"),
    "exporter": ("onnxruntime", "onnxscript", "torch", "transformers"),
    "optimum": ("onnxruntime", "optimum", "optimum-onnx", "torch", "transformers"),
}
_SAFE_NAME = 40
_BYTES_PER_PARAMETER = {"fp32": 5, "int8": 6, "int4": 5}
_WRITTEN_TWICE = 2


def key(checkpoint: Checkpoint, recipe: Recipe) -> str:
    """The name of a graph: readable, and different when the checkpoint, the recipe or a library's version is."""
    versions = [importlib.metadata.version(name) for name in _VERSIONED[recipe.road]]
    made_from = [
        *(_FORMAT, checkpoint.id, checkpoint.revision, checkpoint.architecture, checkpoint.disk_bytes),
        *(recipe.road, recipe.precision, list(recipe.options), versions),
    ]
    digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", checkpoint.id).strip("-")[-_SAFE_NAME:]
    return f"{name}-{recipe.precision}-{digest}"


def find_or_make(
    root: Path,
    checkpoint: Checkpoint,
    recipe: Recipe,
    make: Callable[[Path], None],
    stage: Callable[[str], None],
) -> Path:
    """The folder of a whole graph under `root`; `make` writes it into an empty folder first when there is none.

    Raises WorkerError when it cannot be made; what was begun is then removed."""
    goal = root / key(checkpoint, recipe)
    if is_whole(goal):
        return goal
    try:
        root.mkdir(parents=True, exist_ok=True)
        with keeping.locked(goal, lambda: stage("waiting for another process that writes this graph")):
            if not is_whole(goal):
                needed = checkpoint.parameters * _BYTES_PER_PARAMETER[recipe.precision]
                needed *= _WRITTEN_TWICE if recipe.road == "optimum" else 1
                keeping.put_in_place(goal, lambda work: _made(work / "graph", needed, make))
    except OSError as error:
        raise WorkerError(
            f"The ONNX graph could not be kept in {root}: {error.strerror or error}.",
            "Free some disk space or point LEVERS_CACHE at a folder that can be written, then try again.",
        ) from error
    return goal


def is_whole(folder: Path) -> bool:
    """Whether a graph lies there with its marker, and every file that the marker names has its size."""
    try:
        said = json.loads((folder / MARKER).read_text("utf-8"))
        if said["format"] != _FORMAT or "model.onnx" not in said["files"]:
            return False
        return all((folder / name).stat().st_size == size for name, size in said["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def disk_bytes(folder: Path) -> int:
    """Bytes of the graph and its data, without what is kept beside them for the gate."""
    return sum(path.stat().st_size for path in folder.glob("model.onnx*"))


def _made(folder: Path, needed: int, make: Callable[[Path], None]) -> Path:
    keeping.check_space(folder.parent, needed, "Writing the ONNX graph")
    folder.mkdir()
    make(folder)
    _mark(folder)
    return folder


def _mark(made: Path) -> None:
    """Put every file on the disk, then the marker: after the rename the folder is believed."""
    files = sorted(path for path in made.iterdir() if path.is_file())
    marker = {"format": _FORMAT, "files": {path.name: path.stat().st_size for path in files}}
    (made / MARKER).write_text(json.dumps(marker, indent=1), "utf-8")
    for path in [*files, made / MARKER]:
        with path.open("rb+") as file:
            os.fsync(file.fileno())
