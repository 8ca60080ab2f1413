"""Decoding speed: a bar for each measured variant, with its interval, its verdict and the baseline's noise band."""

from __future__ import annotations

import plotly.graph_objects as go

from optimizers.charts import style
from optimizers.results import MARKS, Run, Stat, VariantResult, Verdict

LEAST_FLOOR = 0.02
BAR_HALF = 12.0
ROOM = 76
ROOM_FOR_WORDS = 1.8


def speed(run: Run, dark: bool | None = None) -> go.Figure:
    """Horizontal bars of the median decode tokens/s with 95 % intervals. The shaded band is where a variant cannot be
    told from the baseline. `dark` says what the background is; None: colors that read on both."""
    drawn = [(variant, stat) for variant in style.measured(run) if (stat := _decode(variant))]
    keys = [variant.key for variant, _ in drawn]
    height = ROOM + round(style.pitch(keys, BAR_HALF) * max(len(drawn), 1))
    if not drawn:
        return style.empty(run, "No decoding speed was measured.", dark, height)
    made = style.figure([_bars(drawn, 2 * BAR_HALF / style.pitch(keys, BAR_HALF), dark)], run, dark, height)
    style.name_rows(made, keys, run.baseline, BAR_HALF)
    longest = max(_end(stat) for _, stat in drawn)
    _label_bars(made, drawn)
    shaded = _band(made, run, drawn, longest, dark)
    title = f"Tokens per second, decoding<br><span style='font-size:12px'>95 % interval{shaded}</span>"
    made.update_xaxes(title={"text": title, "standoff": 10}, range=[0, longest * ROOM_FOR_WORDS], rangemode="tozero")
    return made


def speed_rows(run: Run) -> list[list[str]]:
    """The same figures as a table, its first row the headings."""
    rows = [["Variant", "Decode tokens/s", "95 % interval", "Against the baseline", "Verdict"]]
    for variant in style.measured(run):
        stat, ratio = _decode(variant), variant.versus_baseline and variant.versus_baseline.decode
        if stat:
            interval = "-" if stat.low is None or stat.high is None else f"{stat.low:.1f} to {stat.high:.1f}"
            against = [f"{ratio.ratio:.2f}x", ratio.verdict] if ratio else ["-", "-"]
            rows.append([variant.key, f"{stat.median:.1f}", interval, *against])
    return rows


def _decode(variant: VariantResult) -> Stat | None:
    return variant.latency.decode_tokens_per_s if variant.latency else None


def _verdict(variant: VariantResult) -> Verdict | None:
    ratio = variant.versus_baseline.decode if variant.versus_baseline else None
    return ratio.verdict if ratio else None


def _end(stat: Stat) -> float:
    return max(stat.median, stat.high or 0.0)


def _bars(drawn: list[tuple[VariantResult, Stat]], width: float, dark: bool | None) -> go.Bar:
    stats = [stat for _, stat in drawn]
    verdicts = [_verdict(variant) for variant, _ in drawn]
    return go.Bar(
        orientation="h",
        x=[stat.median for stat in stats],
        y=list(range(len(stats))),
        width=width,
        marker={"color": [style.COLORS[word] if word else style.PALE for word in verdicts]},
        error_x=style.whiskers(
            [stat.median for stat in stats],
            [stat.low for stat in stats],
            [stat.high for stat in stats],
            dark,
            thickness=1.5,
            width=5,
        ),
        hovertext=[_hover(variant, stat) for variant, stat in drawn],
        hoverinfo="text",
    )


def _hover(variant: VariantResult, stat: Stat) -> str:
    interval = "" if stat.low is None or stat.high is None else f" ({stat.low:.1f} to {stat.high:.1f})"
    return f"{style.wrapped(variant.key)}<br>{stat.median:.1f} tokens/s{interval}<br>{stat.n} requests"


def _label_bars(made: go.Figure, drawn: list[tuple[VariantResult, Stat]]) -> None:
    for row, (variant, stat) in enumerate(drawn):
        made.add_annotation(
            x=_end(stat),
            y=row,
            text=_label(variant, stat),
            showarrow=False,
            xanchor="left",
            yanchor="middle",
            xshift=9,
            align="left",
        )


def _label(variant: VariantResult, stat: Stat) -> str:
    ratio = variant.versus_baseline.decode if variant.versus_baseline else None
    if ratio is None:
        return f"<b>{stat.median:.1f}</b>"
    against = "" if ratio.verdict in ("baseline", "too few rounds") else f" {ratio.ratio:.2f}x"
    return f"<b>{stat.median:.1f}</b>  {MARKS[ratio.verdict]}{against} {ratio.verdict}"


def _band(made: go.Figure, run: Run, drawn: list[tuple[VariantResult, Stat]], longest: float, dark: bool | None) -> str:
    """Draw the noise band around the baseline; the words for it, empty without a baseline."""
    base = next((stat for variant, stat in drawn if variant.key == run.baseline), None)
    if base is None:
        return ""
    floor = LEAST_FLOOR if run.noise_floor.decode is None else run.noise_floor.decode
    made.add_vrect(
        x0=max(0.0, base.median * (1 - floor)),
        x1=min(longest * ROOM_FOR_WORDS, base.median * (1 + floor)),
        fillcolor=style.band_color(dark),
        line_width=0,
        layer="below",
    )
    made.add_vline(x=base.median, line={"color": style.NEUTRAL, "width": 1, "dash": "dot"}, layer="below")
    return "; shaded: noise, over ±100%" if floor > 1 else f"; shaded: noise, ±{floor:.0%}"
