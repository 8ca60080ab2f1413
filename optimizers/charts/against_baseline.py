"""A bar for each measured variant, with its interval, its verdict and the band in which nothing can be told from the
baseline. Which figure it is of is said by the chart that asks: `speed.py`, `first_token.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go

from optimizers.charts import style
from optimizers.results import MARKS, Latency, NoiseFloor, Ratio, Run, Stat, VariantResult, VersusBaseline

BAR_HALF = 12.0
ROOM = 76
ROOM_FOR_WORDS = 2.3  # on a telephone, "≈ 0.93x within noise" beside the longest bar


@dataclass(frozen=True)
class Measure:
    """One figure of a variant. `scale` turns seconds or rates into `unit`; `ends` are the figures at the two ends of
    the noise, for the baseline's figure and the noise floor: the second None where there is no such end."""

    stat: Callable[[Latency], Stat | None]
    ratio: Callable[[VersusBaseline], Ratio | None]
    floor: Callable[[NoiseFloor], float | None]
    ends: Callable[[float, float], tuple[float, float | None]]
    title: str
    unit: str
    column: str
    missing: str
    scale: float = 1.0


def draw(run: Run, measure: Measure, dark: bool | None) -> go.Figure:
    """Horizontal bars of the median with 95 % intervals, the noise shaded."""
    drawn = [(variant, stat) for variant in style.measured(run) if (stat := _stat(variant, measure))]
    keys = [variant.key for variant, _ in drawn]
    height = ROOM + round(style.pitch(keys, BAR_HALF) * max(len(drawn), 1))
    if not drawn:
        return style.empty(run, measure.missing, dark, height)
    made = style.figure([_bars(drawn, measure, 2 * BAR_HALF / style.pitch(keys, BAR_HALF), dark)], run, dark, height)
    style.name_rows(made, keys, run.baseline, BAR_HALF)
    width = max(style.end(stat) for _, stat in drawn) * ROOM_FOR_WORDS
    _label_bars(made, drawn, measure)
    shaded = _band(made, run, measure, drawn, width, dark)
    title = f"{measure.title}<br><span style='font-size:12px'>95 % interval{shaded}</span>"
    made.update_xaxes(title={"text": title, "standoff": 10}, range=[0, width], rangemode="tozero")
    return made


def rows(run: Run, measure: Measure) -> list[list[str]]:
    """The same figures as a table, its first row the headings."""
    found = [["Variant", measure.column, "95 % interval", "Against the baseline", "Verdict"]]
    for variant in style.measured(run):
        stat, ratio = _stat(variant, measure), _ratio(variant, measure)
        if stat:
            against = [f"{ratio.ratio:.2f}x", ratio.verdict] if ratio else ["-", "-"]
            found.append([variant.key, style.figure_words(stat.median), style.interval_words(stat), *against])
    return found


def _stat(variant: VariantResult, measure: Measure) -> Stat | None:
    stat = measure.stat(variant.latency) if variant.latency else None
    return None if stat is None else style.scaled(stat, measure.scale)


def _ratio(variant: VariantResult, measure: Measure) -> Ratio | None:
    return measure.ratio(variant.versus_baseline) if variant.versus_baseline else None


def _bars(drawn: list[tuple[VariantResult, Stat]], measure: Measure, width: float, dark: bool | None) -> go.Bar:
    stats = [stat for _, stat in drawn]
    ratios = [_ratio(variant, measure) for variant, _ in drawn]
    colors = [style.COLORS[ratio.verdict] if ratio else style.PALE for ratio in ratios]
    hover = [_hover(variant, stat, measure) for variant, stat in drawn]
    return style.bars(stats, range(len(stats)), width, {"color": colors}, hover, dark)


def _hover(variant: VariantResult, stat: Stat, measure: Measure) -> str:
    interval = "" if stat.low is None or stat.high is None else f" ({style.interval_words(stat)})"
    figure = f"{style.figure_words(stat.median)} {measure.unit}{interval}"
    return f"{style.wrapped(variant.key)}<br>{figure}<br>{stat.n} requests"


def _label_bars(made: go.Figure, drawn: list[tuple[VariantResult, Stat]], measure: Measure) -> None:
    for row, (variant, stat) in enumerate(drawn):
        style.label_bar(made, stat, row, _label(_ratio(variant, measure), stat))


def _label(ratio: Ratio | None, stat: Stat) -> str:
    if ratio is None:
        return f"<b>{style.figure_words(stat.median)}</b>"
    against = "" if ratio.verdict in ("baseline", "too few rounds") else f" {ratio.ratio:.2f}x"
    return f"<b>{style.figure_words(stat.median)}</b>  {MARKS[ratio.verdict]}{against} {ratio.verdict}"


def _band(
    made: go.Figure,
    run: Run,
    measure: Measure,
    drawn: list[tuple[VariantResult, Stat]],
    width: float,
    dark: bool | None,
) -> str:
    """Draw the noise band around the baseline; the words for it, empty without a baseline."""
    base = next((stat for variant, stat in drawn if variant.key == run.baseline), None)
    if base is None:
        return ""
    floor = style.speed_floor(measure.floor(run.noise_floor))
    low, high = measure.ends(base.median, floor)
    made.add_vrect(
        x0=max(0.0, low),
        x1=width if high is None else min(width, high),
        fillcolor=style.band_color(dark),
        line_width=0,
        layer="below",
    )
    made.add_vline(x=base.median, line={"color": style.NEUTRAL, "width": 1, "dash": "dot"}, layer="below")
    return f"; shaded: noise, {style.floor_words(floor)} in speed"
