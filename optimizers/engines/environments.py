"""The environments of engines: made on first use in the cache, found again, removed.

    <cache>/engines/NAME-DIGEST/    a virtual environment with what the engine's file names, and levers.json

Behind its own packages an environment looks into the program's, by a .pth file: pip then installs only what clashes or
is missing, and its own code too comes from there. The digest covers all that it was made from. Everything is run as
`python -m`, so an environment may be made beside its place and renamed (`keeping.py`); its marker is written last.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
import time
import venv
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from optimizers import keeping, leash
from optimizers.engines.files import Engine, all_engines
from optimizers.errors import EngineError, UsageError
from optimizers.schema import EngineState
from optimizers.settings import INSTALL_TIMEOUT_S, Settings, settings

FOLDER = "engines"
MARKER = "levers.json"
_FORMAT = 1
_PROGRAM = Path(__file__).resolve().parents[2]
_LOOK_EVERY_S = 1.0
_PIP = ("pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2")

Progress = Callable[[str, float | None], None]
Run = Callable[..., tuple[int, str]]


def states(said: Settings) -> tuple[EngineState, ...]:
    """Every engine as it stands under these settings. Reads a few small files."""
    root = said.cache / FOLDER
    return tuple(
        EngineState(
            engine.id, engine.title, engine.size_bytes, installed(engine, root), said.allow_engines, engine.pins
        )
        for engine in all_engines().values()
    )


def ready(name: str, progress: Progress) -> Path:
    """The interpreter of an engine's environment, which is installed first when it is not here.

    `progress` hears a sentence and the share done; what it raises stops the installation and goes on.
    Raises UsageError for an unknown engine, EngineError when it cannot be installed."""
    engine, said = known(name), settings()
    root = said.cache / FOLDER
    if not installed(engine, root):
        if not said.allow_engines:
            raise EngineError(
                f"{engine.title} is not installed, and installing engines is not allowed here.",
                "Ask the operator of this page, who can set LEVERS_ALLOW_ENGINES=1.",
            )
        install(engine, root, progress)
    return interpreter(place(engine, root))


def known(name: str) -> Engine:
    """The engine of that name. Raises UsageError."""
    found = all_engines().get(name)
    if found is None:
        raise UsageError(
            f'There is no engine called "{name[:60]}".', f"Known ones: {', '.join(all_engines()) or 'none'}."
        )
    return found


def place(engine: Engine, root: Path) -> Path:
    """Where the environment of an engine is kept: another folder when anything that it is made from is another."""
    made_from = [_FORMAT, engine.text, platform.python_version(), _shared(engine), _own_paths()]
    return root / f"{engine.id}-{hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]}"


def interpreter(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def installed(engine: Engine, root: Path) -> bool:
    """Whether the environment is here and whole: its marker is written last. An interpreter that its system has lost
    since makes it one that is not here."""
    folder = place(engine, root)
    try:
        said = json.loads((folder / MARKER).read_text("utf-8"))
        return bool(said["format"] == _FORMAT and interpreter(folder).exists())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def program_python() -> str:
    """In a worker that runs in an environment: the program's own interpreter. Raises EngineError elsewhere."""
    try:
        return str(json.loads((Path(sys.prefix) / MARKER).read_text("utf-8"))["program"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(
            "This worker runs in no engine's environment.", "Start it through Levers, or install the engine again."
        ) from error


def install(engine: Engine, root: Path, progress: Progress, run: Run = leash.run) -> Path:
    """Make the environment unless it is here; its folder. `run` runs a module of Python on a leash.

    Raises EngineError; what was begun is then removed."""
    goal = place(engine, root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        waiting = f"another Levers is installing {engine.title}: waiting for it"
        with keeping.locked(goal, lambda: progress(waiting, None)):
            if not installed(engine, root):
                keeping.put_in_place(goal, lambda work: _made(engine, work, progress, run))
    except OSError as error:
        raise EngineError(
            f"{engine.title} could not be installed in {root}: {error.strerror or error}.",
            "Free some disk space or point LEVERS_CACHE at a folder that can be written, then try again.",
        ) from error
    return goal


def remove(name: str) -> int:
    """Remove every environment of an engine, outdated ones too; the bytes freed. Raises UsageError, EngineError."""
    engine, root = known(name), settings().cache / FOLDER
    ours = re.compile(rf"{re.escape(engine.id)}-[0-9a-f]{{16}}")
    freed = 0

    def busy() -> None:
        raise EngineError(f"{engine.title} is being installed.", "Wait until that is over, or stop it; then try again.")

    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        if ours.fullmatch(folder.name) and folder.is_dir():
            with keeping.locked(folder, busy):
                if _in_use(folder):
                    raise EngineError(
                        f"{engine.title} is at work.", "Wait until that is over, or stop it; then try again."
                    )
                freed += keeping.bytes_under(folder)
                (folder / MARKER).unlink(missing_ok=True)
                shutil.rmtree(folder)
    return freed


def _in_use(folder: Path) -> bool:
    """Whether a process that we may look at runs the environment's interpreter."""
    running = (process.info["cmdline"] for process in psutil.process_iter(["cmdline"]))
    return any(words and Path(words[0]).is_relative_to(folder) for words in running)


def _made(engine: Engine, work: Path, progress: Progress, run: Run) -> Path:
    """A whole environment under `work`."""
    needed = 2 * engine.size_bytes  # what pip downloads, and what it unpacks from that
    keeping.check_space(work, needed, f"Installing {engine.title}", EngineError)
    made = work / "environment"
    venv.EnvBuilder(symlinks=os.name != "nt").create(made)
    folders = _package_folders(made)
    (folders[0] / "levers.pth").write_text("\n".join(_own_paths()) + "\n", "utf-8")
    _pip(engine, work, made, progress, run)
    _check(engine, folders)
    marker = {"format": _FORMAT, "program": sys.executable, "requirements": engine.pins}
    (made / MARKER).write_text(json.dumps(marker, indent=1), "utf-8")
    if hasattr(os, "sync"):
        os.sync()  # thousands of small files: one call for all
    return made


def _pip(engine: Engine, work: Path, made: Path, progress: Progress, run: Run) -> None:
    """Install the engine's file with the program's pip, run by the environment's interpreter."""
    wanted, fixed = work / "wanted.txt", work / "fixed.txt"
    wanted.write_text(engine.text, "utf-8")
    fixed.write_text("".join(f"{pin}\n" for pin in _shared(engine)), "utf-8")
    text = f"installing {engine.title} (once, about {engine.size_bytes / 1e6:.0f} MB)"
    code, said = run(
        [*_PIP, "--timeout", "15", "--only-binary", ":all:", "-r", str(wanted), "-c", str(fixed)],
        python=str(interpreter(made)),
        while_waiting=_watch(text, work, engine, progress),
        environment={
            **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(work)),
            **{"PYTHONPATH": str(_PROGRAM), "PYTHONSAFEPATH": "1", "PIP_USER": "0"},
        },
    )
    if code != 0:
        raise EngineError(
            f"pip could not install {engine.title}: {leash.last_words(said)}",
            "Check that pip can reach its package index from here (network, proxy, index) and try again; "
            "everything else works without it.",
        )


def _watch(text: str, work: Path, engine: Engine, progress: Progress) -> Callable[[], None]:
    """What looks at an installation while it goes on: tells how far it is, and ends one that takes too long."""
    began = looked_at = time.monotonic()
    share = 0.0
    progress(text, share)

    def watch() -> None:
        nonlocal looked_at, share
        now = time.monotonic()
        if now - began > INSTALL_TIMEOUT_S:
            raise EngineError(
                f"Installing {engine.title} took longer than {INSTALL_TIMEOUT_S / 60:.0f} minutes and was ended.",
                "Try again with a faster connection; everything else works without it.",
            )
        if now - looked_at >= _LOOK_EVERY_S:  # thousands of files are not counted at every call
            looked_at = now
            share = max(share, min(0.99, keeping.bytes_under(work) / engine.size_bytes))
        progress(text, share)

    return watch


def _check(engine: Engine, folders: list[Path]) -> None:
    """Raise EngineError unless exactly the versions asked for lie in the environment itself."""
    paths = [str(folder) for folder in folders]
    found = {_plain(item.metadata["Name"]): item.version for item in importlib.metadata.distributions(path=paths)}
    for name, version in (pin.split("==") for pin in engine.pins):
        if found.get(_plain(name)) != version:
            raise EngineError(
                f"pip said that it installed {engine.title}, but {name} {version} is not in its environment "
                f"(found: {found.get(_plain(name), 'none')}).",
                "Look for settings of pip that place packages elsewhere (python -m pip config list), then try again.",
            )


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _package_folders(folder: Path) -> list[Path]:
    """Where an environment keeps its packages: those in Python only first, then those with compiled parts."""
    base = {"base": str(folder), "platbase": str(folder)}
    return [Path(sysconfig.get_path(kind, "venv", base)) for kind in ("purelib", "platlib")]


def _own_paths() -> list[str]:
    """Where this program's own packages are found, in order: every place with an installed distribution in it."""
    return [entry for entry in sys.path if any(Path(entry).glob("*.dist-info"))]


def _shared(engine: Engine) -> list[str]:
    """The program's versions of what the engine shares with it, as pip reads them; what it lacks is left out."""
    found = []
    for name in engine.shared:
        with suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name}=={importlib.metadata.version(name)}")
    return found
