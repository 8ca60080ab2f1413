"""Where the time goes: for each measured variant one bar, a request from text to text, divided into its parts.

Drawn from the request that was clocked part by part after all timed ones; speed itself is in the figure of speed.
"""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from optimizers.charts import style
from optimizers.results import Run, WhereTimeGoes

BAR_HALF = 12.0
LEGEND_HEIGHT = 70
ROOM = 62 + LEGEND_HEIGHT
INK_ON_BARS = "#10151c"
LEAST_LETTERS = 11

Drawn = list[tuple[str, WhereTimeGoes]]


@dataclass(frozen=True)
class Part:
    """A part of the bars: the field of `TimeParts` it shows. Hatched: the time in which the model computes nothing and
    generate() is busy around it."""

    title: str
    field: str
    color: str
    hatched: bool = False


PARTS = (
    Part("tokenization", "tokenize", style.PALE),
    Part("prompt pass", "prefill", style.GREEN),
    Part("decode passes", "decode", style.BLUE),
    Part("sampling", "sampling", style.PURPLE, hatched=True),
    Part("Python", "python", style.ORANGE, hatched=True),
    Part("detokenization", "detokenize", style.NEUTRAL),
)


def where_time_goes(run: Run, dark: bool | None = None) -> go.Figure:
    """Stacked horizontal bars of the shares of one request, in percent. `dark` says what the background is; None:
    colors that read on both."""
    drawn = _drawn(run)
    keys = [key for key, _ in drawn]
    height = ROOM + round(style.pitch(keys, BAR_HALF) * max(len(drawn), 1))
    if not drawn:
        return style.empty(run, "No request was clocked part by part.", dark, height)
    width = 2 * BAR_HALF / style.pitch(keys, BAR_HALF)
    made = style.figure([_bar(part, drawn, width) for part in PARTS], run, dark, height)
    style.name_rows(made, keys, run.baseline, BAR_HALF)
    made.update_xaxes(title={"text": "Share of one request, %", "standoff": 10}, range=[0, 100])
    made.update_layout(barmode="stack", uniformtext={"minsize": LEAST_LETTERS, "mode": "hide"})
    style.legend_on_top(made, LEGEND_HEIGHT)
    return made


def where_time_goes_rows(run: Run) -> list[list[str]]:
    """The same figures as a table, with the seconds, its first row the headings."""
    rows = [["Variant", "one request, ms", *(part.title for part in PARTS), "new tokens"]]
    for key, found in _drawn(run):
        cells = [f"{_seconds(found, part) * 1000:.2f} ms ({_percent(found, part):.1f} %)" for part in PARTS]
        rows.append([key, f"{found.total_s * 1000:.1f}", *cells, str(found.new_tokens)])
    return rows


def _drawn(run: Run) -> Drawn:
    return [(variant.key, variant.where_time_goes) for variant in style.measured(run) if variant.where_time_goes]


def _seconds(found: WhereTimeGoes, part: Part) -> float:
    value: float = getattr(found.seconds, part.field)
    return value


def _percent(found: WhereTimeGoes, part: Part) -> float:
    value: float = getattr(found.shares, part.field)
    return 100 * value


def _bar(part: Part, drawn: Drawn, width: float) -> go.Bar:
    shares = [_percent(found, part) for _, found in drawn]
    marker: dict[str, object] = {"color": part.color}
    if part.hatched:
        marker["pattern"] = style.HATCH
    return go.Bar(
        orientation="h",
        name=part.title,
        x=shares,
        y=list(range(len(drawn))),
        width=width,
        marker=marker,
        text=[f"{share:.0f} %" for share in shares],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        insidetextfont={"color": INK_ON_BARS, "size": 12},
        hovertext=[_hover(key, found, part) for key, found in drawn],
        hoverinfo="text",
    )


def _hover(key: str, found: WhereTimeGoes, part: Part) -> str:
    spent = f"{_seconds(found, part) * 1000:.2f} of {found.total_s * 1000:.1f} ms"
    return f"{style.wrapped(key)}<br>{part.title}: {_percent(found, part):.1f} %<br>{spent}"
