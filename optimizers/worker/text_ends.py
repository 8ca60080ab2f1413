"""The text of an answer token by token: how far it had come with each, for a replay of how it was written, and what one
token says.

Covers decoding only. It is done outside of what is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

UNFINISHED = "\ufffd"  # what a decoder writes for the first bytes of a character
LONGEST_CHARACTER = 16  # tokens; what is still unfinished then is not one


def text_ends(ids: Sequence[int], text: str, decode: Callable[[Sequence[int]], str]) -> tuple[int, ...]:
    """For each token the number of characters of `text` that are there when it has come; the last is all of them.

    Each token is decoded together with the few before it that its text may hang on, as serving engines do when they
    stream (vLLM's incremental detokenization), so the work grows with the tokens only."""
    ends: list[int] = []
    begin = seen = count = 0
    for place in range(1, len(ids) + 1):
        before, now = decode(ids[begin:seen]), decode(ids[begin:place])
        if len(now) > len(before) and (not now.endswith(UNFINISHED) or place - seen > LONGEST_CHARACTER):
            count += len(now) - len(before)
            begin, seen = seen, place
        ends.append(min(count, len(text)))
    return (*ends[:-1], len(text)) if ends else ()


def token_text(token: int, before: int, decode: Callable[[Sequence[int]], str]) -> str:
    """What a token says after the one `before` it: some tokenizers drop a space at the beginning of a text. One that
    holds only a part of a character is UNFINISHED."""
    lead, both = decode([before]), decode([before, token])
    added = both[len(lead) :] if both.startswith(lead) else ""
    return added or decode([token])
