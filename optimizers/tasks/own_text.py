"""A text of the person's own to measure quality on: read from a file, checked, and cut to what a plan carries.

Covers that it is text and long enough to be looked at; how many tokens it has is known once a model is. A plan carries
the text's beginning, so that it is enough to conduct the run by, whatever becomes of the file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from optimizers.errors import TextError
from optimizers.scores import OwnText
from optimizers.settings import OWN_TEXT_BYTES, OWN_TEXT_HEAD_BYTES

LONGEST_NAME = 100
_REMEDY = "Name a text file in UTF-8, or leave it out: then the packaged text is used."
_TYPED_REMEDY = "Put in some sentences, or leave it empty: then the packaged text is used."


def given(text: str | Path | OwnText | None) -> OwnText | None:
    """A text of the person's own, read where its file is named; None where there is none. Raises TextError."""
    if text is None or isinstance(text, OwnText):
        return text
    if not isinstance(text, str | Path):
        raise TextError("The text is neither a file's name nor made by own_text.", "Give the path of a text file.")
    return in_file(Path(text))


def in_file(path: Path) -> OwnText:
    """The text in this file. Raises TextError when it cannot be read, is too large, empty or not UTF-8 text."""
    what = f"The text file {path}"
    try:
        with path.open("rb") as file:
            data = file.read(OWN_TEXT_BYTES + 1)
    except OSError as error:
        raise TextError(f"{what} cannot be read: {error.strerror}.", _REMEDY) from None
    except ValueError:  # a zero byte in its name
        raise TextError("The text file has a name that no file can have.", _REMEDY) from None
    if len(data) > OWN_TEXT_BYTES:
        remedy = f"Give a part of it: the first {OWN_TEXT_HEAD_BYTES:,} bytes are all that is looked at."
        raise TextError(f"{what} is larger than {OWN_TEXT_BYTES // 1_000_000} MB.", remedy)
    return _checked(data, _shown(path.name), what, _REMEDY)


def typed(text: str) -> OwnText:
    """A text that is given as it is. Raises TextError when it is empty, too long or not text."""
    what = "The text of your own"
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise TextError(f"{what} is not text: its character {error.start + 1} is half of one.", _TYPED_REMEDY) from None
    if len(data) > OWN_TEXT_BYTES:
        raise TextError(f"{what} is larger than {OWN_TEXT_BYTES // 1_000_000} MB.", "Put in a part of it.")
    return _checked(data, "", what, _TYPED_REMEDY)


def _checked(data: bytes, name: str, what: str, remedy: str) -> OwnText:
    if b"\0" in data:
        raise TextError(f"{what} is not text: it holds zero bytes.", remedy)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(f"{what} is not UTF-8 text (byte {error.start}).", remedy) from None
    if not text.strip():
        raise TextError(f"{what} is empty.", remedy)
    head = text.encode()[:OWN_TEXT_HEAD_BYTES].decode(errors="ignore")
    if not head.strip():
        raise TextError(f"{what} begins with nothing but blanks, {OWN_TEXT_HEAD_BYTES:,} bytes of them.", remedy)
    return OwnText(name, hashlib.sha256(data).hexdigest(), len(data), head)


def _shown(name: str) -> str:
    """A file's name as it can be shown: on one line, not too long, with nothing in it that is not text."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    return plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1] + "…"
