"""The time to the first token: a bar for each measured variant, with its interval, its verdict and the noise band."""

from __future__ import annotations

import plotly.graph_objects as go

from optimizers.charts import against_baseline
from optimizers.charts.against_baseline import Measure
from optimizers.results import Run


def first_token(run: Run, dark: bool | None = None) -> go.Figure:
    """Horizontal bars of the median time to the first token, in milliseconds, with 95 % intervals: shorter is better.
    The shaded band is where a variant cannot be told from the baseline: a ratio of speed between 1 - floor and
    1 + floor, so that it reaches farther to the right. `dark` says what the background is; None: colors that read on
    both."""
    return against_baseline.draw(run, _FIRST, dark)


def first_token_rows(run: Run) -> list[list[str]]:
    """The same figures as a table, its first row the headings. A ratio above 1 is a shorter time."""
    return against_baseline.rows(run, _FIRST)


_FIRST = Measure(
    stat=lambda latency: latency.ttft_s,
    ratio=lambda versus: versus.ttft,
    floor=lambda floors: floors.ttft,
    ends=lambda base, floor: (base / (1 + floor), base / (1 - floor) if floor < 1 else None),
    title="Milliseconds, shorter is better",
    unit="ms",
    column="First token, ms",
    missing="No time to the first token was measured.",
    scale=1000.0,
)
