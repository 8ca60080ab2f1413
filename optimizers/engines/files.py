"""The engines that there are: one requirements file each, read from this folder.

A file holds exact versions, one a line, as pip reads them, and comment lines of the form `# key: value`:

    title        what people call it
    megabytes    about what its environment takes on disk, measured
    shared       distributions that must be the program's own and are never installed again

Covers reading and checking the files; the environments are in `environments.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_KEY = re.compile(r"#\s*(title|megabytes|shared):\s*(.+)")
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.+!]*")


@dataclass(frozen=True)
class Engine:
    """One engine; its id is its file's name. `text` is the whole file, `pins` its requirements."""

    id: str
    title: str
    size_bytes: int
    shared: tuple[str, ...]
    pins: tuple[str, ...]
    text: str


@lru_cache(maxsize=1)
def all_engines() -> dict[str, Engine]:
    """Every engine by id."""
    return {path.stem: read(path) for path in sorted(Path(__file__).parent.glob("*.txt"))}


def read(path: Path) -> Engine:
    """The engine of one file. Raises ValueError for a line that is neither a comment nor an exact version, for a file
    without any, and for one without title or size."""
    text = path.read_text("utf-8")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = {match[1]: match[2].strip() for line in lines if (match := _KEY.fullmatch(line))}
    pins = tuple(line for line in lines if not line.startswith("#"))
    wrong = next((line for line in pins if not _PIN.fullmatch(line)), None)
    if wrong is not None or not pins:
        raise ValueError(f"{path.name}: {wrong or 'nothing'} is no exact version (name==version)")
    if "title" not in said or not said.get("megabytes", "").isdecimal():
        raise ValueError(f"{path.name}: its first lines lack a title or a size in megabytes")
    size = int(said["megabytes"]) * 1_000_000
    return Engine(path.stem, said["title"], size, tuple(said.get("shared", "").split()), pins, text)
