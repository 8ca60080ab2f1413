"""The finished comparison (run.json, schema "levers.run/1") and the live view of a run, as frozen records.

Field names are those of run.json: to_json(run) IS the file. Covers shapes only; `analysis/` computes the values.
Ratios of speed are above 1 when the variant is faster, ratios of bytes are variant over baseline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from optimizers.schema import Census, Cost, Machine, Memory, Output, RunStatus, VariantStatus, Workload
from optimizers.scores import Disagreement

RUN_SCHEMA: Literal["levers.run/1"] = "levers.run/1"

Verdict = Literal["faster", "slower", "within noise", "too few rounds", "baseline"]
MARKS: dict[Verdict, str] = {"faster": "▲", "slower": "▼", "within noise": "≈", "too few rounds": "…", "baseline": "◆"}
VERDICTS: tuple[Verdict, ...] = tuple(MARKS)


@dataclass(frozen=True)
class Stat:
    """A median of `n` values with its 95 % confidence interval; `low`, `high` are None where `n` cannot carry one."""

    median: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Ratio:
    """A paired ratio to the baseline with its 95 % interval (None under two pairs), and the word for it."""

    ratio: float
    low: float | None
    high: float | None
    verdict: Verdict


@dataclass(frozen=True)
class Stages:
    """Median seconds of one request by stage; `overhead_s` is what the other four do not account for."""

    tokenize_s: float
    prefill_s: float
    decode_s: float
    detokenize_s: float
    overhead_s: float


@dataclass(frozen=True)
class Latency:
    """None where the request cannot carry the figure (one new token has no time per output token). `tokens_per_step` is
    the mean of new tokens for each pass through the model: above 1 where some were guessed ahead."""

    ttft_s: Stat | None
    time_per_output_token_s: Stat | None
    decode_tokens_per_s: Stat | None
    prefill_tokens_per_s: Stat | None
    total_s: Stat | None
    stages: Stages | None
    tokens_per_step: float | None = None


@dataclass(frozen=True)
class Point:
    batch_size: int
    prompt_tokens: int
    padding: float
    latency: Latency
    throughput: Stat | None


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
    """Quality on the text written by people. `one_pass` says whether the figures come from one pass per window (True)
    or, where that disagreed with the timed path, from the first positions through the timed path (False).

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
class Quality:
    """`kl_divergence` and `same_top` are on the baseline's answers through the timed path, `text` on human text.
    `kl_interval` is a bootstrap over prompts (None with one prompt). `length_ratio` is variant over baseline. Another
    model has `per_byte`, and, where its tokens are others, nothing that is counted in tokens."""

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


@dataclass(frozen=True)
class VersusBaseline:
    decode: Ratio | None
    ttft: Ratio | None
    prefill: Ratio | None
    weights_bytes: float | None
    run_peak_bytes: float | None


@dataclass(frozen=True)
class Step:
    """What a step of a ladder added: `versus` holds the ratios to the variant `below` it (its key), which stands in
    the baseline's place there."""

    below: str
    versus: VersusBaseline


@dataclass(frozen=True)
class Payback:
    """When a variant has paid for its start. `extra_s` are its seconds of loading, preparing and first request over the
    baseline's, `saved_s_per_token` the baseline's seconds a token over its own. `tokens` is None unless the word is "at
    once" (0) or "after tokens"; `note` is a sentence on the figures or empty."""

    extra_s: float
    saved_s_per_token: float
    word: Literal["after tokens", "at once", "never", "not known"]
    tokens: int | None
    note: str = ""


@dataclass(frozen=True)
class PromiseResult:
    """What the documentation claims against what was measured; `kept` is None where it cannot be judged."""

    claim: str
    promised: str
    measured: str | None
    kept: bool | None
    why: str | None
    source: str


@dataclass(frozen=True)
class Caveat:
    """A warning that a reader needs: `id` is stable, `text` a sentence, `remedy` what to do about it."""

    id: str
    text: str
    remedy: str
    variant: str | None = None


@dataclass(frozen=True)
class ModelFacts:
    id: str
    source: str
    revision: str
    task: str
    parameters: int
    architecture: str
    stored_dtype: str
    disk_bytes: int
    context_length: int
    quantization: str | None
    low_bit_grid: str | None


@dataclass(frozen=True)
class VariantResult:
    """`model` is the variant's own where it is another than the run's."""

    key: str
    title: str
    techniques: tuple[str, ...]
    status: VariantStatus
    reason: str | None = None
    remedy: str | None = None
    census: Census | None = None
    cost: Cost | None = None
    points: tuple[Point, ...] = ()
    latency: Latency | None = None
    memory: Memory | None = None
    quality: Quality | None = None
    outputs: tuple[Output, ...] = ()
    samples_file: str = "samples.jsonl"
    versus_baseline: VersusBaseline | None = None
    promises: tuple[PromiseResult, ...] = ()
    log_tail: tuple[str, ...] = ()
    step: Step | None = None
    payback: Payback | None = None
    model: ModelFacts | None = None


@dataclass(frozen=True)
class NoiseFloor:
    """`decode` and `ttft` are relative half-widths: 0.02 means that ratios between 0.98 and 1.02 are noise."""

    decode: float | None
    ttft: float | None
    kl_divergence: float | None


@dataclass(frozen=True)
class Recommendation:
    """One sentence for the reader who wants to know what to use; `key` is the variant it names."""

    key: str
    text: str
    reason: str
    condition: str


@dataclass(frozen=True)
class Run:
    id: str
    created_at: str
    status: RunStatus
    machine: Machine
    model: ModelFacts
    workload: Workload
    baseline: str
    noise_floor: NoiseFloor
    variants: tuple[VariantResult, ...]
    recommendation: Recommendation | None
    caveats: tuple[Caveat, ...]
    notes: tuple[str, ...] = ()
    reason: str | None = None
    schema: Literal["levers.run/1"] = field(default=RUN_SCHEMA)


@dataclass(frozen=True)
class RunSummary:
    """One line of the history."""

    id: str
    created_at: str
    status: RunStatus
    model: str
    variants: tuple[str, ...]


@dataclass(frozen=True)
class Lane:
    """One variant while a run goes on. `text` is the answer streaming in or the last one; `prompt` its index;
    `tokens_per_s` is the median of the samples so far; `active` says whose turn it is."""

    key: str
    title: str
    status: VariantStatus
    stage: str
    text: str
    prompt: int
    tokens_per_s: float | None
    turns_done: int
    turns_planned: int
    active: bool
    reason: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class LiveRun:
    """A run as the page sees it. `version` grows with each change, so that a poller can skip unchanged views; `run` is
    the comparison so far, None until every variant that can be measured has one sample."""

    id: str
    version: int
    status: RunStatus
    stage: str
    progress: float
    time_left_s: float | None
    lanes: tuple[Lane, ...]
    run: Run | None
    reason: str | None = None


@dataclass(frozen=True)
class TechniqueRow:
    """A technique as it stands on this machine; `warning` is a sentence when it is known to disappoint here."""

    id: str
    slot: str
    title: str
    summary: str
    promise: str
    available: bool
    reason: str | None = None
    remedy: str | None = None
    warning: str | None = None


@dataclass(frozen=True)
class TechniqueList:
    machine: Machine
    techniques: tuple[TechniqueRow, ...]


@dataclass(frozen=True)
class ModelEntry:
    """A checkpoint that can be picked without typing; `cached` says whether a first use would fetch something."""

    id: str
    title: str
    source: str
    cached: bool
    disk_bytes: int | None
    parameters: int | None
    note: str = ""
