"""How far a variant's answers are from the baseline's, summed up: part of run.json, as frozen records.

Covers shapes only, from a mean with its error to the whole of `quality`; `analysis/` computes the values. The figures
per position that they come from are in `scores.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from optimizers.scores import Disagreement


@dataclass(frozen=True)
class Spread:
    """Per-position figures summed up as llama.cpp's perplexity tool does: mean with its standard error, percentiles.

    A percentile that the number of positions cannot carry is None."""

    mean: float
    se: float | None
    max: float
    p99: float | None
    p95: float | None
    p90: float | None
    median: float
    min: float
    p999: float | None = None
    p10: float | None = None
    p5: float | None = None
    p1: float | None = None


@dataclass(frozen=True)
class Estimate:
    """A figure with its standard error, None where it cannot be said."""

    value: float
    se: float | None


@dataclass(frozen=True)
class Rate:
    """A share of `n` positions with its binomial standard error."""

    rate: float
    se: float | None
    n: int


@dataclass(frozen=True)
class Interval:
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class TextQuality:
    """Quality on the text written by people, the packaged one or the person's own. `one_pass` says whether the figures
    come from one pass per window (True) or, where that disagreed with the timed path, from the first positions through
    the timed path (False).

    The figures are those that llama.cpp's perplexity tool reports under --kl-divergence: `log_perplexity_ratio` is
    ln(variant / baseline) with an error that knows how the two go together, `correlation` that of their
    log-probabilities. `kl_interval` is a bootstrap over windows, because tokens that stand together do not differ by
    themselves; None under two windows."""

    positions: int
    one_pass: bool
    kl_divergence: Spread
    same_top: Rate
    perplexity: float
    baseline_perplexity: float
    perplexity_ratio: Interval
    delta_p: Spread
    rms_delta_p: float
    left_out: int = 0
    perplexity_se: float | None = None
    baseline_perplexity_se: float | None = None
    log_perplexity_ratio: Estimate | None = None
    perplexity_difference: Estimate | None = None
    correlation: float | None = None
    rms_delta_p_se: float | None = None
    kl_interval: Interval | None = None


@dataclass(frozen=True)
class PerByte:
    """How well another model foretells the text written by people, by its bytes: `perplexity` is exp(-sum of
    log-probabilities / bytes), `ratio` the variant's over the baseline's on the same `bytes` (UTF-8) in `stretches`
    pieces. `tokens` are those that each made of them; without `same_tokenizer` figures per token cannot be compared.
    `one_pass` as in TextQuality. `spelled` says whether the tokens spell the text out; `left_out` counts stretches
    that only the baseline scored."""

    bytes: int
    stretches: int
    one_pass: bool
    perplexity: float
    baseline_perplexity: float
    bits_per_byte: float
    baseline_bits_per_byte: float
    ratio: Interval
    tokens: int
    baseline_tokens: int
    same_tokenizer: bool
    spelled: bool = True
    left_out: int = 0


@dataclass(frozen=True)
class Divergence:
    """Where the free-running answer to `prompt` first leaves the baseline's; `token` is None when it never does."""

    prompt: int
    token: int | None
    disagreement: Disagreement | None = None


@dataclass(frozen=True)
class NearMiss:
    """What is known of the place where the answer to `prompt` leaves the baseline's, whose candidates are in
    `first_divergence`. `near_tie`: to the baseline both tokens were as likely; None where what each nearly said is not
    known, which `absent` then explains in whole sentences."""

    prompt: int
    near_tie: bool | None
    absent: str | None = None


@dataclass(frozen=True)
class Quality:
    """`kl_divergence` and `same_top` are on the baseline's answers through the timed path, `text` on human text.
    `kl_interval` is a bootstrap over prompts (None with one prompt). `length_ratio` is variant over baseline. Another
    model has `per_byte`, and, where its tokens are others, nothing that is counted in tokens. `within_noise` says that
    the answers' mean KL divergence is at or under the logit noise floor of the run. `near_misses` has one entry for
    each prompt whose answer reads otherwise than the baseline's; it is empty in runs that did not keep it."""

    task: str
    positions: int
    kl_divergence: Spread | None
    kl_interval: Interval | None
    same_top: Rate | None
    text: TextQuality | None
    first_divergence: tuple[Divergence, ...]
    exact_match_rate: float | None
    length_ratio: float | None
    per_byte: PerByte | None = None
    within_noise: bool = False
    near_misses: tuple[NearMiss, ...] = ()
