"""Every environment variable and limit that Levers knows, in one place; read when asked, never at import.

LEVERS_CACHE            folder for checkpoints and caches       (default: the user's cache folder)
LEVERS_RUNS             folder for runs                         (default: <cache>/runs)
LEVERS_MEMORY_BYTES     memory that a run may use               (default: 80 % of what is free)
LEVERS_ALLOW_FOLDERS    1 or 0: may the page open local folders (default: 1, on a hosted page 0)
LEVERS_ALLOW_ENGINES    1 or 0: may the first use of an engine install its environment
                                                        (default: 1, on a hosted page 0)
LEVERS_ALLOW_HISTORY    1 or 0: may the page open a run.json and delete runs
                                                        (default: 1, on a hosted page 0)
LEVERS_HOST             address that the page listens on        (default: 127.0.0.1; on a Space 0.0.0.0)
LEVERS_PORT             port that the page listens on           (default: the first free one from 7860 on)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MAX_PROMPTS = 64
MAX_PROMPT_CHARACTERS = 100_000
MAX_NEW_TOKENS = 32_768
MAX_ROUNDS = 200
MAX_STACKS = 32
LOG_LIMIT_BYTES = 1 << 20
LOG_TAIL_LINES = 12
HUB_TIMEOUT_S = 2.0
MOST_SEARCH_TEXT = 96  # characters of a search of the hub
LOAD_TIMEOUT_S = 900.0
EXPORT_TIMEOUT_S = 780.0  # of a load
INSTALL_TIMEOUT_S = 1800.0
ANSWER_TIMEOUT_S = 600.0
EXIT_GRACE_S = 2.0
TEXT_POSITIONS = 768
OWN_TEXT_POSITIONS = 4096
OWN_TEXT_BYTES = 8_000_000  # of a file
OWN_TEXT_HEAD_BYTES = 1 << 16  # that a plan carries: 16 for each position
WINDOW_LOGITS_BYTES = 1 << 28  # of one window of a text of the person's own, in float32
TIMED_TEXT_POSITIONS = 64
MAX_RUN_BYTES = 16 << 20  # of a run.json from elsewhere
LAST_PORT = 65_535
_SWITCHES = ("LEVERS_ALLOW_FOLDERS", "LEVERS_ALLOW_ENGINES", "LEVERS_ALLOW_HISTORY")


@dataclass(frozen=True)
class Settings:
    """What the environment says. `memory_bytes` is None when the machine's free memory decides, `port` when any will do
    that is free from 7860 on. `unread` are sentences about what the environment says and cannot be read."""

    cache: Path
    runs: Path
    memory_bytes: int | None
    allow_folders: bool
    allow_engines: bool
    allow_history: bool
    hosted: bool
    host: str
    port: int | None
    unread: tuple[str, ...] = ()


def settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings as the environment has them now. A number that cannot be read counts as absent, a switch as 0."""
    env = os.environ if environment is None else environment
    hosted = "SPACE_ID" in env
    default_cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "levers"
    cache = Path(env.get("LEVERS_CACHE") or default_cache).expanduser().absolute()
    memory_bytes, port = _whole(env.get("LEVERS_MEMORY_BYTES")), _port(env.get("LEVERS_PORT"))
    wrong = {
        "LEVERS_MEMORY_BYTES": memory_bytes is None and "is no whole number of bytes, so it counts as absent",
        "LEVERS_PORT": port is None and f"is no port (1 to {LAST_PORT}), so it counts as absent",
        **{name: env.get(name) not in ("0", "1") and "is neither 1 nor 0, so it counts as 0" for name in _SWITCHES},
    }
    return Settings(
        cache=cache,
        runs=Path(env.get("LEVERS_RUNS") or cache / "runs").expanduser().absolute(),
        memory_bytes=memory_bytes,
        allow_folders=(env.get("LEVERS_ALLOW_FOLDERS") or ("0" if hosted else "1")) == "1",
        allow_engines=(env.get("LEVERS_ALLOW_ENGINES") or ("0" if hosted else "1")) == "1",
        allow_history=(env.get("LEVERS_ALLOW_HISTORY") or ("0" if hosted else "1")) == "1",
        hosted=hosted,
        host=env.get("LEVERS_HOST") or ("0.0.0.0" if hosted else "127.0.0.1"),
        port=port,
        unread=tuple(f"{name} {what}." for name, what in wrong.items() if env.get(name) and what),
    )


def _port(text: str | None) -> int | None:
    number = _whole(text) or 0
    return number if 1 <= number <= LAST_PORT else None


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
