"""How well a model foretells given text, as frozen records: position by position against the baseline, or by bytes.

Covers which text of the person's own that is and what a worker scores and sends; what the figures say together is
`analysis/`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Which tokens of the vocabulary a KL divergence sums over: all of them or, as in llama.cpp's perplexity tool, those to
# which the baseline gives a log-probability above -16.
KlTerms = Literal["all", "llama_cpp"]


@dataclass(frozen=True)
class OwnText:
    """A text of the person's own, in place of the packaged one. `name` is its file's, empty where it had none; `sha256`
    and `bytes` are of the whole of it. `head` is its beginning, of which as much is scored as there is room for; a long
    one is not repeated in run.json (empty)."""

    name: str
    sha256: str
    bytes: int
    head: str = ""

    @property
    def called(self) -> str:
        """What it is called in a sentence."""
        return f"your text ({self.name})" if self.name else "your text"


@dataclass(frozen=True)
class Candidate:
    token: str
    probability: float


@dataclass(frozen=True)
class Disagreement:
    """The first position of a passage at which baseline and variant would not choose the same token."""

    position: int
    baseline: tuple[Candidate, ...]
    variant: tuple[Candidate, ...]


@dataclass(frozen=True)
class PassageScores:
    """Per-position comparison of one passage; the four sequences have one entry per scored position, in nats.

    `name` is "answer:N", "text:N" or "text_timed"; `kl_divergence` is KL(baseline || variant); the log-probabilities
    are those of the passage's own token. `left_out` counts positions that had no reference."""

    name: str
    path: Literal["timed", "one_pass"]
    kl_divergence: tuple[float, ...]
    same_top: tuple[bool, ...]
    baseline_logprob: tuple[float, ...]
    variant_logprob: tuple[float, ...]
    left_out: int = 0
    disagreement: Disagreement | None = None


@dataclass(frozen=True)
class StretchScore:
    """What a model makes of one stretch of text, in tokens of its own: `logprob` is the sum of its tokens'
    log-probabilities (nats) given the text before it, `bytes` its length in UTF-8. `spelled` says whether the tokens
    spell the text out; where they do not (unknown words, folded capitals) the figure flatters the model."""

    name: str
    path: Literal["timed", "one_pass"]
    logprob: float
    bytes: int
    tokens: int
    spelled: bool = True


@dataclass(frozen=True)
class Reference:
    """The baseline's log-probabilities: a file of float32 rows of `vocab_size`, natural logarithm, no header. `row` is
    the first row of the passage. A passage may run past `rows_limit`; positions from there on have no reference."""

    path: str
    vocab_size: int
    row: int
    rows_limit: int


@dataclass(frozen=True)
class Passage:
    """Token ids to be scored: each of `target_ids` given all before it. `path` is how: "timed" steps through generate()
    with the timed request's own cache and graph, "one_pass" is a single forward."""

    name: str
    path: Literal["timed", "one_pass"]
    context_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    row: int


@dataclass(frozen=True)
class Stretch:
    """Text to be scored in whichever tokens a model makes of it, given `lead`, the text before it, which is not scored.
    `path` as in Passage."""

    name: str
    path: Literal["timed", "one_pass"]
    lead: str
    text: str
