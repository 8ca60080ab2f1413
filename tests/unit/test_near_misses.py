"""What is known of where an answer leaves the baseline's: near ties by hand, the reason where nothing is known, and
what an untrusted file or worker may hold."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import analysis_records as make
import pytest
from analysis_records import BASELINE, STEPS, caveat_ids, result
from pydantic import ValidationError

from optimizers.analysis import compare, near_misses
from optimizers.analysis.divergence import LONGEST_TOKEN, sound
from optimizers.protocol import Scored, WorkerEvent
from optimizers.quality import NearMiss, Quality
from optimizers.results import Run
from optimizers.schema import Record, from_json, to_json
from optimizers.scores import Candidate, Disagreement

BASE_IDS = (1, 2, 3)
OUR_IDS = (1, 9, 3)


def sides(baseline: dict[str, float], variant: dict[str, float], position: int = 1) -> Disagreement:
    return Disagreement(
        position,
        tuple(Candidate(*item) for item in baseline.items()),
        tuple(Candidate(*item) for item in variant.items()),
    )


def run_of(found: Disagreement | None = None, noise: float | None = None, **changes: Any) -> Record:
    """One prompt whose answers part at the second token; `changes` are the variant's."""
    text = (make.passage("text_timed", [noise]),) if noise is not None else ()
    base = make.measurement(BASELINE, STEPS, outputs=(make.output(0, BASE_IDS),), scores=text)
    scores = (make.passage("answer:0", [0.01, 0.5, 0.01], disagreement=found),)
    ours = {"outputs": (make.output(0, OUR_IDS),), "scores": scores} | changes
    return make.record(base, make.measurement("a", STEPS, **ours), replica=STEPS)


def quality_of(record: Record) -> Quality:
    quality = result(compare(record), "a").quality
    assert quality is not None
    return quality


@pytest.mark.parametrize(
    ("floor", "width"),
    [
        (None, 0.02),
        (4e-7, 0.02),  # moves 0.0009 at most
        (0.00125, 0.05),  # sqrt(0.0025)
        (0.005, 0.1),
        (0.0051, 0.02),  # too wide to be called noise
        (math.nan, 0.02),
        (-1.0, 0.02),
    ],
)
def test_a_near_tie_is_two_points_wide_or_what_the_noise_can_move(floor: float | None, width: float) -> None:
    assert near_misses.tie_width(floor) == pytest.approx(width)


@pytest.mark.parametrize(
    ("baseline", "variant", "noise", "tie"),
    [
        ({"b": 0.5, "c": 0.49}, {"c": 0.6}, None, True),
        ({"b": 0.5, "c": 0.47}, {"c": 0.6}, None, False),
        ({"b": 0.5, "c": 0.47}, {"c": 0.6}, 0.00125, True),  # 3 points apart, where the noise can move 5
        ({"b": 0.3, "c": 0.295, "d": 0.1}, {"d": 0.6}, None, False),  # tied with one that nobody wrote
        ({"b": 0.3, "c": 0.295}, {"e": 0.6}, None, False),  # not among the baseline's
        ({"b": 0.5}, {"b": 0.5}, None, False),  # two tokens that read alike
    ],
)
def test_a_near_tie_is_between_the_two_tokens_that_were_written(
    baseline: dict[str, float], variant: dict[str, float], noise: float | None, tie: bool
) -> None:
    record = run_of(sides(baseline, variant), noise)
    assert quality_of(record).near_misses == (NearMiss(0, tie),)
    assert ("near_tie" in caveat_ids(compare(record))) is tie


def test_an_answer_that_reads_the_same_has_no_entry() -> None:
    same = (replace(make.output(0, OUR_IDS), text=make.output(0, BASE_IDS).text),)
    assert quality_of(run_of(sides({"b": 0.5}, {"c": 0.5}), outputs=same)).near_misses == ()


def passage_of(same_top: tuple[bool, ...], left_out: int = 0) -> tuple[Any, ...]:
    kl = [0.1] * len(same_top)
    return (make.passage("answer:0", kl, same_top=same_top, left_out=left_out),)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"scores": ()}, near_misses.NOT_SCORED),
        ({"scores": passage_of((True,), left_out=2)}, near_misses.NO_ROOM),
        ({"scores": passage_of((True, True, True))}, near_misses.AGREED),
        ({"scores": passage_of((False, False, True))}, near_misses.EARLIER),
        (
            {"scores": passage_of((True, True, True)), "census": make.census(decoding="prompt_lookup")},
            f"{near_misses.GUESSED} {near_misses.AGREED}",
        ),
        ({"census": make.census(decoding="sampling")}, near_misses.DRAWN),
    ],
)
def test_where_nothing_is_known_the_reason_is_said(changes: dict[str, Any], why: str) -> None:
    (miss,) = quality_of(run_of(**changes)).near_misses
    assert miss == NearMiss(0, None, why)
    assert why.endswith(".")


def test_tokens_of_another_kind_and_a_baseline_that_draws_have_no_candidates() -> None:
    base, ours = run_of(sides({"b": 0.5}, {"c": 0.5})).measurements
    (miss,) = near_misses.near_misses(ours, base, (), 0.02, same_tokenizer=False)
    assert miss == NearMiss(0, None, near_misses.OTHER_TOKENS)
    draws = replace(base, census=make.census(decoding="sampling"))
    (miss,) = quality_of(make.record(draws, ours)).near_misses
    assert miss == NearMiss(0, None, near_misses.BASELINE_DRAWN)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, 1.1])
def test_what_is_no_probability_is_not_kept(bad: float) -> None:
    found = sides({"b": 0.5}, {"c": bad})
    assert sound(found) is None
    quality = quality_of(run_of(found))
    assert quality.first_divergence[0].disagreement is None
    assert quality.near_misses[0].absent
    assert sound(sides({}, {"c": 0.5})) is None
    assert sound(None) is None


def test_no_more_is_kept_than_five_candidates_and_the_beginning_of_each() -> None:
    many = {f"{place}" + "x" * 10_000: 0.01 for place in range(50)}
    kept = quality_of(run_of(sides(many, many))).first_divergence[0].disagreement
    assert kept is not None
    assert len(kept.baseline) == len(kept.variant) == 5
    assert {len(candidate.token) for candidate in kept.baseline} == {LONGEST_TOKEN}


def test_an_event_with_anything_else_in_place_of_candidates_is_refused() -> None:
    scores = make.passage("answer:0", [0.1], disagreement=sides({"b": 0.5}, {"c": 0.5}, 0))
    event = json.loads(to_json(Scored((scores,)), WorkerEvent))
    assert from_json(WorkerEvent, json.dumps(event)) == Scored((scores,))
    for wrong in ("likely", None, {"token": "b"}, [{"token": 1, "probability": 0.5}], [{"token": "b"}]):
        event["scores"][0]["disagreement"]["baseline"] = wrong
        with pytest.raises(ValidationError):
            from_json(WorkerEvent, json.dumps(event))


def test_a_run_json_without_the_field_opens() -> None:
    run = compare(run_of(sides({"b": 0.5, "c": 0.49}, {"c": 0.6})))
    data = json.loads(to_json(run))
    older = data["variants"][1]["quality"]
    assert older["near_misses"] == [{"prompt": 0, "near_tie": True, "absent": None}]
    assert older["first_divergence"][0].keys() == {"prompt", "token", "disagreement"}  # what others read stays
    assert older["first_divergence"][0]["disagreement"]["baseline"][0] == {"token": "b", "probability": 0.5}
    del older["near_misses"]
    opened = result(from_json(Run, json.dumps(data)), "a").quality
    assert opened is not None
    assert opened.near_misses == ()
    assert opened.first_divergence == quality_of(run_of(sides({"b": 0.5, "c": 0.49}, {"c": 0.6}))).first_divergence
