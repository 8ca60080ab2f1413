"""Decoding speed: a bar for each measured variant, with its interval, its verdict and the baseline's noise band."""

from __future__ import annotations

import plotly.graph_objects as go

from optimizers.charts import against_baseline
from optimizers.charts.against_baseline import Measure
from optimizers.results import Run


def speed(run: Run, dark: bool | None = None) -> go.Figure:
    """Horizontal bars of the median decode tokens/s with 95 % intervals. The shaded band is where a variant cannot be
    told from the baseline. `dark` says what the background is; None: colors that read on both."""
    return against_baseline.draw(run, _DECODE, dark)


def speed_rows(run: Run) -> list[list[str]]:
    """The same figures as a table, its first row the headings."""
    return against_baseline.rows(run, _DECODE)


_DECODE = Measure(
    stat=lambda latency: latency.decode_tokens_per_s,
    ratio=lambda versus: versus.decode,
    floor=lambda floors: floors.decode,
    ends=lambda base, floor: (base * (1 - floor), base * (1 + floor)),
    title="Tokens per second, decoding",
    unit="tokens/s",
    column="Decode tokens/s",
    missing="No decoding speed was measured.",
)
