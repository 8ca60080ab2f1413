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
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from optimizers.errors import LeversError, WorkerError
from optimizers.schema import Checkpoint
from optimizers.techniques.graphs.recipes import Recipe

MARKER = "levers.json"
_FORMAT = 2  # changes with what export.py does to every graph
_VERSIONED = {
    "builder": ("onnxruntime", "onnxruntime-genai", "transformers"),
    "exporter": ("onnxruntime", "onnxscript", "torch", "transformers"),
}
_SAFE_NAME = 40
_BYTES_PER_PARAMETER = {"fp32": 5, "int8": 6, "int4": 5}


def key(checkpoint: Checkpoint, recipe: Recipe) -> str:
    """The name of a graph: readable, and different when the checkpoint, the recipe or a library's version is."""
    versions = [importlib.metadata.version(name) for name in _VERSIONED[recipe.road]]
    made_from = [
        *(_FORMAT, checkpoint.id, checkpoint.revision, checkpoint.architecture, checkpoint.disk_bytes),
        *(recipe.precision, list(recipe.options), versions),
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
        lock = _locked(goal.with_name(f"{goal.name}.lock"), stage)
        try:
            if not is_whole(goal):
                _make(goal, checkpoint, recipe, make)
        finally:
            lock.release()
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


def _locked(path: Path, stage: Callable[[str], None]) -> FileLock:
    """Hold the lock file, saying so while another process has it. The system frees it when its holder dies."""
    lock = FileLock(path)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=0.5)
        except Timeout:
            stage("waiting for another process that writes this graph")
    return lock


def _make(goal: Path, checkpoint: Checkpoint, recipe: Recipe, make: Callable[[Path], None]) -> None:
    for left in goal.parent.glob(f".{goal.name}.making-*"):
        shutil.rmtree(left, ignore_errors=True)
    _check_space(goal.parent, checkpoint.parameters * _BYTES_PER_PARAMETER[recipe.precision])
    work = Path(tempfile.mkdtemp(prefix=f".{goal.name}.making-", dir=goal.parent))
    try:
        made = work / "graph"
        made.mkdir()
        make(made)
        _mark(made)
        if goal.exists():
            goal.rename(work / "replaced")
        made.rename(goal)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_space(root: Path, needed: int) -> None:
    free = shutil.disk_usage(root).free
    if free < needed:
        raise LeversError(
            f"Writing the ONNX graph needs about {needed / 1e6:.0f} MB in {root}, and {free / 1e6:.0f} MB are free.",
            "Free some disk space or point LEVERS_CACHE at another disk.",
        )


def _mark(made: Path) -> None:
    """Put every file on the disk, then the marker: after the rename the folder is believed."""
    files = sorted(path for path in made.iterdir() if path.is_file())
    marker = {"format": _FORMAT, "files": {path.name: path.stat().st_size for path in files}}
    (made / MARKER).write_text(json.dumps(marker, indent=1), "utf-8")
    for path in [*files, made / MARKER]:
        with path.open("rb+") as file:
            os.fsync(file.fileno())
