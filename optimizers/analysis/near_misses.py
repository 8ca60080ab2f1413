"""What both sides nearly said where a free-running answer first leaves the baseline's.

Covers whether that was a near tie, and why it is not known where it is not. The candidates with their probabilities are
in `first_divergence`: up to there both wrote the same, so what the variant gave each token while it scored the
baseline's answer is what it saw when it wrote its own.

A near tie: to the baseline, the token that the variant wrote is less likely than its own by less than 2 percentage
points, or by less than the noise of the numerics can move. A KL divergence of d nats moves the difference of two
probabilities by sqrt(2 d) at most (Pinsker's inequality); d is the run's logit floor, which is a mean over positions.
"""

from __future__ import annotations

import math

from optimizers.analysis.divergence import drawn
from optimizers.analysis.quality_words import numeric_floor
from optimizers.quality import Divergence, NearMiss
from optimizers.schema import Measurement
from optimizers.scores import Disagreement, PassageScores

NEAR_TIE = 0.02

OTHER_TOKENS = "Its tokens are not the baseline's, so what each nearly said cannot be set side by side."
DRAWN = "Its tokens were drawn by chance, so the first that differs means nothing."
BASELINE_DRAWN = "The baseline's tokens were drawn by chance, so the first that differs means nothing."
NOT_SCORED = "What each nearly said here is not known: it did not score the baseline's answer."
NO_ROOM = "What each nearly said here is not known: the baseline's probabilities were kept only up to an earlier token."
AGREED = (
    "What each nearly said here was not kept: when it scored the baseline's answer token by token, it put the "
    "baseline's token first here."
)
EARLIER = (
    "What each nearly said here was not kept: when it scored the baseline's answer token by token, it put another "
    "token first earlier, and only the first such place is kept."
)
GUESSED = "It wrote guessing ahead and was scored without guesses."


def tie_width(floor: float | None) -> float:
    """How far apart two probabilities may lie in a near tie, from the logit floor in nats; None: it is not known."""
    usable = numeric_floor(floor)
    return NEAR_TIE if usable is None else max(NEAR_TIE, math.sqrt(2 * max(0.0, usable)))


def is_near_tie(found: Disagreement, width: float) -> bool:
    """Whether the baseline found what the variant wrote as likely as its own, to within `width`. Both have candidates,
    the first of each being what it wrote."""
    first, *others = found.baseline
    written = next((other for other in others if other.token == found.variant[0].token), None)
    return written is not None and first.probability - written.probability < width


def near_misses(
    variant: Measurement,
    baseline: Measurement,
    places: tuple[Divergence, ...],
    width: float,
    same_tokenizer: bool = True,
) -> tuple[NearMiss, ...]:
    """One for each prompt whose answer reads otherwise than the baseline's; `places` are where they part."""
    texts = {output.prompt: output.text for output in baseline.outputs}
    known = {place.prompt: place for place in places}
    scores = {passage.name: passage for passage in variant.scores}
    overall = _why_none(variant, baseline, same_tokenizer)
    found = []
    for output in variant.outputs:
        if texts.get(output.prompt, output.text) == output.text:
            continue
        place = known.get(output.prompt)
        if place and place.disagreement:
            found.append(NearMiss(output.prompt, is_near_tie(place.disagreement, width)))
            continue
        token = (place.token if place else None) or 0
        why = overall or _why(variant, token, scores.get(f"answer:{output.prompt}"))
        found.append(NearMiss(output.prompt, None, why))
    return tuple(found)


def _why_none(variant: Measurement, baseline: Measurement, same_tokenizer: bool) -> str | None:
    """Why nothing is known of any prompt; None where something may be."""
    if not same_tokenizer:
        return OTHER_TOKENS
    if drawn(variant):
        return DRAWN
    return BASELINE_DRAWN if drawn(baseline) else None


def _why(variant: Measurement, token: int, passage: PassageScores | None) -> str:
    if passage is None:
        return NOT_SCORED
    if passage.left_out and token >= len(passage.kl_divergence):
        return NO_ROOM
    why = EARLIER if passage.same_top[token : token + 1] == (False,) else AGREED
    guessed = variant.census is not None and variant.census.decoding == "prompt_lookup"
    return f"{GUESSED} {why}" if guessed else why
