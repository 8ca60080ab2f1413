"""What one request took: the figures of single samples, and the samples that count by round.

Covers the step from raw timings to figures per request; what many requests say together is in `latency.py`. A timing
that cannot be (not finite, negative, tokens that come before the ones before them) counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from optimizers.schema import Sample, Timing

# No clock reads shorter and no request lasts longer: a figure outside them is not a time.
SHORTEST_S = 1e-9
LONGEST_S = 1e9


def counted(samples: Iterable[Sample]) -> dict[int, Sample]:
    """The sample that counts of each round, in order of rounds: not superseded, possible, the last attempt."""
    found: dict[int, Sample] = {}
    for sample in samples:
        rival = found.get(sample.round)
        if sample.superseded or not possible(sample.timing):
            continue
        if rival is None or sample.attempt >= rival.attempt:
            found[sample.round] = sample
    return dict(sorted(found.items()))


def possible(timing: Timing) -> bool:
    """Whether a clock can have given this timing: finite, not negative, tokens in order, at least one token."""
    singles = (timing.tokenize_s, timing.prefill_s, timing.ttft_s, timing.detokenize_s, timing.total_s)
    sound = all(0 <= x <= LONGEST_S for x in (*singles, *timing.token_times_s))  # false for not-a-number, too
    sound = sound and min(timing.ttft_s, timing.total_s) >= SHORTEST_S
    ordered = all(first <= second for first, second in pairwise(timing.token_times_s))
    return bool(timing.token_times_s) and sound and ordered


def decode_s(timing: Timing) -> float:
    """Seconds from the first new token to the last; 0 with one token."""
    return timing.token_times_s[-1] - timing.token_times_s[0]


def time_per_output_token_s(timing: Timing) -> float | None:
    """(last token - first token) / (n - 1); None with one token."""
    steps = len(timing.token_times_s) - 1
    return decode_s(timing) / steps if steps and decode_s(timing) >= SHORTEST_S else None


def decode_tokens_per_s(timing: Timing) -> float | None:
    """The inverse of the time per output token; None with one token."""
    step = time_per_output_token_s(timing)
    return 1 / step if step else None


def prefill_tokens_per_s(timing: Timing) -> float | None:
    """Prompt tokens over the forward time of the prompt."""
    return (
        timing.prompt_tokens / timing.prefill_s if timing.prefill_s >= SHORTEST_S and timing.prompt_tokens > 0 else None
    )


def joules_per_token(timing: Timing) -> float | None:
    """Joules of the whole request over its new tokens; None where the energy was not told or cannot be (a counter that
    went back). One that stood still counts as 0: to leave such requests out would make the others' median too high."""
    joules = timing.joules
    return joules / len(timing.token_times_s) if joules is not None and 0 <= joules < LONGEST_S else None


def overhead_s(timing: Timing) -> float:
    """What tokenization, prefill, decode and detokenization do not account for; never under 0, since text that is
    put together while tokens still come is in two stages at once."""
    known = timing.tokenize_s + timing.prefill_s + decode_s(timing) + timing.detokenize_s
    return max(0.0, timing.total_s - known)


def throughput(sample: Sample, batch_size: int) -> float:
    """New tokens of the whole batch per second of the whole request."""
    return batch_size * len(sample.timing.token_times_s) / sample.timing.total_s
