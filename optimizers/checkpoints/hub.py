"""Checkpoints of the Hugging Face hub: whether the hub answers, what is in its cache, and downloads with progress.

Only what Levers loads is fetched: JSON and tokenizer files first, the weights after these have shown that the model is
of a kind that is loaded. A model in the cache needs no network. No function here waits for a silent hub for longer than
`settings.HUB_TIMEOUT_S` before it says so; a download that has begun follows huggingface_hub's own time-outs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import constants, errors, scan_cache_dir, snapshot_download, try_to_load_from_cache
from huggingface_hub.utils import tqdm, validate_repo_id  # type: ignore[attr-defined]

from optimizers import settings
from optimizers.checkpoints import headers, kinds
from optimizers.errors import (
    CheckpointBroken,
    CheckpointError,
    CheckpointNotFound,
    CheckpointRefused,
    HubUnreachable,
    LeversError,
)

Progress = Callable[[str, float | None], None]

_SMALL_ENDINGS = (".json", ".jinja", ".model", ".txt", ".tiktoken")
_REPORT_EVERY_S = 0.2
_SMALL_NAMES = ("README.md",)


@dataclass(frozen=True)
class Answer:
    """What the hub said about a model: its files and their bytes, or the error; neither when it did not answer."""

    files: Mapping[str, int] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def came(self) -> bool:
        return bool(self.files) or self.error is not None


def check_name(model: str) -> None:
    """Raise CheckpointNotFound unless `model` has the form of a hub id (name or owner/name)."""
    try:
        validate_repo_id(model)
    except errors.HFValidationError as error:
        raise CheckpointNotFound(
            f"{model[:80]!r} is no packaged model, no folder here and no hub id.",
            "Name a packaged model (smollm2-135m), a folder with a checkpoint, or a hub id such as "
            "HuggingFaceTB/SmolLM2-135M-Instruct.",
        ) from error


def ask(model: str) -> Answer:
    """Ask the hub about `model`, for at most HUB_TIMEOUT_S. The thread is left behind when name resolution hangs."""
    if constants.is_offline_mode():
        return Answer()
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(_ask(model)), daemon=True, name="levers-hub")
    thread.start()
    thread.join(settings.HUB_TIMEOUT_S)
    return answers[0] if answers else Answer()


def fetch(model: str, progress: Progress) -> Path:
    """The folder in the hub's cache that holds `model`, downloaded first where the hub answers; its name is the commit.

    Raises HubUnreachable when the model is not in the cache and the hub does not answer, CheckpointNotFound for an
    unknown or private model, CheckpointRefused for a gated one or one of a kind that is not loaded."""
    check_name(model)
    progress(f"Asking the hub for {model}", None)
    answer = ask(model)
    if not answer.came:
        return _from_cache(model)
    if answer.error is not None:
        raise _explain(model, answer.error)
    try:
        return _download(model, answer.files, progress)
    except LeversError:
        raise
    except Exception as error:  # the client passes on what its transport raises, under many names
        raise _explain(model, error) from error


def cached() -> Iterator[tuple[str, Path]]:
    """Name and newest folder of every model in the hub's cache; no network."""
    try:
        found = scan_cache_dir(constants.HF_HUB_CACHE)
    except (errors.CacheNotFound, OSError, ValueError):
        return
    for repo in sorted(found.repos, key=lambda repo: repo.repo_id):
        if repo.repo_type == "model" and repo.revisions:
            newest = repo.refs.get("main") or max(repo.revisions, key=lambda revision: revision.last_modified)
            yield repo.repo_id, newest.snapshot_path


def _ask(model: str) -> Answer:
    from huggingface_hub import HfApi

    try:
        info = HfApi(endpoint=constants.ENDPOINT).model_info(model, files_metadata=True, timeout=settings.HUB_TIMEOUT_S)
    except errors.HfHubHTTPError as error:
        return Answer(error=error)
    except Exception:  # whatever else the client raises (sockets, TLS, proxies): the hub gave no usable answer
        return Answer()
    return Answer(files={sibling.rfilename: sibling.size or 0 for sibling in info.siblings or ()})


def _from_cache(model: str) -> Path:
    found = try_to_load_from_cache(model, "config.json")
    if isinstance(found, str):
        return Path(found).parent
    raise HubUnreachable(
        f"{model} is not on this machine, and the Hugging Face hub is out of reach ({why_silent()}).",
        "Connect to the network and try again, or pick a model that is here: the packaged smollm2-135m or a folder.",
    )


def why_silent() -> str:
    """Why `ask` got no answer, in a few words."""
    if constants.is_offline_mode():
        return "HF_HUB_OFFLINE is set"
    return f"no answer from {constants.ENDPOINT} within {settings.HUB_TIMEOUT_S:g} seconds"


def _download(model: str, files: Mapping[str, int], progress: Progress) -> Path:
    """The small files, a look at them, then the weights: no weight of a model that would be refused is fetched."""
    top = [name for name in files if "/" not in name]
    small = [name for name in top if name.endswith(_SMALL_ENDINGS) or name in _SMALL_NAMES]
    progress(f"Fetching the small files of {model}", None)
    folder = _snapshot(model, dict.fromkeys(small, 0), progress)
    kinds.refuse_unfit(kinds.read_config(folder), folder)
    if headers.WHOLE not in top and headers.INDEX not in top:
        others = sorted(set(top) - set(small) - {".gitattributes"})
        raise headers.pickled_only(model, others[0] if others else "nothing at all")
    weights = [headers.WHOLE] if headers.WHOLE in top else list(headers.weight_names(folder))
    return _snapshot(model, {name: files.get(name, 0) for name in (*small, *weights)}, progress)


def _snapshot(model: str, sizes: Mapping[str, int], progress: Progress) -> Path:
    total = sum(sizes.values())
    text = f"Fetching {model} ({total / 1e6:.0f} MB)"
    bar = _reporting(lambda done: progress(text, min(1.0, done / total)) if total else None)
    return Path(snapshot_download(model, allow_patterns=list(sizes), tqdm_class=bar))


def _reporting(report: Callable[[float], None]) -> type[Any]:
    """A progress bar class that draws nothing and passes on the bytes done, at most five times a second.

    huggingface_hub keeps one bar for bytes received and one for bytes written: the one that is ahead counts."""

    class Reporting(tqdm):
        last = 0.0
        most = 0.0

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs["disable"] = True
            super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
            self.counts_bytes = kwargs.get("unit") == "B"
            self.done = 0.0

        def update(self, n: float | None = 1) -> None:
            self.done += n or 0
            now = time.monotonic()
            if self.counts_bytes and self.done > Reporting.most and now - Reporting.last > _REPORT_EVERY_S:
                Reporting.most, Reporting.last = self.done, now
                report(self.done)

    return Reporting


def _explain(model: str, error: Exception) -> CheckpointError:
    if isinstance(error, errors.GatedRepoError):
        return CheckpointRefused(
            f"{model} is gated: its makers let in only those whom they have accepted.",
            f"Accept the terms at {constants.ENDPOINT}/{model}, log in with `hf auth login`, and try again.",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return CheckpointNotFound(
            f"The hub knows no model {model}, or it is private.",
            "Check the spelling (owner/name); for a private model log in with `hf auth login`.",
        )
    if isinstance(error, errors.HfHubHTTPError):
        return HubUnreachable(
            f"The hub answered with an error for {model}: {_first_line(error)}.",
            "Try again in a while, or pick a model that is here: the packaged smollm2-135m or a folder.",
        )
    return CheckpointBroken(
        f"{model} could not be downloaded: {_first_line(error)}.",
        "Check the network and the free disk space, then try again: what was downloaded is kept.",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
