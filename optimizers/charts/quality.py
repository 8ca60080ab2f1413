"""Quality against speed: each measured variant as a point, up and to the right is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from optimizers.analysis.quality_words import numeric_floor
from optimizers.charts import labels, style
from optimizers.results import Ratio, Run, VariantResult, Verdict

HEIGHT = 400
# Mean KL divergences at or under this are drawn on one line, "about 0": a logarithm has no zero.
NEARLY_ZERO = 1e-5


@dataclass(frozen=True)
class Spot:
    """One variant in the chart: its speed ratio and mean KL divergence (nats)."""

    key: str
    label: str
    ratio: float
    low: float | None
    high: float | None
    kl: float
    verdict: Verdict
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
    made = style.figure([_steps(spots), _points(spots, dark)], run, dark, HEIGHT)
    left, right = _reach([x for spot in spots for x in (spot.ratio, spot.low, spot.high) if x is not None])
    worst = max(0.0, math.ceil(max(spot.height for spot in spots) + 0.05))
    bottom, top = worst + 0.15, math.log10(NEARLY_ZERO) - 0.5
    noise = _floors(made, run, (left, right), top, dark)
    for spot, place in zip(spots, labels.places(_marks(spots, (left, right), (bottom, top))), strict=True):
        standing = labels.standing(spot.ratio, spot.low, spot.high, *place)
        made.add_annotation(y=spot.height, text=style.escape(spot.label), **standing)
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
    rows = [["Variant", "Speed against the baseline", "Verdict", "Mean KL divergence, nats", "Beaten in both"]]
    spots = _spots(run)
    along = front(spots)
    rows += [
        [spot.key, f"{spot.ratio:.2f}x", spot.verdict, spot.nats, "no" if spot in along else "yes"] for spot in spots
    ]
    return rows + [row for variant in style.measured(run) for row in _by_bytes(variant)]


def _by_bytes(variant: VariantResult) -> list[list[str]]:
    """The row of a model with other tokens, which has no place in the chart."""
    ratio = variant.versus_baseline.decode if variant.versus_baseline else None
    quality = variant.quality
    if quality is None or quality.kl_divergence is not None or quality.per_byte is None or ratio is None:
        return []
    said = f"none, another model: {quality.per_byte.ratio.value:.2f}x the perplexity per byte"
    return [[variant.key, f"{ratio.ratio:.2f}x", ratio.verdict, said, "not compared"]]


def _spots(run: Run) -> list[Spot]:
    drawn = [variant for variant in style.measured(run) if variant.versus_baseline and variant.versus_baseline.decode]
    names = style.short_labels([variant.key for variant in drawn], run.baseline)
    spots = []
    for variant in drawn:
        kl = _kl(variant, run.baseline)
        ratio: Ratio | None = variant.versus_baseline.decode if variant.versus_baseline else None
        if kl is not None and ratio is not None and math.isfinite(kl) and math.isfinite(ratio.ratio):
            noise = variant.quality is not None and variant.quality.within_noise
            spots.append(
                Spot(
                    variant.key,
                    labels.short(names[variant.key]),
                    ratio.ratio,
                    ratio.low,
                    ratio.high,
                    kl,
                    ratio.verdict,
                    noise,
                )
            )
    return spots


def _kl(variant: VariantResult, baseline: str) -> float | None:
    if variant.key == baseline:
        return 0.0
    spread = variant.quality.kl_divergence if variant.quality else None
    return spread.mean if spread else None


def front(spots: Sequence[Spot]) -> list[Spot]:
    """The Pareto front, from slow to fast: the spots that no other beats in one of speed and quality without losing in
    the other."""

    def beaten(spot: Spot) -> bool:
        return any(
            other.ratio >= spot.ratio and other.kl <= spot.kl and (other.ratio, other.kl) != (spot.ratio, spot.kl)
            for other in spots
        )

    return sorted((spot for spot in spots if not beaten(spot)), key=lambda spot: (spot.ratio, -spot.kl))


def _steps(spots: Sequence[Spot]) -> go.Scatter:
    """The front as steps: at each speed the best quality that something as fast has."""
    along = front(spots)
    return go.Scatter(
        mode="lines",
        x=[spot.ratio for spot in along],
        y=[spot.height for spot in along],
        line={"color": style.NEUTRAL, "dash": "dash", "width": 1, "shape": "vh"},
        hoverinfo="skip",
    )


def _points(spots: Sequence[Spot], dark: bool | None) -> go.Scatter:
    return go.Scatter(
        mode="markers",
        x=[spot.ratio for spot in spots],
        y=[spot.height for spot in spots],
        marker={
            "size": 13,
            "color": [style.COLORS[spot.verdict] for spot in spots],
            "symbol": [SYMBOLS[spot.verdict] for spot in spots],
        },
        error_x=style.whiskers(
            [spot.ratio for spot in spots],
            [spot.low for spot in spots],
            [spot.high for spot in spots],
            dark,
            thickness=1,
            width=3,
        ),
        hovertext=[
            f"{style.wrapped(spot.key)}<br>{spot.ratio:.2f}x, {spot.verdict}<br>mean KL, nats: {spot.nats}"
            for spot in spots
        ],
        hoverinfo="text",
        cliponaxis=False,
    )


SYMBOLS: dict[Verdict, str] = {
    "faster": "triangle-up",
    "slower": "triangle-down",
    "within noise": "circle",
    "too few rounds": "circle-open",
    "baseline": "diamond",
}


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


def _marks(spots: Sequence[Spot], across: tuple[float, float], down: tuple[float, float]) -> list[labels.Mark]:
    def share(value: float) -> float:
        return (value - across[0]) / (across[1] - across[0])

    return [
        labels.Mark(
            spot.label,
            share(spot.ratio),
            (spot.height - down[0]) / (down[1] - down[0]),
            *(share(spot.ratio if end is None else end) for end in (spot.low, spot.high)),
        )
        for spot in spots
    ]
