"""The figures with lines and points: the Pareto front, the two waits, the time per token along the answer, by hand."""

from __future__ import annotations

from dataclasses import replace

import analysis_records as make
import pytest
from analysis_records import BASELINE as BASE

from optimizers import charts
from optimizers.analysis import compare
from optimizers.charts.along_answer import MOST_POINTS
from optimizers.charts.quality import Spot, front
from optimizers.results import Ratio, Replay, Run, Stat


def spot(key: str, ratio: float, kl: float) -> Spot:
    return Spot(key, key, Ratio(ratio, None, None, "faster"), kl)


@pytest.mark.parametrize(
    ("points", "found"),
    [
        ({"a": (1.0, 0.0), "b": (2.0, 0.1), "c": (3.0, 0.2)}, "abc"),  # each gives what no other does
        ({"a": (1.0, 0.0), "b": (2.0, 0.1), "c": (1.5, 0.2)}, "ab"),  # c is slower and worse than b
        ({"a": (1.0, 0.0), "b": (1.0, 0.1), "c": (2.0, 0.1)}, "ac"),  # equal in one, beaten in the other
        ({"a": (1.0, 0.0), "b": (1.0, 0.0)}, "ab"),  # alike: neither beats the other
        ({"a": (1.0, 0.0), "b": (2.0, 0.0)}, "b"),
        ({}, ""),
    ],
)
def test_the_front_is_what_nothing_beats(points: dict[str, tuple[float, float]], found: str) -> None:
    spots = [spot(key, *place) for key, place in points.items()]
    assert sorted(item.key for item in front(spots[::-1])) == sorted(found)


def test_the_front_is_drawn_as_steps_and_told_in_the_table() -> None:
    measured = [
        make.measurement(key, [step] * 6, scores=(make.passage("answer:0", [kl] * 4),))
        for key, step, kl in (("good", 0.25, 0.01), ("beaten", 0.4, 0.02), ("fast", 0.125, 0.1))
    ]
    run = compare(make.record(make.measurement(BASE, [0.5] * 6), *measured, replica=[0.5] * 6))
    steps, _ = charts.quality(run).data
    assert list(steps.x) == pytest.approx([1.0, 2.0, 4.0])
    assert list(steps.y) == pytest.approx([-5.0, -2.0, -1.0])
    assert (steps.mode, steps.line.shape) == ("lines", "vh")
    assert [row[-1] for row in charts.quality_rows(run)[1:]] == ["yes", "yes", "no", "yes"]


def test_the_two_waits_are_medians_in_milliseconds_with_their_intervals() -> None:
    # Half a second a token and 0.5 s to the first against a quarter and 0.25 s; all rounds alike, so no width.
    base, fast = make.measurement(BASE, [0.5] * 6), make.measurement("fast", [0.25] * 6)
    run = compare(make.record(base, fast, replica=[0.5] * 6))
    (points,) = charts.latency(run).data
    assert list(points.x) == pytest.approx([500.0, 250.0])
    first = [variant.latency.ttft_s.median * 1000 for variant in run.variants if variant.latency]
    assert list(points.y) == pytest.approx(first)
    assert list(points.error_x.array) == pytest.approx([0.0, 0.0])
    assert list(points.marker.symbol) == ["diamond", "triangle-up"]
    assert [row[3] for row in charts.latency_rows(run)[1:]] == ["500", "250"]


def test_what_no_axis_can_show_is_not_drawn() -> None:
    """A run.json from elsewhere may hold any number."""
    fast = make.measurement("fast", [0.25] * 6, scores=(make.passage("answer:0", [0.1] * 4),))
    run = compare(make.record(make.measurement(BASE, [0.5] * 6), fast, replica=[0.5] * 6))
    base, told = run.variants
    assert told.quality and told.quality.kl_divergence and told.versus_baseline and told.versus_baseline.decode
    endless = replace(told.quality, kl_divergence=replace(told.quality.kl_divergence, mean=float("inf")))
    raced = replace(told.versus_baseline, decode=replace(told.versus_baseline.decode, ratio=float("nan")))
    for strange in (replace(told, quality=endless), replace(told, versus_baseline=raced)):
        drawn = charts.quality(replace(run, variants=(base, strange)))
        assert list(drawn.data[1].x) == [1.0]


def test_a_label_stands_beside_an_upright_interval_and_not_on_it() -> None:
    run = compare(make.record(make.measurement(BASE, [0.5] * 6), make.measurement("fast", [0.25] * 6)))
    wide = replace(run.variants[1], latency=replace(run.variants[1].latency, ttft_s=Stat(0.4, 0.1, 0.7, 6)))
    figure = charts.latency(replace(run, variants=(run.variants[0], wide)))
    (label,) = [item for item in figure.layout.annotations if item.text == "fast"]
    assert (label.y, label.xanchor in ("left", "right")) == (400.0, True)


def replayed(*times: tuple[float, ...]) -> Run:
    """A run whose baseline was replayed with these times."""
    run = compare(make.record(make.measurement(BASE, [0.5] * 6)))
    replays = tuple(Replay(prompt, one) for prompt, one in enumerate(times))
    return replace(run, variants=(replace(run.variants[0], replays=replays),))


def test_each_place_in_the_answer_has_the_median_of_the_prompts_that_reach_it() -> None:
    # Milliseconds a token: 100, 200, 300, 400 / 200, 400 / 300, 300. Medians: 200, 300, 300, 400.
    run = replayed((1.0, 1.1, 1.3, 1.6, 2.0), (0.5, 0.7, 1.1), (0.0, 0.3, 0.6))
    (line,) = charts.along_answer(run).data
    assert list(line.x) == [2, 3, 4, 5]
    assert list(line.y) == pytest.approx([200, 300, 300, 400])
    assert charts.along_answer_rows(run)[1] == [BASE, "200.00", "400.00", "2.00x"]


def test_a_long_answer_is_drawn_with_so_many_points_that_they_can_be_seen() -> None:
    # 400 tokens after the first at 10 and 30 ms in turn: two in one point, at 2.5, 4.5 ..., 20 ms each.
    ends = [0.0]
    for number in range(400):
        ends.append(ends[-1] + (0.01, 0.03)[number % 2])
    (line,) = charts.along_answer(replayed(tuple(ends))).data
    assert len(line.x) == MOST_POINTS
    assert list(line.x[:2]) == [2.5, 4.5]
    assert list(line.y) == pytest.approx([20.0] * MOST_POINTS)


def test_answers_of_one_token_have_no_line() -> None:
    assert len(charts.along_answer(replayed((0.5,), ())).data) == 0
    assert len(charts.along_answer_rows(replayed((0.5,)))) == 1
