"""The figures draw what was measured and nothing else, show untrusted names literally, and agree with their tables."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import analysis_records as make
import plotly.graph_objects as go
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import MIB

from optimizers import charts
from optimizers.analysis import compare
from optimizers.charts import style
from optimizers.charts.quality import NEARLY_ZERO
from optimizers.quality import Interval, PerByte, Quality
from optimizers.results import Run

LONG = "fp32+sdpa+torchao_int8_weight_only"
HOSTILE = '<a href="javascript:alert(1)">bf16</a>+$x^2$&\x1b[31m'
NAMES = ("speed", "first_token", "latency", "memory", "quality", "as_hosted", "along_answer", "where_time_goes")
FIGURES = [getattr(charts, name) for name in NAMES]
TABLES = [getattr(charts, f"{name}_rows") for name in NAMES]


def one_run(*, key: str = LONG, rounds: int = 6, replica: int = 6) -> Run:
    """The baseline at 2 tokens/s (1 with a core busy) and a variant at 4 (0.5), one that was not applied and one that
    was skipped."""
    base = make.measurement(
        BASE,
        [0.5] * rounds,
        scores=(make.passage("text_timed", [0.0001] * 4),),
        loaded_samples=make.loaded(BASE, [1.0] * rounds),
    )
    fast = make.measurement(
        key,
        [0.25] * rounds,
        memory=make.memory(256 * MIB),
        scores=(make.passage("answer:0", [0.01] * 4),),
        loaded_samples=make.loaded(key, [2.0] * rounds),
    )
    lost = make.measurement("lost", [0.125] * rounds, status="not_applied")
    skipped = make.measurement("left_out", [], status="skipped")
    return compare(make.record(base, fast, lost, skipped, replica=[0.5] * replica))


def bars(figure: go.Figure) -> list[go.Bar]:
    return [trace for trace in figure.data if isinstance(trace, go.Bar)]


def texts(figure: go.Figure) -> list[str]:
    return [annotation.text for annotation in figure.layout.annotations]


def test_speed_draws_medians_intervals_and_the_noise_band() -> None:
    run = one_run()
    figure = charts.speed(run)
    (bar,) = bars(figure)
    assert list(bar.x) == [2.0, 4.0]
    assert list(bar.error_x.array) == [0.0, 0.0]
    (band,) = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert (band.x0, band.x1) == (pytest.approx(1.96), pytest.approx(2.04))
    assert any("▲ 2.00x faster" in text for text in texts(figure))
    assert any("◆ baseline" in text for text in texts(figure))
    assert "shaded: noise, ±2% in speed" in figure.layout.xaxis.title.text


def test_the_first_token_has_a_band_of_its_own_in_times() -> None:
    # Half a second to the first token; a floor of a quarter in speed is 0.5 / 1.25 = 0.4 s to 0.5 / 0.75 s.
    run = one_run()
    run = replace(run, noise_floor=replace(run.noise_floor, decode=0.5, ttft=0.25))
    figure = charts.first_token(run)
    assert list(bars(figure)[0].x) == [500.0, 500.0]
    (band,) = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert (band.x0, band.x1) == (pytest.approx(400.0), pytest.approx(500 / 0.75))
    assert "±25% in speed" in figure.layout.xaxis.title.text
    assert any("≈ 1.00x within noise" in text for text in texts(figure))
    assert charts.first_token_rows(run)[2] == [LONG, "500", "500 to 500", "1.00x", "within noise"]
    wide = charts.first_token(replace(run, noise_floor=replace(run.noise_floor, ttft=1.0)))
    (band,) = [shape for shape in wide.layout.shapes if shape.type == "rect"]
    assert (band.x0, band.x1) == (250.0, wide.layout.xaxis.range[1])  # no time is too long to be noise


def test_speed_without_enough_rounds_shows_no_interval_and_no_ratio() -> None:
    figure = charts.speed(one_run(rounds=3, replica=0))
    assert list(bars(figure)[0].error_x.array) == [0.0, 0.0]
    (label,) = [text for text in texts(figure) if "too few rounds" in text]
    assert "x" not in label.replace("too few rounds", "")


def test_a_noise_floor_that_swallows_everything_stays_inside_the_figure() -> None:
    run = replace(one_run(), noise_floor=replace(one_run().noise_floor, decode=1e300))
    for figure in (charts.speed(run), charts.quality(run)):
        band, *_ = [shape for shape in figure.layout.shapes if shape.type == "rect"]
        low, high = figure.layout.xaxis.range
        assert low <= band.x0 < band.x1 <= high
    assert "over ±100%" in charts.speed(run).layout.xaxis.title.text


def test_as_hosted_draws_each_speed_without_the_load_and_with_it() -> None:
    run = one_run()
    quiet, busy = bars(charts.as_hosted(run))
    assert (list(quiet.x), list(busy.x)) == ([2.0, 4.0], [1.0, 0.5])
    assert (quiet.name, busy.name) == ("nothing else running", "one core busy")
    assert [said for said in texts(charts.as_hosted(run)) if "slower" in said] == [
        "<b>1.0</b>  2.0x slower",
        "<b>0.5</b>  8.0x slower",
    ]
    assert charts.as_hosted_rows(run)[2] == [LONG, "4.0", "0.5", "0.5 to 0.5", "8.00x", "0.50x", "slower"]
    without = replace(run, variants=tuple(replace(variant, as_hosted=None) for variant in run.variants))
    assert texts(charts.as_hosted(without)) == ["No variant was timed with one core busy."]
    assert len(charts.as_hosted_rows(without)) == 1


def test_memory_draws_each_phase_with_its_mapped_part_apart() -> None:
    figure = charts.memory(one_run())
    drawn = {trace.name: trace for trace in bars(figure) if trace.name}
    assert list(drawn["weights"].x) == [512 * MIB / 1e6, 256 * MIB / 1e6]
    # Steady: 512 + 150 MiB, of which 256 are mapped from files, and 256 + 150 of which 128 are.
    assert list(drawn["in steady use"].x) == pytest.approx([406 * MIB / 1e6, 278 * MIB / 1e6])
    hatched = [trace for trace in bars(figure) if trace.base is not None]
    assert len(hatched) == 2
    assert list(hatched[0].x) == pytest.approx([256 * MIB / 1e6, 128 * MIB / 1e6])
    assert list(hatched[0].base) == list(drawn["in steady use"].x)
    assert "MB" in figure.layout.xaxis.title.text


def test_memory_in_gigabytes_and_with_figures_that_are_not_known() -> None:
    only_weights = replace(make.memory(2 * 10**9), load_peak_bytes=None, steady_bytes=None, run_peak_bytes=None)
    run = compare(make.record(make.measurement(BASE, [0.5] * 6, memory=only_weights)))
    figure = charts.memory(run)
    assert "GB" in figure.layout.xaxis.title.text
    assert list(bars(figure)[0].x) == [2.0]
    assert charts.memory_rows(run)[1][:5] == [BASE, "2.00", "-", "-", "-"]


def test_quality_is_drawn_on_a_log_axis_with_a_place_for_zero() -> None:
    figure = charts.quality(one_run())
    _, points = figure.data
    assert list(points.x) == [pytest.approx(1.0), pytest.approx(2.0)]
    assert list(points.y) == [pytest.approx(math.log10(NEARLY_ZERO)), pytest.approx(-2.0)]
    assert figure.layout.yaxis.ticktext[0] == "≈ 0"
    bottom, top = figure.layout.yaxis.range
    assert bottom > max(points.y)
    assert top < min(points.y)
    assert texts(figure) == [BASE, "torchao_int8_weight_only"]


@pytest.mark.parametrize(
    ("floor", "end", "words"),
    [
        (0.0001, -4.0, "±2% in speed, KL up to 0.0001"),
        (5e-8, -5.0, "±2% in speed, KL up to 5e-08"),  # what the axis cannot show ends at its "about 0"
        (0.0, -5.0, "±2% in speed, KL up to 0"),
        (None, None, "±2% in speed"),
        (1.7, None, "±2% in speed"),  # a baseline that quantizes activations: no measure of noise
    ],
)
def test_quality_has_a_band_for_each_noise_and_says_so(floor: float | None, end: float | None, words: str) -> None:
    run = one_run()
    figure = charts.quality(replace(run, noise_floor=replace(run.noise_floor, kl_divergence=floor)))
    speed, *numerics = figure.layout.shapes
    assert (speed.x0, speed.x1) == (pytest.approx(0.98), pytest.approx(1.02))
    assert [shape.y0 for shape in numerics] == ([] if end is None else [pytest.approx(end)])
    assert [shape.y1 for shape in numerics] == ([] if end is None else [figure.layout.yaxis.range[1]])
    assert f"shaded: noise, {words}<" in figure.layout.xaxis.title.text


def test_a_difference_within_the_noise_of_the_numerics_is_called_so() -> None:
    near = make.measurement("near", [0.25] * 6, scores=(make.passage("answer:0", [0.0001] * 4),))
    far = make.measurement("far", [0.25] * 6, scores=(make.passage("answer:0", [0.00011] * 4),))
    base = make.measurement(BASE, [0.5] * 6, scores=(make.passage("text_timed", [0.0001] * 4),))
    run = compare(make.record(base, near, far))
    assert [row[3] for row in charts.quality_rows(run)[1:]] == ["about 0", "0.0001, within noise", "0.00011"]
    hovers = charts.quality(run).data[1].hovertext
    assert [text.endswith("within noise") for text in hovers] == [False, True, False]


def test_labels_of_points_that_lie_together_do_not_cover_each_other() -> None:
    base = make.measurement(BASE, [0.5] * 6)
    near = [make.measurement(f"near_{name}", [0.5] * 6, scores=(make.passage("answer:0", [0.01]),)) for name in "abcd"]
    figure = charts.quality(compare(make.record(base, *near)))
    names = [item.variant for item in near]
    labels = [item for item in figure.layout.annotations if item.text in names]
    places = [(item.ax, -item.ay) if item.showarrow else (item.xshift, item.yshift) for item in labels]
    assert len(set(places)) == 4


def test_a_label_beside_its_point_stands_past_its_interval_however_wide_the_plot_is() -> None:
    scored = (make.passage("answer:0", [0.01] * 4),)
    run = compare(
        make.record(
            make.measurement(BASE, [0.5] * 6),
            make.measurement("fast", [0.25, 0.251, 0.25, 0.251, 0.25, 0.251], scores=scored),
        )
    )
    versus = make.result(run, "fast").versus_baseline
    assert versus is not None
    assert versus.decode is not None
    (label,) = [item for item in charts.quality(run).layout.annotations if item.text == "fast"]
    assert (label.x, label.xanchor, label.xshift > 0) in (
        (versus.decode.high, "left", True),
        (versus.decode.low, "right", False),
    )


@pytest.mark.parametrize("draw", FIGURES)
def test_what_was_not_measured_is_never_drawn(draw: Callable[..., go.Figure]) -> None:
    drawn = draw(one_run()).to_json()
    assert LONG in drawn or "torchao_int8_weight_only" in drawn
    assert "lost" not in drawn
    assert "left_out" not in drawn


@pytest.mark.parametrize("table", TABLES)
def test_tables_hold_the_measured_variants_in_rows_as_long_as_their_headings(
    table: Callable[[Run], list[list[str]]],
) -> None:
    rows = table(one_run())
    assert [row[0] for row in rows] == ["Variant", BASE, LONG]
    assert {len(row) for row in rows} == {len(rows[0])}


def test_tables_say_what_the_figures_say() -> None:
    run = one_run()
    assert charts.speed_rows(run)[2] == [LONG, "4.0", "4.0 to 4.0", "2.00x", "faster"]
    assert charts.quality_rows(run)[1][3] == "about 0"
    assert charts.quality_rows(run)[2] == [LONG, "2.00x", "faster", "0.01", "yes"]
    assert charts.memory_rows(run)[2][1] == f"{256 * MIB / 1e6:.2f}"


def test_where_the_time_goes_is_drawn_as_shares_that_fill_the_bar_and_told_with_seconds() -> None:
    run = one_run()
    drawn = bars(charts.where_time_goes(run))
    assert [list(bar.x) for bar in drawn] == [[6.25] * 2, [12.5] * 2, [50.0] * 2, [12.5] * 2, [12.5] * 2, [6.25] * 2]
    assert len({bar.marker.color for bar in drawn}) == len(drawn)
    assert [bar.name for bar in drawn if bar.marker.pattern.shape] == ["sampling", "Python"]
    assert charts.where_time_goes(run).layout.barmode == "stack"
    assert charts.where_time_goes_rows(run)[1] == [
        BASE,
        "2000.0",
        "125.00 ms (6.2 %)",
        "250.00 ms (12.5 %)",
        "1000.00 ms (50.0 %)",
        "250.00 ms (12.5 %)",
        "250.00 ms (12.5 %)",
        "125.00 ms (6.2 %)",
        "5",
    ]
    unknown = replace(run, variants=tuple(replace(variant, where_time_goes=None) for variant in run.variants))
    assert len(charts.where_time_goes(unknown).data) == 0
    assert len(charts.where_time_goes_rows(unknown)) == 1


def test_a_model_of_other_tokens_is_told_in_the_table_and_not_drawn() -> None:
    run = one_run()
    by_bytes = PerByte(400, 2, True, 2.48, 2.0, 1.31, 1.0, Interval(1.24, 1.1, 1.4), 200, 100, False)
    quality = Quality("text_generation", 0, None, None, None, None, (), None, None, by_bytes)
    base, other, *rest = run.variants
    told = replace(run, variants=(base, replace(other, quality=quality), *rest))
    assert charts.quality_rows(told)[2] == [
        LONG,
        "2.00x",
        "faster",
        "none, another model: 1.24x the perplexity per byte",
        "not compared",
    ]
    assert len(charts.quality(told).data[1].x) == 1


@pytest.mark.parametrize("draw", FIGURES)
def test_names_are_shown_literally(draw: Callable[..., go.Figure]) -> None:
    drawn = json.dumps(json.loads(draw(one_run(key=HOSTILE)).to_json()), ensure_ascii=False)
    assert "<a" not in drawn
    assert "$x" not in drawn
    assert "\\u001b" not in drawn
    assert "&lt;a" in drawn


def test_escaping_by_hand() -> None:
    assert style.escape("<b>&\n$") == "&lt;b&gt;&amp; &#36;"
    assert style.wrapped("a" * 50) == "a" * 44 + "<br>" + "a" * 6
    assert style.wrapped("x" * 20 + "+" + "y" * 30) == "x" * 20 + "<br>+" + "y" * 30
    assert style.wrapped("<" * 44) == "&lt;" * 44  # broken before it is escaped, never inside an entity
    assert len(style.wrapped("z" * 1000)) < 140


def test_short_labels_stay_different() -> None:
    keys = ["fp32+sdpa", "bf16+sdpa", "fp32+eager", "fp32+sdpa+int8", "sdpa+int8"]
    assert style.short_labels(keys, "fp32+sdpa") == {
        "fp32+sdpa": "fp32+sdpa",
        "bf16+sdpa": "bf16",
        "fp32+eager": "eager",
        "fp32+sdpa+int8": "fp32+sdpa+int8",
        "sdpa+int8": "sdpa+int8",
    }


@pytest.mark.parametrize("draw", FIGURES)
@pytest.mark.parametrize("dark", [None, False, True])
def test_figures_fit_a_page_of_either_color(draw: Callable[..., go.Figure], dark: bool | None) -> None:
    run = one_run()
    figure = draw(run, dark)
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert figure.layout.height == draw(run).layout.height > 100
    assert figure.layout.uirevision == run.id
    assert {trace.type for trace in figure.data} <= {"bar", "scatter"}


@pytest.mark.parametrize("draw", FIGURES)
def test_a_run_with_nothing_measured_says_so(draw: Callable[..., go.Figure]) -> None:
    run = compare(make.record(make.measurement(BASE, [], status="failed")))
    figure = draw(run)
    assert len(figure.data) == 0
    assert texts(figure)[0].startswith("No ")


def test_importing_charts_imports_no_torch() -> None:
    code = "import sys, optimizers.charts; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
