"""A finished run as figures: `speed`, `first_token`, `latency`, `memory`, `quality`, `as_hosted`, `along_answer` and
`where_time_goes` give Plotly figures, their `*_rows` the same as tables.

Pure: a `results.Run` in, a figure out; what was not measured is never drawn. Only bars and points are used, which the
Plotly of every page that shows them knows.
"""

from optimizers.charts.along_answer import along_answer, along_answer_rows
from optimizers.charts.as_hosted import as_hosted, as_hosted_rows
from optimizers.charts.first_token import first_token, first_token_rows
from optimizers.charts.latency import latency, latency_rows
from optimizers.charts.memory import memory, memory_rows
from optimizers.charts.quality import quality, quality_rows
from optimizers.charts.speed import speed, speed_rows
from optimizers.charts.time_parts import where_time_goes, where_time_goes_rows

__all__ = [
    "along_answer",
    "along_answer_rows",
    "as_hosted",
    "as_hosted_rows",
    "first_token",
    "first_token_rows",
    "latency",
    "latency_rows",
    "memory",
    "memory_rows",
    "quality",
    "quality_rows",
    "speed",
    "speed_rows",
    "where_time_goes",
    "where_time_goes_rows",
]
