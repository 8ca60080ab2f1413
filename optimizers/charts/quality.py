"""Quality against speed: each measured variant as a point, up and to the right is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import ge

import plotly.graph_objects as go

from optimizers.analysis.quality_words import numeric_floor
from optimizers.charts import points, style
from optimizers.results import Ratio, Run, Stat, VariantResult

HEIGHT = 400
# Mean KL divergences at or under this are drawn on one line, "about 0": a logarithm has no zero.
NEARLY_ZERO = 1e-5


@dataclass(frozen=True)
class Spot:
    """One variant in the chart: its speed ratio and mean KL divergence (nats)."""

    key: str
    label: str
    ratio: Ratio
    kl: float
    within_noise: bool = False

    @property
    def height(self) -> float:
        """The decimal logarithm at which it is drawn."""
        return math.log10(max(self.kl, NEARLY_ZERO))

    @property
    def nats(self) -> str:
        """The mean KL divergence in words; rounding can leave a tiny one under zero."""
        said = "about 0" if self.kl <= NEARLY_ZERO else f"{self.kl:.2g}"
        return f"{said}, within noise" if self.within_noise else said


def quality(run: Run, dark: bool | None = None) -> go.Figure:
    """Mean KL divergence on the answers (log axis, small at the top) against the decode speed ratio, with the Pareto
    front as dashed steps. The upright band is the noise of the speed, the band along the top that of the numerics.
    `dark` says what the background is; None: colors that read on both."""
    spots = _spots(run)
    if not spots:
        return style.empty(run, "No quality was measured against a speed.", dark, HEIGHT)
    drawn = [_point(spot) for spot in spots]
    made = style.figure([_steps(spots), points.scatter(drawn, dark)], run, dark, HEIGHT)
    left, right = _reach([end for at in drawn for end in (at.x.median, at.x.low, at.x.high) if end is not None])
    worst = max(0.0, math.ceil(max(spot.height for spot in spots) + 0.05))
    bottom, top = worst + 0.15, math.log10(NEARLY_ZERO) - 0.5
    noise = _floors(made, run, (left, right), top, dark)
    points.label(made, drawn, (left, right), (bottom, top))
    made.update_xaxes(
        title={"text": f"Decoding speed against the baseline{noise}", "standoff": 10},
        range=[left, right],
        ticksuffix="x",
    )
    ticks = [math.log10(NEARLY_ZERO), *range(-4, int(worst) + 1)]
    made.update_yaxes(
        title={"text": "Mean KL divergence, nats (up is better)", "standoff": 8},
        range=[bottom, top],
        tickmode="array",
        tickvals=ticks,
        ticktext=["≈ 0", *(f"{10.0**power:g}" for power in ticks[1:])],
        zeroline=False,
    )
    return made


def quality_rows(run: Run) -> list[list[str]]:
    """The same figures as a table, its first row the headings."""
    rows = [["Variant", "Speed against the baseline", "Verdict", "Mean KL divergence, nats", "On the front"]]
    spots = _spots(run)
    along = front(spots)
    rows += [
        [spot.key, f"{spot.ratio.ratio:.2f}x", spot.ratio.verdict, spot.nats, "yes" if spot in along else "no"]
        for spot in spots
    ]
    return rows + [row for variant in style.measured(run) for row in _by_bytes(variant)]


def _by_bytes(variant: VariantResult) -> list[list[str]]:
    """The row of a model with other tokens, which has no place in the chart."""
    ratio, quality = variant.decode_ratio, variant.quality
    if quality is None or quality.kl_divergence is not None or quality.per_byte is None or ratio is None:
        return []
    said = f"none, another model: {quality.per_byte.ratio.value:.2f}x the perplexity per byte"
    return [[variant.key, f"{ratio.ratio:.2f}x", ratio.verdict, said, "not compared"]]


def _spots(run: Run) -> list[Spot]:
    drawn = [variant for variant in style.measured(run) if variant.decode_ratio]
    names = style.short_labels([variant.key for variant in drawn], run.baseline)
    spots = []
    for variant in drawn:
        kl, ratio = _kl(variant, run.baseline), variant.decode_ratio
        if kl is not None and ratio is not None and math.isfinite(kl) and math.isfinite(ratio.ratio):
            noise = variant.quality is not None and variant.quality.within_noise
            spots.append(Spot(variant.key, points.short(names[variant.key]), ratio, kl, noise))
    return spots


def _point(spot: Spot) -> points.Point:
    ratio = spot.ratio
    return points.Point(
        label=spot.label,
        hover=f"{style.wrapped(spot.key)}<br>{ratio.ratio:.2f}x, {ratio.verdict}<br>mean KL, nats: {spot.nats}",
        verdict=ratio.verdict,
        x=Stat(ratio.ratio, ratio.low, ratio.high, 0),
        y=Stat(spot.height, None, None, 0),
    )


def _kl(variant: VariantResult, baseline: str) -> float | None:
    if variant.key == baseline:
        return 0.0
    spread = variant.quality.kl_divergence if variant.quality else None
    return spread.mean if spread else None


def front(spots: Sequence[Spot]) -> list[Spot]:
    """The Pareto front, from slow to fast: the spots that no other beats in one of speed and quality without losing in
    the other."""

    def place(spot: Spot) -> tuple[float, float]:
        return spot.ratio.ratio, -spot.kl

    def beaten(spot: Spot) -> bool:
        here = place(spot)
        return any(there != here and all(map(ge, there, here)) for there in map(place, spots))

    return sorted((spot for spot in spots if not beaten(spot)), key=place)


def _steps(spots: Sequence[Spot]) -> go.Scatter:
    """The front as steps: at each speed the best quality that something as fast has."""
    along = front(spots)
    return go.Scatter(
        mode="lines",
        x=[spot.ratio.ratio for spot in along],
        y=[spot.height for spot in along],
        line={"color": style.NEUTRAL, "dash": "dash", "width": 1, "shape": "vh"},
        hoverinfo="skip",
    )


def _reach(values: Sequence[float]) -> tuple[float, float]:
    """The horizontal range: 1 and everything drawn, with room for labels at both sides."""
    low, high = min(1.0, *values), max(1.0, *values)
    room = max(0.1, (high - low) * 0.3)
    return max(0.0, low - room), high + room


def _floors(made: go.Figure, run: Run, across: tuple[float, float], top: float, dark: bool | None) -> str:
    """Draw both bands of noise; the words for them. What is too small for the axis ends at its "about 0"."""
    floor, (left, right) = style.speed_floor(run.noise_floor.decode), across
    look = {"fillcolor": style.band_color(dark), "line_width": 0, "layer": "below"}
    made.add_vrect(x0=max(left, 1 - floor), x1=min(right, 1 + floor), **look)
    noise, words = numeric_floor(run.noise_floor.kl_divergence), f"{style.floor_words(floor)} in speed"
    if noise is not None:
        made.add_hrect(y0=math.log10(max(noise, NEARLY_ZERO)), y1=top, **look)
        words += f", KL up to {noise:.2g}"
    return f"<br><span style='font-size:12px'>shaded: noise, {words}</span>"
