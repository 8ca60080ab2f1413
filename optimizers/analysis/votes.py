"""Answers read without their names: which pairs there are, in what order and on which sides a reader gets them, and
what the votes say.

Covers pairs of the baseline's and a measured variant's answer to the same prompt. Two that are word for word the same
are never asked. The sign test leaves votes without a difference out; with several variants it is corrected for their
number. It knows nothing of who reads: the votes of one person are no sample of people.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from optimizers.analysis.statistics import holm, sign_test
from optimizers.results import Run
from optimizers.votes import MOST_VOTES, Preference, Vote

CERTAIN = 0.05  # a preference counts as one when its p lies under this

Side = Literal["left", "right", "same"]
PairKey = tuple[str, int]


@dataclass(frozen=True)
class Pairs:
    """`different` holds the texts (the baseline's, the variant's) of each pair, by the variant's key and the prompt's
    index; `alike` counts the pairs that are word for word the same."""

    different: dict[PairKey, tuple[str, str]]
    alike: int


@dataclass(frozen=True)
class Pair:
    """A variant's answer beside the baseline's, which stands on the left where `baseline_left`."""

    variant: str
    prompt: int
    baseline_left: bool


@dataclass(frozen=True)
class Tally:
    """The votes on one variant. `p` is that of the exact two-sided sign test, corrected for the number of variants;
    None where no vote has a preference."""

    variant: str
    title: str
    better: int
    same: int
    worse: int
    p: float | None

    @property
    def decided(self) -> int:
        """Votes with a preference."""
        return self.better + self.worse

    @property
    def word(self) -> Literal["better", "worse", "open"]:
        """How the variant reads against the baseline, "open" where the votes cannot tell."""
        if self.p is None or self.p >= CERTAIN:
            return "open"
        return "better" if self.better > self.worse else "worse"


@dataclass(frozen=True)
class Tallies:
    """Those of all variants with votes, in the order of the run; how many sittings and prompts the votes come from, and
    for how many tests they were corrected."""

    variants: tuple[Tally, ...]
    voters: int
    prompts: int
    tests: int


class Ballots:
    """Votes as they come, at most MOST_VOTES: of one voter on one pair the last counts."""

    def __init__(self, votes: Iterable[Vote] = ()) -> None:
        self.cast = 0
        self._last: dict[tuple[str, str, int], Vote] = {}
        for vote in votes:
            self.add(vote)

    def add(self, vote: Vote) -> None:
        """One more vote."""
        if self.cast < MOST_VOTES:
            self.cast += 1
            self._last[vote.voter, vote.variant, vote.prompt] = vote

    @property
    def counted(self) -> tuple[Vote, ...]:
        """Those that count."""
        return tuple(self._last.values())


def pairs(run: Run) -> Pairs:
    """The pairs of answers of a run, so far as it has come."""
    texts = {
        variant.key: {output.prompt: output.text for output in variant.outputs}
        for variant in run.variants
        if variant.status == "measured"
    }
    base = texts.pop(run.baseline, {})
    found = {
        (key, prompt): (base[prompt], text)
        for key, answers in texts.items()
        for prompt, text in answers.items()
        if prompt in base
    }
    different = {pair: both for pair, both in found.items() if both[0] != both[1]}
    return Pairs(different, len(found) - len(different))


def deck(run: Run, voter: str) -> tuple[Pair, ...]:
    """Every pair that can come in this run, in the order and on the sides that are this voter's own.

    A pair keeps its place and its sides while the run goes on. Over the prompts of a variant the baseline stands on
    each side equally often; of an odd number, on one side once more, and chance says on which."""
    chance = random.Random(f"{run.id}:{voter}")
    prompts = range(len(run.workload.prompts))
    dealt: list[Pair] = []
    for variant in run.variants:
        if variant.key != run.baseline:
            first = chance.randrange(2)
            sides = [(first + prompt) % 2 == 0 for prompt in prompts]
            chance.shuffle(sides)
            dealt += [Pair(variant.key, prompt, left) for prompt, left in zip(prompts, sides, strict=True)]
    chance.shuffle(dealt)
    return tuple(dealt)


def preference(pair: Pair, side: Side) -> Preference:
    """What it says of the variant that this side reads better."""
    if side == "same":
        return "same"
    return "worse" if pair.baseline_left == (side == "left") else "better"


def tallies(run: Run) -> Tallies:
    """What the votes of a run say; those on what it does not hold, as a file from elsewhere may have them, are left
    out."""
    titles = {variant.key: variant.title for variant in run.variants if variant.key != run.baseline}
    prompts = range(len(run.workload.prompts))
    votes = Ballots(vote for vote in run.votes if vote.variant in titles and vote.prompt in prompts).counted
    counts = {vote.variant: Counter[Preference]() for vote in votes}
    for vote in votes:
        counts[vote.variant][vote.preference] += 1
    found = {key: sign_test(count["better"], count["worse"]) for key, count in counts.items()}
    tested = {key: p for key, p in found.items() if p is not None}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    return Tallies(
        variants=tuple(
            Tally(key, title, counts[key]["better"], counts[key]["same"], counts[key]["worse"], corrected.get(key))
            for key, title in titles.items()
            if key in counts
        ),
        voters=len({vote.voter for vote in votes}),
        prompts=len({vote.prompt for vote in votes}),
        tests=len(tested),
    )
