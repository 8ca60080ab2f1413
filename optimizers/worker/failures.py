"""What went wrong, in a sentence. The traceback of what nobody foresaw goes to stderr, which is
the variant's log.

Covers turning an exception into `Failed`; raises nothing itself.
"""

from __future__ import annotations

import sys
import traceback

from optimizers.errors import LeversError
from optimizers.protocol import Failed
from optimizers.techniques.base import Technique

_MEMORY_WORDS = ("not enough memory", "can't allocate memory", "cannot allocate memory", "out of memory")
_LONGEST = 300
_DOING = {
    "load": "Loading this variant",
    "warm_up": "The first request",
    "run": "Answering the prompt",
    "tokenize": "Splitting the text into tokens",
    "score": "Scoring the texts",
    "census": "Looking into the loaded model",
    "memory": "Reading the memory in use",
    "save": "Saving the checkpoint",
}


def failed(command: str, error: BaseException, techniques: tuple[Technique, ...] = ()) -> Failed:
    """The event for `error`, raised by the command of that kind; a technique of the stack may know what it means."""
    if isinstance(error, LeversError):  # raised on purpose: its sentences say it all
        sys.stderr.write(f"{error}\n")
        return Failed(command, error.reason, error.remedy)
    traceback.print_exception(error)
    doing = _DOING.get(command, "The command")
    known = next((found for technique in techniques if (found := technique.explain(str(error)))), None)
    if known is not None:
        return Failed(command, known.reason, known.remedy)
    if is_out_of_memory(error):
        return Failed(
            command,
            f"{doing} needed more memory than this machine had free.",
            "Close other programs, pick a smaller model or a technique that shrinks it, or compare fewer variants.",
        )
    if isinstance(error, ImportError):
        missing = getattr(error, "name", None) or "a library"
        return Failed(
            command,
            f"{doing} failed because {missing} could not be imported ({first_line(error)}).",
            "Install it into the same Python with pip, or leave this technique out.",
        )
    return Failed(
        command,
        f"{doing} failed: {first_line(error).rstrip('.')}.",
        "The end of this variant's log says more; the other variants are not affected.",
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that an allocation failed."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, (RuntimeError, OSError)) and any(word in str(error).lower() for word in _MEMORY_WORDS)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, shortened; its type's name when it has none."""
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
