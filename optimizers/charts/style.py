"""What the figures share: colors, ink, labels made safe, and the layout around the data.

Backgrounds are transparent and the default colors read on white and on near-black; a caller that knows its background
says so with `dark`. The palette is that of Okabe and Ito (safe for color-blind readers), and no meaning rests on color
alone. Keys and titles are untrusted text: Plotly reads markup in labels, so it is made harmless here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go

from optimizers.analysis.verdicts import LEAST_FLOOR
from optimizers.results import Run, Stat, VariantResult, Verdict

NEUTRAL = "#8a93a1"
BLUE = "#3d8fd1"
ORANGE = "#d9793a"
PALE = "#8fb4d3"
GREEN = "#25a583"
PURPLE = "#b57cae"

COLORS: dict[Verdict, str] = {
    "faster": BLUE,
    "slower": ORANGE,
    "within noise": PALE,
    "too few rounds": PALE,
    "baseline": NEUTRAL,
}
FONT = "-apple-system, Segoe UI, Roboto, Noto Sans, Helvetica Neue, Arial, sans-serif"
LABEL_WIDTH = 44
LINE_HEIGHT = 18.0
ROW_GAP = 14.0
HATCH = {"shape": "/", "fillmode": "overlay", "fgcolor": "rgba(255, 255, 255, 0.45)", "size": 6, "solidity": 0.25}
_LONGEST_LABEL = 120
_CLEAR = "rgba(0,0,0,0)"
_INK = {None: "#767f8d", False: "#3a4454", True: "#cfd6e1"}
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})


def ink(dark: bool | None) -> str:
    """The color of text: for a dark page, a light one, or (None) one that reads on both."""
    return _INK[dark]


def band_color(dark: bool | None) -> str:
    """The color of the noise band."""
    return "rgba(138, 147, 161, 0.30)" if dark else "rgba(138, 147, 161, 0.22)"


def speed_floor(floor: float | None) -> float:
    """The noise floor of a speed as it is used: where it is not known, the least one."""
    return LEAST_FLOOR if floor is None else floor


def floor_words(floor: float) -> str:
    """A noise floor of a speed in words: "±4%"."""
    return "over ±100%" if floor > 1 else f"±{floor:.0%}"


def figure_words(value: float) -> str:
    """A figure in words: from a hundred on without a decimal."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def interval_words(stat: Stat) -> str:
    """The interval of a figure in words, a hyphen without one."""
    if stat.low is None or stat.high is None:
        return "-"
    return f"{figure_words(stat.low)} to {figure_words(stat.high)}"


def scaled(stat: Stat, factor: float) -> Stat:
    """The same figure in another unit."""
    low, high = (None if end is None else end * factor for end in (stat.low, stat.high))
    return Stat(stat.median * factor, low, high, stat.n)


def end(stat: Stat) -> float:
    """How far a bar with its interval reaches."""
    return max(stat.median, stat.high or 0.0)


def escape(text: str) -> str:
    """Untrusted text as Plotly shows it literally: no markup, no formulas, no control characters."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain.translate(_ESCAPES)


def wrapped(key: str) -> str:
    """A key as the name of a row: broken before plus signs, or where a line gets too long, and cut when very long."""
    key = key if len(key) <= _LONGEST_LABEL else key[: _LONGEST_LABEL - 1] + "…"
    lines = [""]
    for index, part in enumerate(key.split("+")):
        piece = part if index == 0 else f"+{part}"
        if lines[-1] and len(lines[-1]) + len(piece) > LABEL_WIDTH:
            lines.append("")
        lines[-1] += piece
    pieces = [line[start : start + LABEL_WIDTH] for line in lines for start in range(0, len(line), LABEL_WIDTH)]
    return "<br>".join(map(escape, pieces))


def short_labels(keys: Sequence[str], baseline: str) -> dict[str, str]:
    """Each key without the techniques it shares with the baseline; whole where that would be empty or ambiguous."""
    common = set(baseline.split("+"))
    short = {key: "+".join(part for part in key.split("+") if part not in common) for key in keys}
    taken = list(short.values())
    return {key: label if label and taken.count(label) == 1 else key for key, label in short.items()}


def measured(run: Run) -> list[VariantResult]:
    """The variants that may be drawn: measured ones, never one that was skipped or not applied."""
    return [variant for variant in run.variants if variant.status == "measured"]


def figure(traces: Iterable[go.Bar | go.Scatter], run: Run, dark: bool | None, height: int) -> go.Figure:
    """A figure with this program's layout: transparent, of fixed height, with zoom kept while the run is the same."""
    made = go.Figure(list(traces))
    made.update_layout(
        template="none",
        height=height,
        autosize=True,
        margin={"l": 8, "r": 12, "t": 12, "b": 8},
        paper_bgcolor=_CLEAR,
        plot_bgcolor=_CLEAR,
        font={"family": FONT, "size": 13, "color": ink(dark)},
        hoverlabel={"font": {"family": FONT, "size": 13}},
        uirevision=run.id,
        dragmode=False,
        modebar={"remove": _MODE_BAR, "bgcolor": _CLEAR, "color": _CLEAR, "activecolor": _CLEAR},
        showlegend=False,
    )
    grid = "rgba(138, 147, 161, 0.25)"
    axis = {"gridcolor": grid, "zerolinecolor": grid, "linecolor": grid, "automargin": True, "title_font_size": 13}
    made.update_xaxes(**axis)
    made.update_yaxes(**axis)
    return made


def empty(run: Run, text: str, dark: bool | None, height: int) -> go.Figure:
    """A figure that says why there is nothing to draw."""
    made = figure([], run, dark, height)
    made.update_xaxes(visible=False)
    made.update_yaxes(visible=False)
    made.add_annotation(text=text, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False)
    return made


def legend_on_top(made: go.Figure, height: int) -> None:
    """A legend above the data, in a margin of `height` pixels."""
    made.update_layout(
        showlegend=True,
        margin={"t": height},
        legend={
            "orientation": "h",
            "xref": "container",
            "yref": "container",
            "x": 0,
            "y": 1,
            "yanchor": "top",
            "traceorder": "normal",
            "font": {"size": 12},
        },
    )


def whiskers(stats: Sequence[Stat], dark: bool | None, **look: float) -> dict[str, Any]:
    """Intervals as error bars, one for each of `stats`; none where an end is None. `look` is its thickness and width in
    pixels."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if stat.high is None else stat.high - stat.median for stat in stats],
        "arrayminus": [0.0 if stat.low is None else stat.median - stat.low for stat in stats],
        "color": ink(dark),
        **look,
    }


def bars(
    stats: Sequence[Stat],
    rows: Sequence[float],
    width: float,
    marker: dict[str, Any],
    hover: Sequence[str],
    dark: bool | None,
) -> go.Bar:
    """Horizontal bars of medians with their intervals, `width` high, where a row is 1."""
    return go.Bar(
        orientation="h",
        x=[stat.median for stat in stats],
        y=list(rows),
        width=width,
        marker=marker,
        error_x=whiskers(stats, dark, thickness=1.5, width=5),
        hovertext=list(hover),
        hoverinfo="text",
    )


def label_bar(made: go.Figure, stat: Stat, row: float, text: str) -> None:
    """Words beside the end of a bar."""
    made.add_annotation(
        x=end(stat), y=row, text=text, showarrow=False, xanchor="left", yanchor="middle", xshift=9, align="left"
    )


def pitch(keys: Sequence[str], half: float) -> float:
    """Pixels from one row to the next when bars reach `half` pixels to each side and names stand above them."""
    return 2 * half + LINE_HEIGHT * _lines(keys) + ROW_GAP


def name_rows(made: go.Figure, keys: Sequence[str], baseline: str, half: float) -> None:
    """Rows 0, 1, 2 ... from the top, each named above its bars, so that long keys have the whole width; the baseline
    in bold."""
    step = pitch(keys, half)
    above = half + LINE_HEIGHT * _lines(keys) + ROW_GAP / 2
    made.update_yaxes(visible=False, range=[len(keys) - 1 + (half + ROW_GAP / 2) / step, -above / step])
    for row, key in enumerate(keys):
        made.add_annotation(
            text=f"<b>{wrapped(key)}</b>" if key == baseline else wrapped(key),
            x=0,
            xref="paper",
            y=row,
            xanchor="left",
            yanchor="bottom",
            yshift=half,
            align="left",
            showarrow=False,
        )


def _lines(keys: Sequence[str]) -> int:
    return max((wrapped(key).count("<br>") + 1 for key in keys), default=1)


_MODE_BAR = [
    "zoom",
    "pan",
    "select",
    "lasso",
    "zoomIn",
    "zoomOut",
    "autoScale",
    "resetScale",
    "toImage",
    "toggleSpikelines",
]
