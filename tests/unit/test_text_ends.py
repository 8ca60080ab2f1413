"""How far a text had come with each token and what one token says: by hand, with characters of several tokens, and
against whole decoding."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from optimizers.worker.text_ends import UNFINISHED, text_ends, token_text


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


def after_space(ids: Sequence[int]) -> str:
    """A tokenizer that writes words with a space before each and drops the first, as those of SentencePiece do."""
    words = {1: " Hello", 2: " the", 3: "re", 4: ""}
    return "".join(words[i] for i in ids).removeprefix(" ")


@pytest.mark.parametrize(("token", "before", "said"), [(2, 1, " the"), (3, 1, "re"), (4, 1, ""), (2, 4, "the")])
def test_a_token_keeps_the_space_that_is_dropped_at_the_beginning_of_a_text(token: int, before: int, said: str) -> None:
    assert after_space([2]) == "the"
    assert token_text(token, before, after_space) == said


@pytest.mark.parametrize(
    ("token", "before", "said"),
    [
        (0xE2, 0x20, UNFINISHED),  # the first of three bytes
        (0x82, 0xE2, UNFINISHED),  # the second
        (0xA9, 0xC3, UNFINISHED),  # the one that makes it an é
        (0x61, 0xE2, "a"),
        (0x20, 0x61, " "),
    ],
)
def test_a_token_that_holds_a_part_of_a_character_is_none(token: int, before: int, said: str) -> None:
    assert token_text(token, before, by_bytes) == said
