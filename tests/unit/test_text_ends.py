"""How far a text had come with each token: by hand, with characters of several tokens, and against whole decoding."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from optimizers.worker.text_ends import text_ends


def by_bytes(ids: Sequence[int]) -> str:
    """A tokenizer whose tokens are bytes: the first bytes of a character are shown as one unfinished sign."""
    return bytes(ids).decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("", ()),
        ("ab", (1, 2)),
        ("aé!", (1, 1, 2, 3)),  # é is two bytes
        ("€", (0, 0, 1)),
        ("😀b", (0, 0, 0, 1, 2)),
    ],
)
def test_each_token_by_hand(text: str, ends: tuple[int, ...]) -> None:
    assert text_ends(list(text.encode()), text, by_bytes) == ends


def test_what_never_becomes_a_character_does_not_hold_up_the_rest() -> None:
    ids = [0x80] * 200 + list(b"end")
    text = by_bytes(ids)
    ends = text_ends(ids, text, by_bytes)
    assert len(ends) == len(ids)
    assert ends[-1] == len(text) == 203
    assert list(ends) == sorted(ends)
    assert ends[100] > 50


def test_the_work_grows_with_the_tokens_only() -> None:
    seen: list[int] = []

    def counted(ids: Sequence[int]) -> str:
        seen.append(len(ids))
        return by_bytes(ids)

    text = "abc " * 500
    assert text_ends(list(text.encode()), text, counted)[-1] == len(text)
    assert max(seen) <= 3


def test_a_token_that_adds_nothing_and_a_text_shorter_than_its_parts() -> None:
    words = {0: "", 1: "a", 2: " b"}

    def spaced(ids: Sequence[int]) -> str:
        return "".join(words[i] for i in ids)

    assert text_ends([1, 0, 2], "a b", spaced) == (1, 1, 3)
    assert text_ends([1, 2, 2], "a b", spaced) == (1, 3, 3)  # cleaned up as a whole: never past its end
