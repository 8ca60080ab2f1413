"""Where the labels of points go so that they cover neither points, intervals nor one another.

Covers choosing among places beside, above and below a point, on a plot of the least width that the page gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizers.charts import style

PLOT_WIDTH, PLOT_HEIGHT = 330.0, 300.0
LONGEST = 26
FAR = 20.0
BESIDE = 12.0
_CHARACTER, _LINE = 6.6, 17.0


@dataclass(frozen=True)
class Mark:
    """A point with its label: where it lies on the plot (0 to 1 across and up), and the ends of its interval across."""

    label: str
    across: float
    up: float
    low: float
    high: float


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


def places(marks: Sequence[Mark]) -> list[tuple[float, float]]:
    """Where each label goes, in pixels from its point: the candidate that covers least of the points and of the other
    labels."""
    dots = [Box(mark.across * PLOT_WIDTH, mark.up * PLOT_HEIGHT, 15.0, 15.0) for mark in marks]
    bars = [
        Box((mark.low + mark.high) / 2 * PLOT_WIDTH, mark.up * PLOT_HEIGHT, (mark.high - mark.low) * PLOT_WIDTH, 8.0)
        for mark in marks
    ]
    frame = Box(PLOT_WIDTH / 2, PLOT_HEIGHT / 2, PLOT_WIDTH, PLOT_HEIGHT)
    orders = [sorted(range(len(marks)), key=lambda index: sign * len(marks[index].label)) for sign in (-1, 0, 1)]
    best = min((_in_order(order, marks, dots, bars, frame) for order in orders), key=lambda placed: placed[0])
    return [(box.x - dot.x, box.y - dot.y) for box, dot in zip(best[1], dots, strict=True)]


def standing(at: float, low: float | None, high: float | None, x: float, y: float) -> dict[str, object]:
    """How Plotly is to put a label `x` and `y` pixels from its point at `at`, whose interval has these ends: beside it,
    past the end of the interval however wide the plot is; above or below it, next to it; farther off, with a line."""
    if y == 0:
        end = high if x > 0 else low
        side = {"xanchor": "left", "xshift": BESIDE} if x > 0 else {"xanchor": "right", "xshift": -BESIDE}
        return {**side, "x": at if end is None else end, "yanchor": "middle", "showarrow": False}
    centered: dict[str, object] = {"x": at, "xanchor": "center", "yanchor": "middle"}
    if abs(y) < FAR:
        return {**centered, "showarrow": False, "xshift": x, "yshift": y}
    line = {"arrowhead": 0, "arrowwidth": 1, "arrowcolor": style.NEUTRAL, "standoff": 7}
    return {**centered, "showarrow": True, "ax": x, "ay": -y, **line}


def _in_order(
    order: Sequence[int], marks: Sequence[Mark], dots: Sequence[Box], bars: Sequence[Box], frame: Box
) -> tuple[float, list[Box]]:
    """The labels placed one after another, each where it costs least, and what that costs in all. `dots` are the
    points, `bars` their intervals."""
    taken, placed, total = [*dots, *bars], list(dots), 0.0
    for index in order:
        options = [
            (_cost(box, dots[index], taken, frame), box)
            for box in _candidates(marks[index].label, dots[index], bars[index])
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
