"""Votes on pairs of answers: which pairs there are, how they are dealt, what the votes say; worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import analysis_records as make
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import STEPS
from scipy import stats

from optimizers.analysis import compare
from optimizers.analysis.statistics import holm, sign_test
from optimizers.analysis.votes import Ballots, Pair, deck, pairs, preference, tallies
from optimizers.results import Run
from optimizers.schema import Output
from optimizers.votes import MOST_VOTES, Preference, Vote

ANN, BEN = "a" * 16, "b" * 16


def answers(*texts: str) -> tuple[Output, ...]:
    return tuple(Output(prompt, text, (1,), True, 1) for prompt, text in enumerate(texts))


def run(votes: Sequence[Vote] = (), **variants: Sequence[str]) -> Run:
    """The baseline answers "one", "two", "three"; so do variants "a" and "b" unless their answers are given."""
    told = {"a": ("one", "two", "three"), "b": ("one", "two", "three"), **variants}
    base = make.measurement(BASE, STEPS, outputs=answers("one", "two", "three"))
    others = [make.measurement(key, STEPS, outputs=answers(*texts)) for key, texts in told.items()]
    return replace(compare(make.record(base, *others, replica=STEPS)), votes=tuple(votes))


def cast(variant: str, better: int, same: int, worse: int) -> list[Vote]:
    """As many readers on the first prompt."""
    said: list[Preference] = [*["better"] * better, *["same"] * same, *["worse"] * worse]
    return [Vote(variant, 0, preference, f"{number:016x}") for number, preference in enumerate(said)]


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [
        (9, 0, 2 / 512),
        (0, 9, 2 / 512),
        (7, 2, 2 * (1 + 9 + 36) / 512),  # 0.18
        (1, 11, 2 * (1 + 12) / 4096),
        (6, 0, 2 / 64),
        (5, 0, 2 / 32),  # five of five are too few
        (5, 5, 1.0),
        (6, 5, 1.0),
        (1, 0, 1.0),
    ],
)
def test_the_sign_test_is_exact(one: int, other: int, p: float) -> None:
    assert sign_test(one, other) == pytest.approx(p, rel=1e-12)


def test_the_sign_test_is_the_binomial_test_of_a_fair_coin() -> None:
    for n in range(1, 31):
        for one in range(n + 1):
            assert sign_test(one, n - one) == pytest.approx(stats.binomtest(one, n, 0.5).pvalue, rel=1e-9)
    assert sign_test(0, 0) is None


def test_holm_multiplies_the_smallest_most_and_never_turns_an_order_round() -> None:
    # in order 0.005, 0.01, 0.03, 0.04: times 4, 3, 2, 1 they are 0.02, 0.03, 0.06 and 0.04, which is raised to 0.06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_answers_that_are_word_for_word_the_same_are_no_pair() -> None:
    found = pairs(run(a=("one", "TWO", "three "), b=("one", "two", "three")))
    assert found.different == {("a", 1): ("two", "TWO"), ("a", 2): ("three", "three ")}
    assert found.alike == 4


def test_only_what_was_measured_beside_the_baseline_is_a_pair() -> None:
    one = run(a=("x", "y", "z"), b=("x",))
    assert set(pairs(one).different) == {("a", 0), ("a", 1), ("a", 2), ("b", 0)}
    idle = replace(one.variants[1], status="not_applied")
    assert set(pairs(replace(one, variants=(one.variants[0], idle, *one.variants[2:]))).different) == {("b", 0)}
    lost = replace(one.variants[0], status="failed")
    assert pairs(replace(one, variants=(lost, *one.variants[1:]))).different == {}


def test_every_reader_gets_each_pair_once_in_an_order_of_their_own() -> None:
    told = run()
    dealt = deck(told, ANN)
    assert Counter((pair.variant, pair.prompt) for pair in dealt) == {(k, p): 1 for k in "ab" for p in range(3)}
    assert deck(told, ANN) == dealt
    assert deck(told, BEN) != dealt
    assert deck(replace(told, id="r2"), ANN) != dealt
    assert deck(replace(told, votes=tuple(cast("a", 1, 0, 0)), status="running"), ANN) == dealt


def test_the_side_says_nothing_and_is_balanced_over_the_prompts_of_each_variant() -> None:
    told = run()
    even = replace(told, workload=replace(told.workload, prompts=("p",) * 8))
    sides = Counter[tuple[str, int]]()
    for number in range(200):
        left = [pair for pair in deck(told, f"{number:016x}") if pair.baseline_left]
        assert {sum(pair.variant == key for pair in left) for key in "ab"} <= {1, 2}  # of three
        sides.update((pair.variant, pair.prompt) for pair in left)
        of_eight = [pair for pair in deck(even, f"{number:016x}") if pair.baseline_left]
        assert [sum(pair.variant == key for pair in of_eight) for key in "ab"] == [4, 4]
    # 200 fair coins: five standard deviations are 35
    assert all(65 <= sides[key, prompt] <= 135 for key in "ab" for prompt in range(3))


@pytest.mark.parametrize(
    ("baseline_left", "side", "said"),
    [
        (True, "left", "worse"),
        (True, "right", "better"),
        (False, "left", "better"),
        (False, "right", "worse"),
        (True, "same", "same"),
        (False, "same", "same"),
    ],
)
def test_a_side_is_what_it_says_of_the_variant(baseline_left: bool, side: str, said: str) -> None:
    assert preference(Pair("a", 0, baseline_left), side) == said  # type: ignore[arg-type]


def test_of_one_reader_on_one_pair_the_last_vote_counts() -> None:
    first, other, again = Vote("a", 0, "better", ANN), Vote("a", 0, "better", BEN), Vote("a", 0, "worse", ANN)
    ballots = Ballots([first, other, Vote("a", 1, "same", ANN), again])
    assert set(ballots.counted) == {again, other, Vote("a", 1, "same", ANN)}
    assert ballots.cast == 4


def test_votes_are_bounded_whoever_casts_them() -> None:
    ballots = Ballots(Vote("a", number, "same", ANN) for number in range(MOST_VOTES + 5))
    assert (ballots.cast, len(ballots.counted)) == (MOST_VOTES, MOST_VOTES)


def test_a_tally_counts_and_judges_each_variant() -> None:
    found = tallies(run([*cast("b", 0, 1, 12), *cast("a", 7, 3, 2)]))
    first, second = found.variants
    assert (first.variant, first.title, first.better, first.same, first.worse) == ("a", "A", 7, 3, 2)
    assert (second.better, second.same, second.worse, second.decided) == (0, 1, 12, 12)
    # two tests: the smaller, 2 / 4096, is doubled; the larger, 92 / 512, stays
    assert (first.p, second.p) == (pytest.approx(92 / 512), pytest.approx(4 / 4096))
    assert (first.word, second.word) == ("open", "worse")
    assert (found.voters, found.prompts, found.tests) == (13, 1, 2)


def test_what_one_test_says_two_may_not() -> None:
    alone = tallies(run(cast("a", 6, 0, 0))).variants[0]
    assert (alone.p, alone.word) == (pytest.approx(0.03125), "better")
    both = tallies(run([*cast("a", 6, 0, 0), *cast("b", 6, 0, 0)])).variants
    assert [(one.p, one.word) for one in both] == [(pytest.approx(0.0625), "open")] * 2


def test_ties_alone_decide_nothing() -> None:
    found = tallies(run([*cast("a", 0, 3, 0), *cast("b", 6, 0, 0)]))
    assert (found.variants[0].p, found.variants[0].word, found.tests) == (None, "open", 1)
    assert found.variants[1].p == pytest.approx(0.03125)
    assert tallies(run()).variants == ()


def test_votes_on_what_a_run_does_not_hold_are_left_out() -> None:
    strange = [Vote("nowhere", 0, "better", ANN), Vote(BASE, 0, "better", ANN), Vote("a", 3, "better", ANN)]
    strange += [Vote("a", -1, "better", ANN), Vote("a", 0, "better", ANN), Vote("a", 0, "worse", ANN)]
    found = tallies(run(strange))
    assert [(one.variant, one.better, one.worse) for one in found.variants] == [("a", 0, 1)]
    assert (found.voters, found.prompts) == (1, 1)
