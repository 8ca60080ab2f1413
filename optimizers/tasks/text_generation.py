"""Text generation: the default prompts, the human text, and how a text is cut into passages, and stretches, to score.

Pure; token ids come from a worker (protocol.Tokenize). Scoring itself is the worker's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from optimizers.protocol import Passage, Stretch
from optimizers.settings import OWN_TEXT_POSITIONS, TEXT_POSITIONS, TIMED_TEXT_POSITIONS, WINDOW_LOGITS_BYTES

# Short enough that a window's logits over 150,000 words stay near 150 MB, long enough to give a model context.
WINDOW_POSITIONS = 256
TEXT_TIMED = "text_timed"
STRETCH_TIMED = "bytes_timed"
LOGIT_BYTES = 4
LEAD_BYTES, STRETCH_BYTES, FIRST_LEAD_BYTES, TIMED_BYTES, MOST_BYTES = 256, 512, 64, 256, 8192
LEAST_ROOM = 32
# What a tokenizer may put before a text.
HEAD_TOKENS = 4

_ASSETS = Path(__file__).parent.parent.parent / "assets"


@lru_cache(maxsize=1)
def default_prompts() -> tuple[str, ...]:
    """The prompts that are asked when none are given."""
    lines = (_ASSETS / "prompts.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


@lru_cache(maxsize=1)
def human_text() -> str:
    """The packaged text, written by people, that perplexity is measured on."""
    return (_ASSETS / "human_text.txt").read_text(encoding="utf-8")


def own_window(context_length: int, vocab_size: int) -> int:
    """How many tokens one window scores of a text of the person's own: as many as the context holds after the window's
    first token, and as keep the window's logits, `vocab_size` float32 a position, within 256 MiB (1,365 positions of
    49,152 words, 441 of 152,000); 4,096 at the most, and WINDOW_POSITIONS where the context is not known."""
    if not context_length:
        return WINDOW_POSITIONS
    fitting = WINDOW_LOGITS_BYTES // (LOGIT_BYTES * max(1, vocab_size))
    return min(context_length - 1, max(1, fitting), OWN_TEXT_POSITIONS)


def windows(
    token_ids: Sequence[int],
    context_length: int,
    positions: int = TEXT_POSITIONS,
    first_row: int = 0,
    window: int = WINDOW_POSITIONS,
) -> tuple[Passage, ...]:
    """The text as passages to score: "text:0", "text:1", ... in one pass each, then "text_timed".

    Each window's first token is context and gets no score; windows do not overlap, each scores at most `window` tokens
    and all together at most `positions`. "text_timed" scores the first tokens of "text:0" again, step by step. Row
    numbers of the reference start at `first_row`. A text of fewer than two tokens gives no passage, as does a context
    of one token.
    """
    size = min(window, context_length - 1) if context_length else window
    passages: list[Passage] = []
    row, at = first_row, 0
    while size > 0 and (left := positions - (row - first_row)) > 0 and at + 1 < len(token_ids):
        targets = tuple(token_ids[at + 1 : at + 1 + min(size, left)])
        passages.append(Passage(f"text:{len(passages)}", "one_pass", (token_ids[at],), targets, row))
        row, at = row + len(targets), at + 1 + len(targets)
    if passages:
        first = passages[0]
        passages.append(Passage(TEXT_TIMED, "timed", first.context_ids, first.target_ids[:TIMED_TEXT_POSITIONS], row))
    return tuple(passages)


def stretches(text: str, context_length: int) -> tuple[Stretch, ...]:
    """The text as stretches that any tokenizer can score: "bytes:0", "bytes:1", ... in one pass each, then
    "bytes_timed", the text of "bytes:0" again, step by step.

    They follow each other without a gap, cut before a space, each with up to 256 bytes of the text before it as lead;
    the first words of the text are lead alone. A byte is one token at the most, so that lead and stretch fit
    `context_length` (the shortest of the models to be compared; 0: not known), whatever the tokenizer. Nothing where
    that is too short for words."""
    room = min(LEAD_BYTES + STRETCH_BYTES, (context_length or 1 << 30) - HEAD_TOKENS)
    lead, size = room // 3, room - room // 3
    if room < LEAST_ROOM:
        return ()
    data = text.encode()[:MOST_BYTES]
    data = data.decode(errors="ignore").encode()
    start, most = _cut(data, min(lead, FIRST_LEAD_BYTES), 0), min(size, TIMED_BYTES)
    found: list[Stretch] = []
    while 0 < start < len(data):
        end = _cut(data, start + most, start)
        begin = 0 if start <= lead else max(data.find(b" ", start - lead, start), start - lead)
        before = data[begin:start].decode(errors="ignore")
        found.append(Stretch(f"bytes:{len(found)}", "one_pass", before, data[start:end].decode()))
        start, most = end, size
    return (*found, replace(found[0], name=STRETCH_TIMED, path="timed")) if found else ()


def _cut(data: bytes, at: int, after: int) -> int:
    """Where to cut: before the last space up to `at`, else between two letters; past `after` in any case."""
    if at >= len(data):
        return len(data)
    space = data.rfind(b" ", after + 1, at + 1)
    if space > 0:
        return space
    while at > after + 1 and data[at] & 0xC0 == 0x80:
        at -= 1
    return at
