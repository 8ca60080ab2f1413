"""Where one request's time goes, as a worker clocks it and as a reader sees it.

Covers shapes only: the clocks are the worker's, shares and what may be believed are `analysis/`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimeParts:
    """The parts of one request, in seconds or as shares of the whole, as their holder says. They follow one another
    without overlap and leave nothing out.

    tokenize: text to token ids. prefill: the model's pass over the prompt. decode: its passes after that.
    sampling: from the end of each pass to the token on the host (logits processors, the choice, the stop check).
    python: all that is left, generate()'s own loop around the passes above all. detokenize: token ids to text."""

    tokenize: float
    prefill: float
    decode: float
    sampling: float
    python: float
    detokenize: float


@dataclass(frozen=True)
class RequestProfile:
    """One request that was clocked part by part, after all timed ones and never one of them. `parts` are seconds;
    `passes` counts the passes through the model, the prompt's among them."""

    prompt_tokens: int
    new_tokens: int
    passes: int
    total_s: float
    parts: TimeParts
