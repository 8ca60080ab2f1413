"""Whether a model that a search of the hub found would fit this machine, by what its listing tells.

Covers the baseline's libraries and weights, by the arithmetic of `predictions.py`. A listing tells neither layers nor
vocabulary, so the cache and the logits, small beside them, are left out; the estimate of a plan counts all.
"""

from __future__ import annotations

from dataclasses import replace

from optimizers.planning import predictions
from optimizers.results import Fit, Hit


def judged(hit: Hit, limit_bytes: int) -> Hit:
    """The hit with its `fit` within `limit_bytes` of memory: the baseline is in 32 bits or, where that is too much, as
    the weights are stored."""
    return replace(hit, fit=_fit(hit, limit_bytes - predictions.RUNTIME_BYTES))


def _fit(hit: Hit, room_bytes: int) -> Fit:
    if hit.parameters is None or hit.disk_bytes is None:
        return "unknown"
    if hit.parameters * predictions.STORED_BYTES["float32"] <= room_bytes:
        return "fits"
    return "as stored" if hit.disk_bytes <= room_bytes else "too large"
