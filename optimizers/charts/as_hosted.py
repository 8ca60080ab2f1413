"""As hosted: for each variant that was timed again with one core busy, its decode speed without that load and with it.

Drawn only of runs that asked for it. The load is another program's; how the rounds are played is the manager's part.
"""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from optimizers.charts import style
from optimizers.results import Hosted, Run, Stat

BAR_PIXELS = 15.0
BAR_HALF = 16.0
LEGEND_HEIGHT = 40
ROOM = 76 + LEGEND_HEIGHT
ROOM_FOR_WORDS = 1.9


@dataclass(frozen=True)
class Load:
    """One bar of each variant: the field of `Pair` it shows, and its place, in bars below the row's middle."""

    title: str
    field: str
    place: float
    marker: dict[str, object]

    def offset(self, step: float) -> float:
        """How far below the row's middle the bar lies, where a row is 1."""
        return self.place * (BAR_PIXELS + 1) / step


QUIET = Load("nothing else running", "quiet", -0.5, {"color": style.BLUE})
BUSY = Load("one core busy", "busy", 0.5, {"color": style.ORANGE, "pattern": style.HATCH})
LOADS = (QUIET, BUSY)


@dataclass(frozen=True)
class Pair:
    """A variant's two decode speeds, in tokens/s."""

    key: str
    quiet: Stat
    busy: Stat
    found: Hosted


def as_hosted(run: Run, dark: bool | None = None) -> go.Figure:
    """Two horizontal bars a variant, with 95 % intervals. `dark` says what the background is; None: colors that read on
    both."""
    drawn = _drawn(run)
    keys = [pair.key for pair in drawn]
    height = ROOM + round(style.pitch(keys, BAR_HALF) * max(len(drawn), 1))
    if not drawn:
        return style.empty(run, "No variant was timed with one core busy.", dark, height)
    step = style.pitch(keys, BAR_HALF)
    traces = [_bars(drawn, load, step, dark) for load in LOADS]
    made = style.figure(traces, run, dark, height)
    style.name_rows(made, keys, run.baseline, BAR_HALF)
    for row, pair in enumerate(drawn):
        for load in LOADS:
            stat: Stat = getattr(pair, load.field)
            style.label_bar(made, stat, row + load.offset(step), _words(pair, load))
    width = max(style.end(stat) for pair in drawn for stat in (pair.quiet, pair.busy)) * ROOM_FOR_WORDS
    title = "Decode speed, tokens/s<br><span style='font-size:12px'>95 % interval</span>"
    made.update_xaxes(title={"text": title, "standoff": 10}, range=[0, width], rangemode="tozero")
    made.update_layout(barmode="overlay")
    style.legend_on_top(made, LEGEND_HEIGHT)
    return made


def as_hosted_rows(run: Run) -> list[list[str]]:
    """The same figures as a table, its first row the headings."""
    rows = [
        ["Variant", "tokens/s", "with one core busy", "95 % interval", "slower by", "against the baseline", "verdict"]
    ]
    for pair in _drawn(run):
        ratio = pair.found.versus_baseline
        rows.append(
            [
                pair.key,
                style.figure_words(pair.quiet.median),
                style.figure_words(pair.busy.median),
                style.interval_words(pair.busy),
                f"{pair.found.slowdown:.2f}x" if pair.found.slowdown else "-",
                *([f"{ratio.ratio:.2f}x", ratio.verdict] if ratio else ["-", "-"]),
            ]
        )
    return rows


def _drawn(run: Run) -> list[Pair]:
    found = []
    for variant in style.measured(run):
        quiet = variant.latency.decode_tokens_per_s if variant.latency else None
        busy = variant.as_hosted.decode_tokens_per_s if variant.as_hosted else None
        if variant.as_hosted and quiet and busy:
            found.append(Pair(variant.key, quiet, busy, variant.as_hosted))
    return found


def _bars(drawn: list[Pair], load: Load, step: float, dark: bool | None) -> go.Bar:
    stats: list[Stat] = [getattr(pair, load.field) for pair in drawn]
    rows = [row + load.offset(step) for row in range(len(drawn))]
    hover = [
        f"{style.wrapped(pair.key)}<br>{load.title}: {style.figure_words(stat.median)} tokens/s<br>{stat.n} requests"
        for pair, stat in zip(drawn, stats, strict=True)
    ]
    made = style.bars(stats, rows, BAR_PIXELS / step, load.marker, hover, dark)
    return made.update(name=load.title)


def _words(pair: Pair, load: Load) -> str:
    """The figure and, under load, what the load cost."""
    stat: Stat = getattr(pair, load.field)
    cost = f"  {pair.found.slowdown:.1f}x slower" if load is BUSY and pair.found.slowdown else ""
    return f"<b>{style.figure_words(stat.median)}</b>{cost}"
