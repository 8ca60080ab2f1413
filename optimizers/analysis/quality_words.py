"""The one place that turns quality figures into a word.

The word rests on the mean KL divergence (nats per token) and the share of positions at which both would choose the same
token, on the baseline's answers; the worse of the two decides.

| word | mean KL at most | same top at least | what it is like |
|---|---|---|---|
| indistinguishable | 0.005 | 97 % | 16-bit and good 8-bit formats: one token in thirty or fewer would differ |
| slight | 0.05 | 90 % | ordinary 8-bit formats |
| noticeable | 0.5 | 65 % | ordinary 4-bit formats on a small model: other words, mostly other answers |
| broken | above | below | the text is another model's |
"""

from __future__ import annotations

import math
from typing import Literal

QualityWord = Literal["indistinguishable", "slight", "noticeable", "broken"]

_RULE: tuple[tuple[QualityWord, float, float], ...] = (
    ("indistinguishable", 0.005, 0.97),
    ("slight", 0.05, 0.90),
    ("noticeable", 0.5, 0.65),
)
ACCEPTABLE: tuple[QualityWord, ...] = ("indistinguishable", "slight")


def quality_word(kl_mean: float | None, same_top: float | None) -> QualityWord | None:
    """The word for a mean KL divergence in nats and a same-top share; None when both are unknown."""
    known = [x for x in (kl_mean, same_top) if x is not None]
    if not known:
        return None
    if not all(math.isfinite(x) for x in known):
        return "broken"
    for word, most, least in _RULE:
        if (kl_mean is None or kl_mean <= most) and (same_top is None or same_top >= least):
            return word
    return "broken"
