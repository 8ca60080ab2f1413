"""A variant's latency from its requests: medians with intervals, stages, and the point of the sweep they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from optimizers.analysis import requests
from optimizers.analysis.statistics import stat
from optimizers.results import Latency, Point, Stages, Stat
from optimizers.schema import Sample, Timing


def latency(samples: Sequence[Sample]) -> Latency | None:
    """The figures of the samples that count; None without any."""
    timings = [sample.timing for sample in samples]
    if not timings:
        return None
    return Latency(
        ttft_s=stat([timing.ttft_s for timing in timings]),
        time_per_output_token_s=_stat(requests.time_per_output_token_s, timings),
        decode_tokens_per_s=_stat(requests.decode_tokens_per_s, timings),
        prefill_tokens_per_s=_stat(requests.prefill_tokens_per_s, timings),
        total_s=stat([timing.total_s for timing in timings]),
        stages=_stages(timings),
        tokens_per_step=_tokens_per_step(timings),
        joules_per_token=_stat(requests.joules_per_token, timings),
    )


def point(samples: Sequence[Sample], figures: Latency, batch_size: int) -> Point:
    """The default point: this batch size, the median prompt length in tokens, nothing padded. Needs one sample."""
    return Point(
        batch_size=batch_size,
        prompt_tokens=round(median(sample.timing.prompt_tokens for sample in samples)),
        padding=0.0,
        latency=figures,
        throughput=stat([requests.throughput(sample, batch_size) for sample in samples]),
    )


def _stat(figure: Callable[[Timing], float | None], timings: Sequence[Timing]) -> Stat | None:
    return stat([value for timing in timings if (value := figure(timing)) is not None])


def _tokens_per_step(timings: Sequence[Timing]) -> float | None:
    counted = [timing for timing in timings if timing.steps]
    steps = sum(timing.steps or 0 for timing in counted)
    return sum(len(timing.token_times_s) for timing in counted) / steps if steps else None


def _stages(timings: Sequence[Timing]) -> Stages:
    return Stages(
        tokenize_s=median(timing.tokenize_s for timing in timings),
        prefill_s=median(timing.prefill_s for timing in timings),
        decode_s=median(requests.decode_s(timing) for timing in timings),
        detokenize_s=median(timing.detokenize_s for timing in timings),
        overhead_s=median(requests.overhead_s(timing) for timing in timings),
    )
