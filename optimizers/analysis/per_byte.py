"""Quality of another model by the bytes of the text written by people, which are the same whatever its tokens are.

Perplexity per byte is exp(-sum of the log-probabilities in nats / UTF-8 bytes), bits per byte is that sum over
bytes x ln 2 (the measure of Gao et al., The Pile, section 3.1). Both models are held to the same bytes: of the
stretches that both scored, in one pass ("bytes:N"). The text of "bytes:0" was scored step by step as well
("bytes_timed"): where the variant's two paths lie further apart than the baseline's, and than 0.01 nats a byte (1 % of
the figure), that stretch alone, step by step in both, is what is shown (`one_pass` False). Perplexity per token is
never compared across tokenizers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from optimizers.analysis import statistics
from optimizers.quality import Interval, PerByte
from optimizers.schema import Measurement
from optimizers.scores import StretchScore

PATHS_APART_NATS = 0.01
TIMED, FIRST = "bytes_timed", "bytes:0"


@dataclass(frozen=True)
class Pair:
    """One stretch as the variant and as the baseline scored it."""

    ours: StretchScore
    theirs: StretchScore


def pairs(variant: Measurement, baseline: Measurement) -> dict[str, Pair]:
    """The stretches that both scored, by name; of other lengths or without a finite figure they cannot be believed."""
    known = {score.name: score for score in baseline.stretches}
    found = {ours.name: Pair(ours, known[ours.name]) for ours in variant.stretches if ours.name in known}
    return {name: pair for name, pair in found.items() if _sound(pair)}


def _sound(pair: Pair) -> bool:
    both = (pair.ours, pair.theirs)
    counted = all(score.bytes > 0 and score.tokens > 0 and math.isfinite(score.logprob) for score in both)
    return counted and pair.ours.bytes == pair.theirs.bytes


def paths_apart(variant: Measurement, baseline: Measurement) -> float | None:
    """Nats per byte between the variant's two paths on one stretch, where they disagree (the rule is in this module's
    docstring), else None."""
    found = pairs(variant, baseline)
    if TIMED not in found or FIRST not in found:
        return None
    timed, one_pass = found[TIMED], found[FIRST]
    ours = abs(timed.ours.logprob - one_pass.ours.logprob) / timed.ours.bytes
    theirs = abs(timed.theirs.logprob - one_pass.theirs.logprob) / timed.theirs.bytes
    return ours if ours > max(theirs, PATHS_APART_NATS) else None


def per_byte(variant: Measurement, baseline: Measurement, same_tokenizer: bool, seed: int) -> PerByte | None:
    """Quality by bytes; None where no stretch was scored by both."""
    one_pass = paths_apart(variant, baseline) is None
    chosen = [pair for name, pair in pairs(variant, baseline).items() if (name == TIMED) is not one_pass]
    if not chosen:
        return None
    ours, theirs = [pair.ours for pair in chosen], [pair.theirs for pair in chosen]
    count = sum(score.bytes for score in ours)
    nats, base_nats = _nats(ours) / count, _nats(theirs) / count
    return PerByte(
        bytes=count,
        stretches=len(chosen),
        one_pass=one_pass,
        perplexity=statistics.exp(nats),
        baseline_perplexity=statistics.exp(base_nats),
        bits_per_byte=nats / math.log(2),
        baseline_bits_per_byte=base_nats / math.log(2),
        ratio=_ratio(chosen, seed),
        tokens=sum(score.tokens for score in ours),
        baseline_tokens=sum(score.tokens for score in theirs),
        same_tokenizer=same_tokenizer,
        spelled=all(score.spelled for score in (*ours, *theirs)),
        left_out=max(0, len(_in_one_pass(baseline)) - len(chosen)) if one_pass else 0,
    )


def _nats(scores: Iterable[StretchScore]) -> float:
    return -math.fsum(score.logprob for score in scores)


def _in_one_pass(measurement: Measurement) -> list[StretchScore]:
    return [score for score in measurement.stretches if score.name != TIMED]


def _ratio(chosen: list[Pair], seed: int) -> Interval:
    """Perplexity per byte over the baseline's, with a bootstrap interval over stretches (a text's neighboring bytes
    are not independent); no interval with a single one."""
    apart = [pair.theirs.logprob - pair.ours.logprob for pair in chosen]
    lengths = [pair.ours.bytes for pair in chosen]
    found = statistics.bootstrap_ratio(apart, lengths, seed)
    if found is None:
        return Interval(statistics.exp(apart[0] / lengths[0]), None, None)
    low, high = (None if end is None else statistics.exp(end) for end in (found.low, found.high))
    return Interval(statistics.exp(found.value), low, high)
