"""Where a request's time goes, from the one request that a worker clocked part by part: seconds, and shares of them.

share = seconds of the part / seconds of the whole request. A profile that cannot be (a part that is no number or below
zero, parts that do not add up to the whole) gives nothing.
"""

from __future__ import annotations

import math
from dataclasses import astuple

from optimizers.profiles import RequestProfile, TimeParts
from optimizers.results import WhereTimeGoes

ROUNDING = 1e-6


def where_time_goes(profile: RequestProfile) -> WhereTimeGoes | None:
    """The parts with their shares; None for a profile that cannot be."""
    seconds = astuple(profile.parts)
    if not all(math.isfinite(part) and part >= 0 for part in seconds) or not profile.total_s > 0:
        return None
    if not math.isclose(math.fsum(seconds), profile.total_s, rel_tol=ROUNDING, abs_tol=ROUNDING):
        return None
    return WhereTimeGoes(
        prompt_tokens=profile.prompt_tokens,
        new_tokens=profile.new_tokens,
        passes=profile.passes,
        total_s=profile.total_s,
        seconds=profile.parts,
        shares=TimeParts(*(part / profile.total_s for part in seconds)),
    )


def outside_model(shares: TimeParts) -> float:
    """The part of a request in which the model computes nothing: all but its passes."""
    return max(0.0, 1.0 - shares.prefill - shares.decode)
