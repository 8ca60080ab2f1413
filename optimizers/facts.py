"""What is known before anything is loaded, as frozen records: the machine and a checkpoint's facts.

Covers what was found out by `machine.py`, `engines/` and `checkpoints/`. Holds no logic. They travel as part of the
records in `schema.py`, from where they are imported.

Units: bytes in `*_bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Source = Literal["packaged", "hub", "folder"]
Task = Literal["text_generation"]


@dataclass(frozen=True)
class Gpu:
    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]


@dataclass(frozen=True)
class EngineState:
    """An engine whose dependencies clash with the program's, and whether its own environment is here. `size_bytes` is
    about what that takes on disk; `allowed` says whether it may be installed where it is not; `requirements` are the
    exact versions in it ("transformers==4.57.6")."""

    id: str
    title: str
    size_bytes: int
    installed: bool
    allowed: bool
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """What this computer has. `instruction_sets` holds lower-case names as the kernel lists them (avx2, avx512_vnni,
    avx512_bf16, amx_bf16, asimd, ...); `packages` maps a distribution name to its version or None when absent."""

    system: str
    cpu: str
    usable_cores: int
    instruction_sets: tuple[str, ...]
    memory_total_bytes: int
    memory_available_bytes: int
    gpus: tuple[Gpu, ...] = ()
    cpp_compiler: str | None = None
    packages: dict[str, str | None] = field(default_factory=dict)
    python: str = ""
    hosted: str | None = None
    engines: tuple[EngineState, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint and what its headers tell, read without loading weights.

    `id` is the name the person used; `folder` holds the files; `revision` is a commit, a wheel version or a digest.
    `linear_parameters` counts the two-dimensional weights that are not embeddings (the output head counts when it is
    stored apart); `layer_kinds` names the modules that hold them ("Linear", "Conv1D").
    `quantization` is the checkpoint's own method (None when plain). `low_bit_grid` is a sentence when the stored
    weights lie on a 4-bit grid although stored wider, else None. `linear_widths` are the input widths of those weights,
    each once, ascending. `attentions` are the kinds of attention that transformers has for the model, by technique id;
    empty where that is not known."""

    id: str
    source: Source
    folder: str
    revision: str
    architecture: str
    model_type: str
    task: Task
    parameters: int
    linear_parameters: int
    disk_bytes: int
    stored_dtype: str
    context_length: int
    vocab_size: int
    hidden_size: int
    layers: int
    tied_embeddings: bool
    has_chat_template: bool
    has_pad_token: bool
    layer_kinds: tuple[str, ...] = ("Linear",)
    quantization: str | None = None
    low_bit_grid: str | None = None
    licence: str | None = None
    linear_widths: tuple[int, ...] = ()
    attentions: tuple[str, ...] = ()
