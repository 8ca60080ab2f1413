"""Time per token along the answer: whether a token costs more the later it comes.

Drawn from the requests that are replayed in the race, one for each prompt; the first token, which waits for the prompt,
is left out.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from itertools import pairwise

import plotly.graph_objects as go

from optimizers.charts import style
from optimizers.results import Run, VariantResult

HEIGHT = 360
LEGEND_HEIGHT = 70
MOST_POINTS = 200
LATE = 4  # the first and the last quarter of an answer are told in the table
_COLORS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.PALE)
_DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class Curve:
    """One variant: the places of tokens in the answer (the second is 2), and each one's milliseconds."""

    key: str
    places: tuple[float, ...]
    ms: tuple[float, ...]


def along_answer(run: Run, dark: bool | None = None) -> go.Figure:
    """One line a variant: milliseconds of each token against its place in the answer, the median of the prompts. `dark`
    says what the background is; None: colors that read on both."""
    drawn = _curves(run)
    if not drawn:
        return style.empty(run, "No answer of two tokens or more was timed.", dark, HEIGHT)
    labels = style.short_labels([curve.key for curve in drawn], run.baseline)
    traces = [_line(curve, labels[curve.key], index, run.baseline) for index, curve in enumerate(drawn)]
    made = style.figure(traces, run, dark, HEIGHT)
    made.update_xaxes(title={"text": "Place of the token in the answer", "standoff": 10})
    made.update_yaxes(title={"text": "Milliseconds, lower is better", "standoff": 8}, rangemode="tozero")
    style.legend_on_top(made, LEGEND_HEIGHT)
    return made


def along_answer_rows(run: Run) -> list[list[str]]:
    """The same as a table, its first row the headings: the medians of the first and of the last quarter."""
    rows = [["Variant", "first quarter, ms a token", "last quarter, ms a token", "last over first"]]
    for curve in _curves(run):
        some = math.ceil(len(curve.ms) / LATE)
        early, late = statistics.median(curve.ms[:some]), statistics.median(curve.ms[-some:])
        rows.append([curve.key, f"{early:.2f}", f"{late:.2f}", f"{late / early:.2f}x" if early > 0 else "-"])
    return rows


def _curves(run: Run) -> list[Curve]:
    made = ((variant.key, _by_place(variant)) for variant in style.measured(run))
    return [_thinned(key, ms) for key, ms in made if ms]


def _by_place(variant: VariantResult) -> list[float]:
    """Milliseconds of the second token, the third and so on: the median of the prompts that reach it."""
    answers = [
        [(later - sooner) * 1000 for sooner, later in pairwise(replay.token_times_s)] for replay in variant.replays
    ]
    longest = max(map(len, answers), default=0)
    return [statistics.median(answer[place] for answer in answers if place < len(answer)) for place in range(longest)]


def _thinned(key: str, ms: list[float]) -> Curve:
    """So many neighbors in one, by their median, that a line has no more points than can be seen."""
    step = math.ceil(len(ms) / MOST_POINTS)
    parts = [(start, ms[start : start + step]) for start in range(0, len(ms), step)]
    places = tuple(2 + start + (len(part) - 1) / 2 for start, part in parts)
    return Curve(key, places, tuple(statistics.median(part) for _, part in parts))


def _line(curve: Curve, label: str, index: int, baseline: str) -> go.Scatter:
    color = style.NEUTRAL if curve.key == baseline else _COLORS[index % len(_COLORS)]
    dash = _DASHES[index // len(_COLORS) % len(_DASHES)]
    return go.Scatter(
        mode="lines",
        name=style.wrapped(label),
        x=list(curve.places),
        y=list(curve.ms),
        line={"color": color, "dash": dash, "width": 2},
        hovertemplate="%{y:.2f} ms at token %{x:.0f}<extra>%{fullData.name}</extra>",
    )
