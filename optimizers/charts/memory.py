"""Memory by phase: for each measured variant its weights, then resident memory after the first request, at the peak of
the requests and at the peak of loading, with the part that is mapped from files hatched."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from optimizers.charts import style
from optimizers.results import Run
from optimizers.schema import Memory

BAR_PIXELS = 13.0
BAR_HALF = 28.0
LEGEND_HEIGHT = 70
ROOM = 62 + LEGEND_HEIGHT


@dataclass(frozen=True)
class Phase:
    """One bar of each variant: the field of `Memory` it shows, and that of its file-backed part when it is told."""

    title: str
    color: str
    total: str
    mapped: str | None = None


PHASES = (
    Phase("weights", style.GREEN, "weights_bytes"),
    Phase("in steady use", style.BLUE, "steady_bytes", "steady_file_bytes"),
    Phase("peak while answering", style.ORANGE, "run_peak_bytes", "run_peak_file_bytes"),
    Phase("peak while loading", style.PURPLE, "load_peak_bytes"),
)


def memory(run: Run, dark: bool | None = None) -> go.Figure:
    """Grouped horizontal bars by phase, in MB or GB (powers of ten). `dark` says what the background is; None: colors
    that read on both."""
    drawn = [(variant.key, variant.memory) for variant in style.measured(run) if variant.memory]
    keys = [key for key, _ in drawn]
    height = ROOM + round(style.pitch(keys, BAR_HALF) * max(len(drawn), 1))
    if not drawn:
        return style.empty(run, "No memory was measured.", dark, height)
    size, unit = _unit([known for _, known in drawn])
    traces = [bar for place, phase in enumerate(PHASES) for bar in _bars(phase, place, drawn, size, unit)]
    if any(_mapped(memory, phase) for _, memory in drawn for phase in PHASES):
        traces.append(_legend_of_mapped())
    made = style.figure(traces, run, dark, height)
    style.name_rows(made, keys, run.baseline, BAR_HALF)
    where = "on the GPU" if any(known.device == "cuda" for _, known in drawn) else "of the process"
    made.update_xaxes(title={"text": f"Memory {where}, {unit}", "standoff": 10}, rangemode="tozero")
    made.update_layout(barmode="overlay")
    style.legend_on_top(made, LEGEND_HEIGHT)
    return made


def memory_rows(run: Run) -> list[list[str]]:
    """The same figures as a table, its first row the headings."""
    drawn = [(variant.key, variant.memory) for variant in style.measured(run) if variant.memory]
    size, unit = _unit([known for _, known in drawn])
    heads = [f"{phase.title}, {unit}" for phase in PHASES]
    rows = [["Variant", *heads, f"mapped from files at the peak while answering, {unit}"]]
    for key, known in drawn:
        figures = [_total(known, phase) for phase in PHASES]
        shown = ["-" if figure is None else f"{figure / size:.2f}" for figure in (*figures, known.run_peak_file_bytes)]
        rows.append([key, *shown])
    return rows


def _total(memory: Memory, phase: Phase) -> int | None:
    value: int | None = getattr(memory, phase.total)
    return value


def _mapped(memory: Memory, phase: Phase) -> int:
    """The file-backed bytes of a phase, never more than its total; 0 where they are not told."""
    value: int | None = getattr(memory, phase.mapped) if phase.mapped else None
    return min(value or 0, _total(memory, phase) or 0)


def _unit(memories: list[Memory]) -> tuple[float, str]:
    largest = max((_total(memory, phase) or 0 for memory in memories for phase in PHASES), default=0)
    return (1e9, "GB") if largest >= 1e9 else (1e6, "MB")


def _bars(phase: Phase, place: int, drawn: list[tuple[str, Memory]], size: float, unit: str) -> list[go.Bar]:
    """The anonymous part and, after it, the file-backed part of one phase."""
    step = style.pitch([key for key, _ in drawn], BAR_HALF)
    rows = [row + (place - 1.5) * (BAR_PIXELS + 1) / step for row in range(len(drawn))]
    totals = [_total(memory, phase) for _, memory in drawn]
    mapped = [_mapped(memory, phase) for _, memory in drawn]
    anonymous = [None if total is None else (total - file) / size for total, file in zip(totals, mapped, strict=True)]
    hover = [
        _hover(key, phase, total, file, size, unit) for (key, _), total, file in zip(drawn, totals, mapped, strict=True)
    ]
    common = {"orientation": "h", "y": rows, "width": BAR_PIXELS / step, "hovertext": hover, "hoverinfo": "text"}
    solid = go.Bar(x=anonymous, name=phase.title, legendgroup=phase.title, marker={"color": phase.color}, **common)
    if not any(mapped):
        return [solid]
    hatched = go.Bar(
        x=[file / size for file in mapped],
        base=[part or 0.0 for part in anonymous],
        legendgroup=phase.title,
        showlegend=False,
        marker=_hatch(phase.color),
        **common,
    )
    return [solid, hatched]


def _hatch(color: str) -> dict[str, object]:
    pattern = {
        "shape": "/",
        "fillmode": "overlay",
        "bgcolor": "rgba(0,0,0,0)",
        "fgcolor": color,
        "size": 6,
        "solidity": 0.4,
    }
    return {"color": "rgba(0,0,0,0)", "pattern": pattern, "line": {"color": color, "width": 1}}


def _legend_of_mapped() -> go.Bar:
    return go.Bar(x=[None], y=[None], name="mapped from files", marker=_hatch(style.NEUTRAL), hoverinfo="skip")


def _hover(key: str, phase: Phase, total: int | None, mapped: int, size: float, unit: str) -> str:
    known = "not known" if total is None else f"{total / size:.2f} {unit}"
    part = f"<br>of it mapped from files: {mapped / size:.2f} {unit}" if mapped else ""
    return f"{style.wrapped(key)}<br>{phase.title}: {known}{part}"
