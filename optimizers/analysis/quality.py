"""Quality of one variant from its scored passages: the baseline's answers, and the text written by people.

The answers ("answer:N") were scored through the timed path. The text was scored in one pass ("text:N") and its first
positions through the timed path as well ("text_timed"). On those same positions the two paths disagree when their mean
KL divergences differ by more than a factor of 1.5, by more than the logit noise floor and by more than 0.001 nats; then
the timed path's figures are the ones shown (`one_pass` False). Positions without a finite figure are left out and
counted. A variant of other tokens than the baseline's is judged by bytes alone (`per_byte.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from optimizers.analysis import divergence, statistics
from optimizers.analysis.near_misses import near_misses, tie_width
from optimizers.analysis.per_byte import per_byte
from optimizers.analysis.quality_words import is_numeric_noise
from optimizers.quality import Quality, TextQuality
from optimizers.schema import Measurement
from optimizers.scores import PassageScores

DISAGREEMENT_FACTOR = 1.5
DISAGREEMENT_NATS = 0.001
TIMED_TEXT = "text_timed"


@dataclass(frozen=True)
class Positions:
    """The finite positions of passages, one entry each, and how many were left out."""

    kl_divergence: tuple[float, ...]
    same_top: tuple[bool, ...]
    baseline_logprob: tuple[float, ...]
    variant_logprob: tuple[float, ...]
    left_out: int


@dataclass(frozen=True)
class PathDisagreement:
    """Mean KL divergence of the same positions in one pass and through the timed path."""

    one_pass: float
    timed: float
    positions: int


def positions(passages: Iterable[PassageScores]) -> Positions:
    """All finite positions of the passages, in order. A passage whose sequences differ in length cannot be believed
    and is left out whole."""
    rows: list[tuple[float, bool, float, float]] = []
    left_out = 0
    for passage in passages:
        columns = (passage.kl_divergence, passage.same_top, passage.baseline_logprob, passage.variant_logprob)
        lengths = {len(column) for column in columns}
        left_out += max(0, passage.left_out)
        if len(lengths) > 1:
            left_out += max(lengths)
            continue
        sound = [row for row in zip(*columns, strict=True) if all(map(math.isfinite, row))]
        left_out += len(passage.kl_divergence) - len(sound)
        rows += sound
    kl, top, base, ours = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Positions(kl, top, base, ours, left_out)


def answer_passages(measurement: Measurement) -> list[PassageScores]:
    """The baseline's answers as this variant scored them."""
    return [passage for passage in measurement.scores if passage.name.startswith("answer:")]


def text_passages(measurement: Measurement) -> list[PassageScores]:
    """The text written by people, in one pass per window."""
    return [passage for passage in measurement.scores if passage.name.startswith("text:")]


def logit_noise(baseline: Measurement) -> float | None:
    """Mean KL divergence of the baseline's step-by-step path from its own single pass; None when not scored."""
    found = positions(passage for passage in baseline.scores if passage.name == TIMED_TEXT)
    return fmean(found.kl_divergence) if found.kl_divergence else None


def path_disagreement(measurement: Measurement, noise: float | None) -> PathDisagreement | None:
    """The two paths' figures where they disagree (the rule is in this module's docstring), else None."""
    by_name = {passage.name: passage for passage in measurement.scores}
    timed, window = by_name.get(TIMED_TEXT), by_name.get("text:0")
    if timed is None or window is None:
        return None
    both = list(zip(window.kl_divergence, timed.kl_divergence, strict=False))
    sound = [(one, step) for one, step in both if math.isfinite(one) and math.isfinite(step)]
    if not sound:
        return None
    one_pass, stepped = fmean(one for one, _ in sound), fmean(step for _, step in sound)
    apart = abs(one_pass - stepped)
    if apart <= max(noise or 0.0, DISAGREEMENT_NATS):
        return None
    if max(one_pass, stepped) <= DISAGREEMENT_FACTOR * min(one_pass, stepped):
        return None
    return PathDisagreement(one_pass, stepped, len(sound))


def quality(variant: Measurement, baseline: Measurement, seed: int, same_tokenizer: bool = True) -> Quality | None:
    """Quality against the baseline; None when nothing was scored and nothing can be compared."""
    answers = answer_passages(variant) if same_tokenizer else []
    pooled = positions(answers)
    spread, noise = statistics.spread(pooled.kl_divergence), logit_noise(baseline)
    found = divergence.divergences(variant, baseline) if same_tokenizer else ()
    text = text_quality(variant, noise, abs(seed)) if same_tokenizer else None
    by_bytes = per_byte(variant, baseline, same_tokenizer, abs(seed))
    if not (pooled.kl_divergence or found or text or by_bytes):
        return None
    return Quality(
        task="text_generation",
        positions=len(pooled.kl_divergence),
        kl_divergence=spread,
        kl_interval=statistics.bootstrap_mean([positions([answer]).kl_divergence for answer in answers], abs(seed)),
        same_top=statistics.rate(sum(pooled.same_top), len(pooled.same_top)),
        text=text,
        first_divergence=found,
        exact_match_rate=divergence.exact_match_rate(found),
        length_ratio=divergence.length_ratio(variant, baseline) if same_tokenizer else None,
        per_byte=by_bytes,
        within_noise=is_numeric_noise(spread.mean if spread else None, noise),
        near_misses=near_misses(variant, baseline, found, tie_width(noise), same_tokenizer),
    )


def text_quality(variant: Measurement, noise: float | None, seed: int) -> TextQuality | None:
    """Quality on the text written by people; None when it was not scored."""
    windows = text_passages(variant)
    timed = [passage for passage in variant.scores if passage.name == TIMED_TEXT]
    one_pass = bool(windows) and path_disagreement(variant, noise) is None
    shown = windows if one_pass else timed
    found = positions(shown)
    kl = statistics.spread(found.kl_divergence)
    same_top = statistics.rate(sum(found.same_top), len(found.same_top))
    ours, theirs = found.variant_logprob, found.baseline_logprob
    shift = statistics.delta_p(ours, theirs)
    delta = statistics.spread(shift)
    if kl is None or same_top is None or delta is None:
        return None
    return TextQuality(
        positions=same_top.n,
        one_pass=one_pass,
        kl_divergence=kl,
        same_top=same_top,
        perplexity=statistics.perplexity(ours),
        baseline_perplexity=statistics.perplexity(theirs),
        perplexity_ratio=statistics.perplexity_ratio(ours, theirs),
        delta_p=delta,
        rms_delta_p=statistics.root_mean_square(shift),
        left_out=found.left_out,
        perplexity_se=statistics.perplexity_error(ours),
        baseline_perplexity_se=statistics.perplexity_error(theirs),
        log_perplexity_ratio=statistics.log_perplexity_ratio(ours, theirs),
        perplexity_difference=statistics.perplexity_difference(ours, theirs),
        correlation=statistics.correlation(ours, theirs),
        rms_delta_p_se=statistics.root_mean_square_error(shift),
        kl_interval=statistics.bootstrap_mean([positions([passage]).kl_divergence for passage in shown], seed),
    )


def left_out(measurement: Measurement) -> tuple[int, Sequence[str]]:
    """How many scored positions had no figure, and in which passages."""
    counts = {passage.name: positions([passage]).left_out for passage in measurement.scores}
    return sum(counts.values()), [name for name, count in counts.items() if count]
