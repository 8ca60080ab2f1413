"""After how many tokens a variant has paid for its start: seconds spent once against those saved on every token.

    once(x)  = load + prepare + first request of x, in seconds
    token(x) = (ttft + (n - 1) * time per output token) / n, medians, for answers of n tokens, as many as were asked for
    tokens   = (once(variant) - once(baseline)) / (token(baseline) - token(variant)), rounded up

So the time to the first token counts once for each answer. Only what is faster by its verdict pays for itself: within
noise or slower is "never", and so is a faster decode that a slow first token eats up at this length. What starts no
later than the baseline has paid "at once". Covers what was measured in this run: code or a graph that an earlier run
left behind makes a start cheaper, and `note` says so.
"""

from __future__ import annotations

import math

from optimizers.results import Latency, Payback, VariantResult
from optimizers.schema import Cost

COLD = "Compiled afresh; a later start finds the code in the cache and costs less."
WARM = "The compiled code was found in the cache; a first start costs more."
SLOW_FIRST_TOKEN = "Its tokens come faster, its first one comes too late for answers of this length."
TOO_FEW = "Too few rounds for a verdict on its speed."


def payback(variant: VariantResult, baseline: VariantResult | None, new_tokens: int) -> Payback | None:
    """How soon `variant` pays for itself with answers of `new_tokens` tokens; None for the baseline itself, and where
    one of the two was not measured or has no decode time."""
    if baseline is None or variant.key == baseline.key or variant.cost is None or baseline.cost is None:
        return None
    ratio = variant.decode_ratio
    ours, theirs = _token_s(variant.latency, new_tokens), _token_s(baseline.latency, new_tokens)
    if ratio is None or ours is None or theirs is None:
        return None
    extra_s, saved_s = _once_s(variant.cost) - _once_s(baseline.cost), theirs - ours
    note = _compiled(variant)
    if ratio.verdict == "too few rounds":
        return Payback(extra_s, saved_s, "not known", None, TOO_FEW)
    if ratio.verdict != "faster":
        return Payback(extra_s, saved_s, "never", None, note)
    if saved_s <= 0:
        return Payback(extra_s, saved_s, "never", None, SLOW_FIRST_TOKEN)
    if extra_s <= 0:
        return Payback(extra_s, saved_s, "at once", 0, note)
    return Payback(extra_s, saved_s, "after tokens", math.ceil(extra_s / saved_s), note)


def _once_s(cost: Cost) -> float:
    return cost.load_s + cost.prepare_s + cost.warm_up_s


def _token_s(latency: Latency | None, new_tokens: int) -> float | None:
    """Seconds for each token of an answer, the wait for the first one shared by all."""
    if latency is None or latency.ttft_s is None or latency.time_per_output_token_s is None:
        return None
    return (latency.ttft_s.median + (new_tokens - 1) * latency.time_per_output_token_s.median) / new_tokens


def _compiled(variant: VariantResult) -> str:
    found = variant.census.compile.from_cache if variant.census and variant.census.compile else None
    return "" if found is None else WARM if found else COLD
