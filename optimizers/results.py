"""The finished comparison (run.json, schema "levers.run/1") and the live view of a run, as frozen records.

Field names are those of run.json: to_json(run) IS the file. Covers shapes only; `analysis/` computes the values.
Ratios of speed are above 1 when the variant is faster, ratios of bytes are variant over baseline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from optimizers.limits import MachineLimits, NearLimit
from optimizers.profiles import TimeParts
from optimizers.quality import Quality
from optimizers.schema import (
    Census,
    Cost,
    Explanation,
    Machine,
    Memory,
    Obstacle,
    Output,
    RunStatus,
    VariantStatus,
    Workload,
)
from optimizers.votes import MOST_VOTES, Vote

RUN_SCHEMA: Literal["levers.run/1"] = "levers.run/1"

Verdict = Literal["faster", "slower", "within noise", "too few rounds", "baseline"]
Fit = Literal["fits", "as stored", "too large", "unknown"]
MARKS: dict[Verdict, str] = {"faster": "▲", "slower": "▼", "within noise": "≈", "too few rounds": "…", "baseline": "◆"}


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
    the mean of new tokens for each pass through the model: above 1 where some were guessed ahead. `joules_per_token` is
    the graphics card's energy over a request's new tokens, the prompt's share included."""

    ttft_s: Stat | None
    time_per_output_token_s: Stat | None
    decode_tokens_per_s: Stat | None
    prefill_tokens_per_s: Stat | None
    total_s: Stat | None
    stages: Stages | None
    tokens_per_step: float | None = None
    joules_per_token: Stat | None = None


@dataclass(frozen=True)
class Point:
    batch_size: int
    prompt_tokens: int
    padding: float
    latency: Latency
    throughput: Stat | None


@dataclass(frozen=True)
class VersusBaseline:
    decode: Ratio | None
    ttft: Ratio | None
    prefill: Ratio | None
    weights_bytes: float | None
    run_peak_bytes: float | None
    saved_bytes: float | None = None


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
class WhereTimeGoes:
    """One request of this variant, clocked part by part after all timed ones: it supplies none of their figures.
    `seconds` and `shares` (of `total_s`, between 0 and 1) have the same parts."""

    prompt_tokens: int
    new_tokens: int
    passes: int
    total_s: float
    seconds: TimeParts
    shares: TimeParts


@dataclass(frozen=True)
class Hosted:
    """A variant that was timed again while another program kept one core busy. `slowdown` is its median decode speed
    without that load over the one with it (1: the load cost nothing); `versus_baseline` is its decode speed against the
    baseline's, both under load, held to the noise under load."""

    decode_tokens_per_s: Stat | None
    ttft_s: Stat | None
    slowdown: float | None
    versus_baseline: Ratio | None


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
    """`linear_widths` are the input widths of its linear layers; empty in runs that did not keep them."""

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
    linear_widths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Replay:
    """How the answer to a prompt was written: when each of its tokens came, in seconds from the start of one timed
    request (the middle one of those for that prompt)."""

    prompt: int
    token_times_s: tuple[float, ...]


@dataclass(frozen=True)
class VariantResult:
    """`model` is the variant's own where it is another than the run's; `threads` are those that it was to compute with,
    None in runs that did not keep it (the census has those that it did compute with)."""

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
    four_bit: bool = False
    where_time_goes: WhereTimeGoes | None = None
    near_limit: NearLimit | None = None
    threads: int | None = None
    as_hosted: Hosted | None = None
    replays: tuple[Replay, ...] = ()

    @property
    def decode_ratio(self) -> Ratio | None:
        """Its decoding speed over the baseline's, with the word for it; None where the two cannot be compared."""
        return self.versus_baseline.decode if self.versus_baseline else None


@dataclass(frozen=True)
class NoiseFloor:
    """`decode` and `ttft` are relative half-widths: 0.02 means that ratios between 0.98 and 1.02 are noise.
    `kl_divergence` is the mean, in nats, of the baseline step by step from itself in one pass, on the human text."""

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
    limits: MachineLimits | None = None
    votes: Annotated[tuple[Vote, ...], Field(max_length=MOST_VOTES)] = ()
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
    about: Explanation
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


@dataclass(frozen=True)
class Hit:
    """A model that the hub lists for a search, by what the listing tells. `gated`: its makers must let one in first;
    `refused`: why Levers would not load it; `fit`: whether the baseline would fit this machine's memory, in 32 bits or
    only as stored."""

    id: str
    parameters: int | None
    disk_bytes: int | None
    licence: str | None = None
    gated: bool = False
    refused: Obstacle | None = None
    fit: Fit = "unknown"
