"""How near a variant comes to what the machine can do at most, by the two bounds of the roofline model (Williams,
Waterman and Patterson, "Roofline", Communications of the ACM 52:4, 2009).

    one decode pass    least seconds = (weights + keys and values, in bytes) / bandwidth in bytes per second
    the prompt's pass  least seconds = 2 x (weights in products x prompt tokens + weights of the head) / operations
                                       per second
    share of the bound = least seconds / measured seconds

Keys and values are those of prompt + half the answer, the mean over the passes. The head counts once, since only the
last position's scores are needed; attention's own products are left out. So both are bounds from below: a share over 1
says that a figure of the machine was too low, and is shown.
"""

from __future__ import annotations

import math

from optimizers.limits import DecodeLimit, Demand, MachineLimits, NearLimit, PromptLimit
from optimizers.results import Latency, Stat
from optimizers.schema import Checkpoint

OPERATIONS_PER_WEIGHT = 2  # a multiplication and an addition
MOST = 10**24  # no machine holds so many bytes and no prompt needs so many operations


def sound(limits: MachineLimits) -> bool:
    """Whether a machine can have these limits: finite and above zero."""
    rates = (limits.memory_bytes_per_s, limits.cache_bytes_per_s, *limits.operations_per_s.values())
    return limits.threads > 0 and all(math.isfinite(rate) and rate > 0 for rate in rates)


def near_limit(
    limits: MachineLimits | None,
    demand: Demand | None,
    checkpoint: Checkpoint,
    figures: Latency | None,
    prompt_tokens: int,
    new_tokens: int,
) -> NearLimit | None:
    """Both bounds of a variant; None where neither can be said. `checkpoint` is the variant's own."""
    if limits is None or demand is None or figures is None or not sound(limits):
        return None
    if not (0 < demand.weights_bytes < MOST and 0 <= demand.cache_bytes_per_token < MOST and 0 < prompt_tokens < MOST):
        return None
    operations = operations_of_prompt(checkpoint, prompt_tokens)
    decode = _decode(limits, demand, figures, bytes_of_pass(demand, prompt_tokens, new_tokens))
    prompt = _prompt(limits, demand.computes_in, figures, operations, prompt_tokens)
    return NearLimit(decode, prompt) if decode or prompt else None


def bytes_of_pass(demand: Demand, prompt_tokens: int, new_tokens: int) -> int:
    """Bytes that a decode pass must read, on the mean of an answer:
    weights + keys and values of a token x (prompt tokens + new tokens / 2)."""
    return demand.weights_bytes + round(demand.cache_bytes_per_token * (prompt_tokens + new_tokens / 2))


def operations_of_prompt(checkpoint: Checkpoint, prompt_tokens: int) -> int:
    """Operations that a prompt needs: 2 x (weights in products x tokens + weights of the head), the head being the
    embedding where they are tied."""
    head = checkpoint.vocab_size * checkpoint.hidden_size
    body = checkpoint.linear_parameters - (0 if checkpoint.tied_embeddings else head)
    return OPERATIONS_PER_WEIGHT * (max(0, body) * prompt_tokens + head)


def _decode(limits: MachineLimits, demand: Demand, figures: Latency, bytes_read: int) -> DecodeLimit | None:
    """Weights that fit the last-level cache may stay there from pass to pass: they are held against its bandwidth."""
    per_token = _positive(figures.time_per_output_token_s)
    if per_token is None:
        return None
    fits = limits.last_level_bytes is not None and bytes_read <= limits.last_level_bytes
    bandwidth = limits.cache_bytes_per_s if fits else limits.memory_bytes_per_s
    measured_s = per_token * (figures.tokens_per_step or 1.0)
    least_s = bytes_read / bandwidth
    share = least_s / measured_s
    return DecodeLimit(bytes_read, "cache" if fits else "memory", bandwidth, least_s, measured_s, share)


def _prompt(
    limits: MachineLimits, computes_in: str, figures: Latency, operations: int, tokens: int
) -> PromptLimit | None:
    rate, possible = _positive(figures.prefill_tokens_per_s), limits.operations_per_s.get(computes_in)
    if rate is None or possible is None or not 0 < operations < MOST:
        return None
    measured_s, least_s = tokens / rate, operations / possible
    return PromptLimit(operations, computes_in, possible, least_s, measured_s, least_s / measured_s)


def _positive(stat: Stat | None) -> float | None:
    return stat.median if stat is not None and stat.median > 0 else None
