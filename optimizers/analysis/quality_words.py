"""The one place that turns quality figures into a word, and that calls a difference noise.

The word rests on the mean KL divergence (nats per token) and the share of positions at which both would choose the same
token, on the baseline's answers; the worse of the two decides.

| word | mean KL at most | same top at least | what it is like |
|---|---|---|---|
| indistinguishable | 0.005 | 97 % | 16-bit and good 8-bit formats: one token in thirty or fewer would differ |
| slight | 0.05 | 90 % | ordinary 8-bit formats |
| noticeable | 0.5 | 65 % | ordinary 4-bit formats on a small model: other words, mostly other answers |
| broken | above | below | the text is another model's |

A difference is within the noise of the numerics when its mean KL is at or under the logit floor: how far the baseline's
own probabilities move on the human text when it is computed step by step instead of in one pass. The KL divergence
decides; the share of equal choices follows it, since what moves so little turns over near ties alone. A floor above the
first row of the table is no noise (a baseline that quantizes activations has one): then nothing is called noise.
"""

from __future__ import annotations

import math
from typing import Literal

QualityWord = Literal["indistinguishable", "slight", "noticeable", "broken"]

RULE: tuple[tuple[QualityWord, float, float], ...] = (
    ("indistinguishable", 0.005, 0.97),
    ("slight", 0.05, 0.90),
    ("noticeable", 0.5, 0.65),
)
LOOSEST_FLOOR = RULE[0][1]
QUALITY_WORDS: tuple[QualityWord, ...] = (*(word for word, _, _ in RULE), "broken")  # from best to worst


def quality_word(kl_mean: float | None, same_top: float | None) -> QualityWord | None:
    """The word for a mean KL divergence in nats and a same-top share; None when both are unknown."""
    known = [x for x in (kl_mean, same_top) if x is not None]
    if not known:
        return None
    if not all(math.isfinite(x) for x in known):
        return "broken"
    for word, most, least in RULE:
        if (kl_mean is None or kl_mean <= most) and (same_top is None or same_top >= least):
            return word
    return "broken"


def numeric_floor(floor: float | None) -> float | None:
    """The logit floor in nats as far as it may be called noise; None when it is not known or too wide."""
    return floor if floor is not None and floor <= LOOSEST_FLOOR else None


def is_numeric_noise(kl_mean: float | None, floor: float | None) -> bool:
    """Whether a mean KL divergence on the answers is at or under the logit floor, both in nats."""
    usable = numeric_floor(floor)
    return usable is not None and kl_mean is not None and kl_mean <= usable
