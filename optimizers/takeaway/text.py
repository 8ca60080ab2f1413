"""Text from outside (names of models and machines, titles, prompts, versions) in a script: a literal or a comment.

Nothing that comes in here can become code: a literal is Python's own spelling, a comment loses whatever could end its
line or turn its direction. A comment with such text never stands in the first two lines, where Python looks for the
file's encoding (PEP 263).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

WIDTH = 110
_LONGEST = 300
_VERSION = re.compile(r"\d[0-9A-Za-z.!]*", re.ASCII)
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==(.+)", re.ASCII)


def literal(value: str) -> str:
    """A text as code."""
    return repr(value)


def plain(value: str, most: int = _LONGEST) -> str:
    """A text in one line of printable characters, cut where it is longer than a comment needs."""
    said = " ".join("".join(letter if letter.isprintable() else " " for letter in value[: 2 * most]).split())
    return said if len(said) <= most else said[: most - 1] + "…"


def comment(text: str = "", indent: str = "") -> list[str]:
    """A text as lines of comment; `indent` comes before each line after the first."""
    lines = textwrap.wrap(
        plain(text, 4 * _LONGEST), WIDTH - 2, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [f"# {line}" for line in lines] or ["#"]


def requirement(name: str, version: str | None) -> str:
    """A distribution with its exact version as pip takes it, without a local part such as +cpu, which no index has;
    without one where that is not known or is none."""
    public = (version or "").partition("+")[0]
    return f"{name}=={public}" if _VERSION.fullmatch(public) else name


def pinned(pins: Iterable[str]) -> dict[str, str]:
    """Pins ("name==version") by name; what is none is left out."""
    found = (match for pin in pins if (match := _PIN.fullmatch(pin)) and _VERSION.fullmatch(match[2]))
    return {match[1]: match[2] for match in found}
