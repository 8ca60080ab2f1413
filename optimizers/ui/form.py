"""What the person entered, checked: types, sizes, and how text fields are cut into lists.

Covers the form only; whether a combination makes sense is for `api.choose`. Handlers answer direct HTTP calls too, so
nothing here trusts a type. Raises ChoiceError with a sentence that names the field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from optimizers.api import DEFAULT_ROUNDS, usual
from optimizers.errors import ChoiceError, RunNotFound, TextError, ThreadsError
from optimizers.schema import Way
from optimizers.scores import KlTerms
from optimizers.settings import MAX_NEW_TOKENS, MAX_PROMPT_CHARACTERS, MAX_PROMPTS, MAX_ROUNDS
from optimizers.ui import words

MAX_NAME = 1024
MAX_STACK_TEXT = 4096
MAX_TEXT = 1_000_000
MAX_THREADS_TEXT = 200
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}")


@dataclass(frozen=True)
class Form:
    """The fields of the page, typed. `ticked` are technique ids (those of the usual ladder where nothing is ticked and
    the ladder is wanted), `written` the hand-written combinations; `another` is another checkpoint to compare with;
    `own_text` is empty where quality is measured on the packaged text; `threads` where all cores are meant."""

    model: str
    ticked: tuple[str, ...]
    ways: Way
    written: tuple[str, ...]
    prompts: tuple[str, ...]
    max_new_tokens: int
    rounds: int
    seconds: float | None
    baseline: str | None
    another: str | None = None
    own_text: str = ""
    kl_terms: KlTerms = "all"
    threads: tuple[int, ...] = ()
    as_hosted: bool = False

    @property
    def stacks(self) -> tuple[str, ...]:
        """What is to be compared, as stacks."""
        return (*self.ticked, *self.written, *([f"checkpoint={self.another}"] if self.another else []))


def read(
    model: Any,
    ticked: list[str],
    ways: Any,
    stacks: Any,
    prompts: Any,
    tokens: Any,
    rounds: Any,
    budget: Any,
    base: Any,
    another: Any = "",
    own_text: Any = "",
    llama_cpp: Any = False,
    threads: Any = "",
    as_hosted: Any = False,
) -> Form:
    """The form from the raw values of its components, in the page's order."""
    way, written, other = read_way(ways), split_stacks(stacks), another_name(another)
    chosen = tuple(ticked) or (usual(way) if way == "ladder" else ())
    if not chosen and not written and not other:
        raise ChoiceError(words.NOTHING_TICKED, words.NOTHING_TICKED_REMEDY)
    seconds = _seconds(budget)
    return Form(
        model=model_name(model),
        ticked=chosen,
        ways=way,
        written=written,
        prompts=split_prompts(text(prompts, words.PROMPTS_LABEL, MAX_PROMPTS * MAX_PROMPT_CHARACTERS)),
        max_new_tokens=_whole(tokens, words.TOKENS_LABEL, MAX_NEW_TOKENS),
        rounds=_whole(rounds, words.ROUNDS_LABEL, MAX_ROUNDS) if seconds is None else DEFAULT_ROUNDS,
        seconds=seconds,
        baseline=text(base, words.BASELINE_LABEL, MAX_STACK_TEXT).strip() or None,
        another=other or None,
        own_text=_own_text(own_text),
        kl_terms="llama_cpp" if llama_cpp is True else "all",
        threads=_threads(threads),
        as_hosted=as_hosted is True,
    )


def read_way(value: Any) -> Way:
    """How the ticked techniques are put together."""
    for _, way in words.WAYS:
        if value == way:
            return way
    raise ChoiceError(words.BAD_TYPE.format(field=words.WAYS_LABEL), words.BAD_TYPE_REMEDY)


def split_stacks(value: Any) -> tuple[str, ...]:
    """The hand-written combinations, one a line, each once."""
    lines = (line.strip() for line in text(value, words.STACKS_LABEL, MAX_STACK_TEXT).splitlines())
    return tuple(dict.fromkeys(line for line in lines if line))


def model_name(value: Any) -> str:
    """The model's name; raises when there is none."""
    name = text(value, words.MODEL_LABEL, MAX_NAME).strip()
    if not name:
        raise ChoiceError(words.NO_MODEL, words.NO_MODEL_REMEDY)
    return name


def another_name(value: Any) -> str:
    """The other checkpoint's name, empty when none is wanted."""
    name = text(value, words.ANOTHER_LABEL, MAX_NAME).strip()
    if "+" in name:
        raise ChoiceError(words.ANOTHER_PLUS, words.ANOTHER_PLUS_REMEDY)
    return name


def is_hub_id(name: str) -> bool:
    """Whether a name has the shape owner/name, which a hub id has and a relative folder may have."""
    return _HUB_ID.fullmatch(name) is not None


def run_id(value: Any) -> str:
    """A run id of a safe shape. Raises RunNotFound."""
    if isinstance(value, str) and _RUN_ID.fullmatch(value):
        return value
    raise RunNotFound(words.BAD_RUN, words.BAD_RUN_REMEDY)


def split_prompts(block: str) -> tuple[str, ...]:
    """Prompts cut at empty lines; blank ones fall away."""
    parts = re.split(r"\n[ \t]*\n", block.replace("\r\n", "\n"))
    return tuple(part.strip() for part in parts if part.strip())


def join_prompts(prompts: tuple[str, ...]) -> str:
    """Prompts as the prompt field shows them."""
    return "\n\n".join(prompts)


def text(value: Any, field: str, limit: int) -> str:
    """A text field; None is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ChoiceError(words.BAD_TYPE.format(field=field), words.BAD_TYPE_REMEDY)
    if len(value) > limit:
        raise ChoiceError(words.TOO_LONG.format(field=field), words.TOO_LONG_REMEDY.format(high=f"{limit:,}"))
    return value


def _own_text(value: Any) -> str:
    try:
        return text(value, words.TEXT_LABEL, MAX_TEXT)
    except ChoiceError as error:
        raise TextError(error.reason, error.remedy) from None


def _whole(value: Any, field: str, high: int) -> int:
    right = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    if not right or not 1 <= value <= high:
        raise ChoiceError(words.BAD_WHOLE.format(field=field, high=f"{high:,}"))
    return int(value)


def _threads(value: Any) -> tuple[int, ...]:
    try:
        entered = text(value, words.THREADS_LABEL, MAX_THREADS_TEXT).strip()
    except ChoiceError as error:
        raise ThreadsError(error.reason, error.remedy) from None
    parts = [part.strip() for part in entered.split(",")] if entered else []
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise ThreadsError(words.BAD_THREADS)
    return tuple(map(int, parts))


def _seconds(value: Any) -> float | None:
    entered = text(value, words.SECONDS_LABEL, 32).strip().removesuffix("s").strip()
    if not entered:
        return None
    try:
        seconds = float(entered)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ChoiceError(words.BAD_SECONDS)
    return seconds
