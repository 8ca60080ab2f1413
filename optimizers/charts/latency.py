"""Time to the first token against time per token: each measured variant as a point, down and to the left is better.

The two are what a reader of an answer waits for: the first for its beginning, the second for each word of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from optimizers.charts import points, style
from optimizers.results import Run, Stat, VariantResult

HEIGHT = 400
ROOM = 1.18  # of the greatest value, so that labels have their place


@dataclass(frozen=True)
class Wait:
    """One variant: milliseconds until the first token, and for each token after it."""

    variant: VariantResult
    first: Stat
    token: Stat


def latency(run: Run, dark: bool | None = None) -> go.Figure:
    """Milliseconds until the first token against milliseconds for each token after it, medians with their intervals.
    `dark` says what the background is; None: colors that read on both."""
    drawn = _points(run)
    if not drawn:
        return style.empty(run, "No answer of two tokens or more was timed.", dark, HEIGHT)
    right, top = (ROOM * max(map(style.end, side)) for side in ([at.x for at in drawn], [at.y for at in drawn]))
    made = style.figure([points.scatter(drawn, dark)], run, dark, HEIGHT)
    points.label(made, drawn, (0, right), (0, top))
    made.update_xaxes(title={"text": "Milliseconds for each token after it", "standoff": 10}, range=[0, right])
    made.update_yaxes(title={"text": "Milliseconds until the first token", "standoff": 8}, range=[0, top])
    return made


def latency_rows(run: Run) -> list[list[str]]:
    """The same figures as a table, its first row the headings."""
    rows = [["Variant", "first token, ms", "95 % interval", "each token after it, ms", "95 % interval"]]
    for wait in _waits(run):
        stats = (wait.first, wait.token)
        cells = [cell for stat in stats for cell in (style.figure_words(stat.median), style.interval_words(stat))]
        rows.append([wait.variant.key, *cells])
    return rows


def _waits(run: Run) -> list[Wait]:
    found = []
    for variant in style.measured(run):
        seen = variant.latency
        if seen and seen.ttft_s and seen.time_per_output_token_s:
            found.append(
                Wait(variant, style.scaled(seen.ttft_s, 1000), style.scaled(seen.time_per_output_token_s, 1000))
            )
    return found


def _points(run: Run) -> list[points.Point]:
    waits = _waits(run)
    names = style.short_labels([wait.variant.key for wait in waits], run.baseline)
    return [
        points.Point(
            label=points.short(names[wait.variant.key]),
            hover=(
                f"{style.wrapped(wait.variant.key)}<br>first token {style.figure_words(wait.first.median)} ms<br>"
                f"each token after it {style.figure_words(wait.token.median)} ms"
            ),
            verdict=wait.variant.decode_ratio.verdict if wait.variant.decode_ratio else "too few rounds",
            x=wait.token,
            y=wait.first,
        )
        for wait in waits
    ]
