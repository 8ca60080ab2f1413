"""Where a free-running answer leaves the baseline's: on the generated token ids, by common prefix, never on text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest

from optimizers.quality import Divergence
from optimizers.schema import Measurement, Output
from optimizers.scores import Candidate, Disagreement, PassageScores

CANDIDATES = 5
LONGEST_TOKEN = 256  # characters; no vocabulary has longer ones that say more


def first_divergence(variant: Output, baseline: Output) -> int | None:
    """Index of the first token that differs; where one answer is the beginning of the other, the length of the
    shorter. None when they are equal and both stopped or both were cut."""
    absent = object()
    for index, (ours, theirs) in enumerate(zip_longest(variant.token_ids, baseline.token_ids, fillvalue=absent)):
        if ours != theirs:
            return index
    return None if variant.stopped == baseline.stopped else len(variant.token_ids)


def divergences(variant: Measurement, baseline: Measurement) -> tuple[Divergence, ...]:
    """One for each prompt that both answered, with both sides' candidates where they were scored at that token; none
    where tokens were drawn by chance: such answers differ without meaning anything by it."""
    if drawn(variant) or drawn(baseline):
        return ()
    answers = {output.prompt: output for output in baseline.outputs}
    scores = {passage.name: passage for passage in variant.scores}
    return tuple(
        _divergence(output, answers[output.prompt], scores) for output in variant.outputs if output.prompt in answers
    )


def drawn(measurement: Measurement) -> bool:
    """Whether this variant's answers were drawn by chance."""
    return measurement.census is not None and measurement.census.decoding == "sampling"


def _divergence(output: Output, answer: Output, scores: Mapping[str, PassageScores]) -> Divergence:
    token = first_divergence(output, answer)
    passage = scores.get(f"answer:{output.prompt}")
    disagreement = passage.disagreement if passage else None
    same_place = disagreement is not None and disagreement.position == token
    return Divergence(output.prompt, token, sound(disagreement) if same_place else None)


def sound(found: Disagreement | None) -> Disagreement | None:
    """No more of it than can be shown; None unless both sides have candidates and every probability is one."""
    if found is None or not (found.baseline and found.variant):
        return None
    if not all(0 <= candidate.probability <= 1 for candidate in (*found.baseline, *found.variant)):
        return None
    return replace(found, baseline=_bounded(found.baseline), variant=_bounded(found.variant))


def _bounded(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    return tuple(replace(candidate, token=candidate.token[:LONGEST_TOKEN]) for candidate in candidates[:CANDIDATES])


def exact_match_rate(found: tuple[Divergence, ...]) -> float | None:
    """The share of prompts answered with the very same tokens; None without prompts."""
    return sum(item.token is None for item in found) / len(found) if found else None


def length_ratio(variant: Measurement, baseline: Measurement) -> float | None:
    """Mean over prompts of natural length over the baseline's; a prompt that the baseline answered with nothing is
    left out."""
    lengths = {output.prompt: len(output.token_ids) for output in baseline.outputs}
    ratios = [len(o.token_ids) / lengths[o.prompt] for o in variant.outputs if lengths.get(o.prompt)]
    return sum(ratios) / len(ratios) if ratios else None
