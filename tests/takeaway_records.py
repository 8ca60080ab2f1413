"""Finished runs of one variant, and its recipe run as a reader would run it: a process of its own, without Levers."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import planning_records as records
import tiny

from optimizers.results import ModelFacts, NoiseFloor, Run, VariantResult
from optimizers.schema import Checkpoint, Workload

PATIENCE_S = 600.0
KEY = "fp32+sdpa"


def model(checkpoint: Checkpoint | None = None, **changes: Any) -> ModelFacts:
    """A checkpoint as a run names it; a folder is named by its path."""
    found = checkpoint or records.checkpoint(folder="/models/small")
    made = ModelFacts(
        id=found.folder,
        source="folder",
        revision=found.revision,
        task=found.task,
        parameters=found.parameters,
        architecture=found.architecture,
        stored_dtype=found.stored_dtype,
        disk_bytes=found.disk_bytes,
        context_length=found.context_length,
        quantization=None,
        low_bit_grid=None,
        linear_widths=found.linear_widths,
    )
    return replace(made, **changes)


def variant(*techniques: str, **changes: Any) -> VariantResult:
    """A measured variant, with one thread and no figures."""
    made = VariantResult("+".join(techniques), "A title", techniques, "measured", threads=1)
    return replace(made, **changes)


def run(*variants: VariantResult, **changes: Any) -> Run:
    """A finished run of these variants, the first the baseline."""
    listed = variants or (variant("fp32", "sdpa"),)
    made = Run(
        id="20261130-100000-0123abcd",
        created_at="2026-11-30T10:00:00+00:00",
        status="done",
        machine=records.machine(),
        model=model(),
        workload=Workload(("Hello",), 6),
        baseline=listed[0].key,
        noise_floor=NoiseFloor(None, None, None),
        variants=listed,
        recommendation=None,
        caveats=(),
    )
    return replace(made, **changes)


def on(folder: Path, techniques: tuple[str, ...], prompt: str, tokens: int) -> Run:
    """A finished run of this stack on a tiny checkpoint."""
    return run(variant(*techniques), model=model(tiny.facts(folder)), workload=Workload((prompt,), tokens))


def answer(script: str, folder: Path, python: str = sys.executable) -> str:
    """What the script prints, run in an empty folder in which nothing leads to this program."""
    folder.mkdir(parents=True)
    (folder / "recipe.py").write_text(script, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LEVERS_CACHE")}
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONUTF8": "1"}
    done = subprocess.run(
        [python, "recipe.py"], cwd=folder, env=kept | quiet, capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    return done.stdout.decode().removesuffix("\n")
