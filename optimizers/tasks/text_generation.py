"""Text generation: the default prompts, the human text, and how it is cut into passages to score.

Pure; token ids come from a worker (protocol.Tokenize). Scoring itself is the worker's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from optimizers.protocol import Passage
from optimizers.settings import TEXT_POSITIONS, TIMED_TEXT_POSITIONS

# Short enough that a window's logits over 150,000 words stay near 150 MB, long enough to give a model context.
WINDOW_POSITIONS = 256
TEXT_TIMED = "text_timed"

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


def windows(
    token_ids: Sequence[int], context_length: int, positions: int = TEXT_POSITIONS, first_row: int = 0
) -> tuple[Passage, ...]:
    """The text as passages to score: "text:0", "text:1", ... in one pass each, then "text_timed".

    Each window's first token is context and gets no score; windows do not overlap, and all together score at most
    `positions` tokens. "text_timed" scores the first tokens of "text:0" again, step by step. Row numbers of the
    reference start at `first_row`. A text of fewer than two tokens gives no passage, as does a context of one token.
    """
    size = min(WINDOW_POSITIONS, context_length - 1) if context_length else WINDOW_POSITIONS
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
