"""Time to the first token against time per token: each measured variant as a point, down and to the left is better.

The two are what a reader of an answer waits for: the first for its beginning, the second for each word of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from optimizers.charts import labels, style
from optimizers.charts.quality import SYMBOLS
from optimizers.results import Run, Stat, VariantResult, Verdict

HEIGHT = 400
ROOM = 1.18  # of the greatest value, so that labels have their place


@dataclass(frozen=True)
class Wait:
    """One variant: milliseconds for each token after the first, and until the first."""

    key: str
    label: str
    token: Stat
    first: Stat
    verdict: Verdict


def latency(run: Run, dark: bool | None = None) -> go.Figure:
    """Milliseconds until the first token against milliseconds for each token after it, medians with their intervals.
    `dark` says what the background is; None: colors that read on both."""
    drawn = _waits(run)
    if not drawn:
        return style.empty(run, "No answer of two tokens or more was timed.", dark, HEIGHT)
    right, top = (ROOM * max(map(style.end, side)) for side in ([w.token for w in drawn], [w.first for w in drawn]))
    made = style.figure([_points(drawn, dark)], run, dark, HEIGHT)
    for wait, place in zip(drawn, labels.places([_mark(wait, right, top) for wait in drawn]), strict=True):
        standing = labels.standing(wait.token.median, wait.token.low, wait.token.high, *place)
        made.add_annotation(y=wait.first.median, text=style.escape(wait.label), **standing)
    made.update_xaxes(title={"text": "Milliseconds for each token after it", "standoff": 10}, range=[0, right])
    made.update_yaxes(title={"text": "Milliseconds until the first token", "standoff": 8}, range=[0, top])
    return made


def latency_rows(run: Run) -> list[list[str]]:
    """The same figures as a table, its first row the headings."""
    rows = [["Variant", "first token, ms", "95 % interval", "each token after it, ms", "95 % interval"]]
    for wait in _waits(run):
        cells = [cell for stat in (wait.first, wait.token) for cell in (_ms(stat), style.interval_words(stat))]
        rows.append([wait.key, *cells])
    return rows


def _waits(run: Run) -> list[Wait]:
    names = style.short_labels([variant.key for variant in style.measured(run)], run.baseline)
    found = ((variant, _stats(variant)) for variant in style.measured(run))
    return [
        Wait(variant.key, labels.short(names[variant.key]), *stats, _verdict(variant))
        for variant, stats in found
        if stats is not None
    ]


def _stats(variant: VariantResult) -> tuple[Stat, Stat] | None:
    seen = variant.latency
    if seen is None or seen.time_per_output_token_s is None or seen.ttft_s is None:
        return None
    return _in_ms(seen.time_per_output_token_s), _in_ms(seen.ttft_s)


def _in_ms(stat: Stat) -> Stat:
    low, high = (None if end is None else end * 1000 for end in (stat.low, stat.high))
    return Stat(stat.median * 1000, low, high, stat.n)


def _ms(stat: Stat) -> str:
    return style.figure_words(stat.median)


def _verdict(variant: VariantResult) -> Verdict:
    decode = variant.versus_baseline.decode if variant.versus_baseline else None
    return decode.verdict if decode else "too few rounds"


def _mark(wait: Wait, right: float, top: float) -> labels.Mark:
    low, high = (wait.token.median if end is None else end for end in (wait.token.low, wait.token.high))
    return labels.Mark(wait.label, wait.token.median / right, wait.first.median / top, low / right, high / right)


def _points(drawn: list[Wait], dark: bool | None) -> go.Scatter:
    sides = {
        axis: style.whiskers(
            [stat.median for stat in stats],
            [stat.low for stat in stats],
            [stat.high for stat in stats],
            dark,
            thickness=1,
            width=3,
        )
        for axis, stats in (("x", [wait.token for wait in drawn]), ("y", [wait.first for wait in drawn]))
    }
    return go.Scatter(
        mode="markers",
        x=[wait.token.median for wait in drawn],
        y=[wait.first.median for wait in drawn],
        marker={
            "size": 13,
            "color": [style.COLORS[wait.verdict] for wait in drawn],
            "symbol": [SYMBOLS[wait.verdict] for wait in drawn],
        },
        error_x=sides["x"],
        error_y=sides["y"],
        hovertext=[
            f"{style.wrapped(wait.key)}<br>first token {_ms(wait.first)} ms<br>each token after it {_ms(wait.token)} ms"
            for wait in drawn
        ],
        hoverinfo="text",
        cliponaxis=False,
    )
