"""Variants as points: two figures each, a symbol and a color for the verdict, and a label that covers nothing.

Covers drawing, and choosing where each label goes among places beside, above and below its point, on a plot of the
least width that the page gives it. What the figures are, the chart that asks says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from optimizers.charts import style
from optimizers.results import Stat, Verdict

_PLOT_WIDTH, _PLOT_HEIGHT = 330.0, 300.0
LONGEST = 26
FAR = 20.0
BESIDE = 12.0
_CHARACTER, _LINE = 6.6, 17.0


SYMBOLS: dict[Verdict, str] = {
    "faster": "triangle-up",
    "slower": "triangle-down",
    "within noise": "circle",
    "too few rounds": "circle-open",
    "baseline": "diamond",
}


@dataclass(frozen=True)
class Point:
    """One variant. `x` and `y` are where it lies on the axes, with their intervals where they have any."""

    label: str
    hover: str
    verdict: Verdict
    x: Stat
    y: Stat


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels, around its middle."""

    x: float
    y: float
    width: float
    height: float

    def overlap(self, other: Box) -> float:
        """The shared area."""
        wide = (self.width + other.width) / 2 - abs(self.x - other.x)
        high = (self.height + other.height) / 2 - abs(self.y - other.y)
        return max(0.0, min(wide, self.width, other.width)) * max(0.0, min(high, self.height, other.height))


def short(label: str) -> str:
    """A label no longer than a plot has room for."""
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"


def scatter(points: Sequence[Point], dark: bool | None) -> go.Scatter:
    """The points with their intervals, along an axis where any has one."""
    sides = {"error_x": [point.x for point in points], "error_y": [point.y for point in points]}
    return go.Scatter(
        mode="markers",
        x=[point.x.median for point in points],
        y=[point.y.median for point in points],
        marker={
            "size": 13,
            "color": [style.COLORS[point.verdict] for point in points],
            "symbol": [SYMBOLS[point.verdict] for point in points],
        },
        hovertext=[point.hover for point in points],
        hoverinfo="text",
        cliponaxis=False,
        **{
            side: style.whiskers(stats, dark, thickness=1, width=3)
            for side, stats in sides.items()
            if any(stat.low is not None for stat in stats)
        },
    )


def label(made: go.Figure, points: Sequence[Point], across: tuple[float, float], up: tuple[float, float]) -> None:
    """Write each point's label beside it. `across` and `up` are the ends of the axes, from left and from below."""
    for point, place in zip(points, _places(points, across, up), strict=True):
        made.add_annotation(y=point.y.median, text=style.escape(point.label), **_standing(point.x, *place))


def _places(points: Sequence[Point], across: tuple[float, float], up: tuple[float, float]) -> list[tuple[float, float]]:
    """Where each label goes, in pixels from its point: the candidate that covers least of the points, of their
    intervals and of the other labels."""
    frame = Box(_PLOT_WIDTH / 2, _PLOT_HEIGHT / 2, _PLOT_WIDTH, _PLOT_HEIGHT)
    dots, bars, uprights = [], [], []
    for point in points:
        (x, middle_x, width), (y, middle_y, height) = (
            _pixels(point.x, across, frame.width),
            _pixels(point.y, up, frame.height),
        )
        dots.append(Box(x, y, 15.0, 15.0))
        bars.append(Box(middle_x, y, width, 8.0))
        uprights.append(Box(x, middle_y, 8.0, height))
    labels = [point.label for point in points]
    orders = [sorted(range(len(labels)), key=lambda index: sign * len(labels[index])) for sign in (-1, 0, 1)]
    placings = [_in_order(order, labels, dots, bars, uprights, frame) for order in orders]
    best = min(placings, key=lambda placed: placed[0])
    return [(box.x - dot.x, box.y - dot.y) for box, dot in zip(best[1], dots, strict=True)]


def _pixels(stat: Stat, axis: tuple[float, float], length: float) -> tuple[float, float, float]:
    """Along an axis of `length` pixels: where the figure lies, the middle of its interval, and how long that is."""
    scale = length / (axis[1] - axis[0])
    low, high = (stat.median if end is None else end for end in (stat.low, stat.high))
    return (stat.median - axis[0]) * scale, ((low + high) / 2 - axis[0]) * scale, abs(high - low) * abs(scale)


def _standing(at: Stat, x: float, y: float) -> dict[str, object]:
    """How Plotly is to put a label `x` and `y` pixels from its point, at `at` across: beside it, past the end of its
    interval however wide the plot is; above or below it, next to it; farther off, with a line."""
    if y == 0:
        end = at.high if x > 0 else at.low
        side = {"xanchor": "left", "xshift": BESIDE} if x > 0 else {"xanchor": "right", "xshift": -BESIDE}
        return {**side, "x": at.median if end is None else end, "yanchor": "middle", "showarrow": False}
    centered: dict[str, object] = {"x": at.median, "xanchor": "center", "yanchor": "middle"}
    if abs(y) < FAR:
        return {**centered, "showarrow": False, "xshift": x, "yshift": y}
    line = {"arrowhead": 0, "arrowwidth": 1, "arrowcolor": style.NEUTRAL, "standoff": 7}
    return {**centered, "showarrow": True, "ax": x, "ay": -y, **line}


def _in_order(
    order: Sequence[int],
    labels: Sequence[str],
    dots: Sequence[Box],
    bars: Sequence[Box],
    uprights: Sequence[Box],
    frame: Box,
) -> tuple[float, list[Box]]:
    """The labels placed one after another, each where it costs least, and what that costs in all. `dots` are the
    points, `bars` and `uprights` their intervals across and up."""
    taken, placed, total = [*dots, *bars, *uprights], list(dots), 0.0
    for index in order:
        options = [
            (_cost(box, dots[index], taken, frame), box) for box in _candidates(labels[index], dots[index], bars[index])
        ]
        cost, placed[index] = min(options, key=lambda option: option[0])
        taken.append(placed[index])
        total += cost
    return total, placed


def _candidates(label: str, dot: Box, bar: Box) -> list[Box]:
    width = len(label) * _CHARACTER
    flush = width / 2 - 10
    right, left = (bar.width / 2 + side * (bar.x - dot.x) + BESIDE + width / 2 for side in (1, -1))
    shifts = [(0.0, 17.0), (0.0, -17.0), (right, 0.0), (-left, 0.0)]
    shifts += [(side * flush, up) for up in (17.0, -17.0, 34.0, -34.0) for side in (1, -1)]
    return [Box(dot.x + x, dot.y + y, width, _LINE) for x, y in shifts]


def _cost(box: Box, dot: Box, taken: Sequence[Box], frame: Box) -> float:
    outside = box.width * box.height - box.overlap(frame)
    away = abs(box.y - dot.y) + max(0.0, abs(box.x - dot.x) - box.width / 2)
    with_line = 40 if abs(box.y - dot.y) >= FAR else 0
    return sum(box.overlap(other) for other in taken) + 3 * outside + away + with_line
