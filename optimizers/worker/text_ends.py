"""How far the text of an answer had come with each of its tokens, for a replay of how it was written.

Covers that count only. It is taken after a request, outside of what is timed.
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
