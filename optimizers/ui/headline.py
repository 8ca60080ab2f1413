"""The headline of a finished run: what to use, told anew as two sliders say how much memory and difference may be.

Covers drawing. Every sentence that a position of the sliders can lead to is in the markup once; wish.js shows the one.
"""

from __future__ import annotations

import json
from pathlib import Path

from markupsafe import Markup

from optimizers.analysis.quality_words import QUALITY_WORDS
from optimizers.analysis.recommendation import NO_WISH, Wish, peak_bytes, recommend
from optimizers.results import Recommendation, Run
from optimizers.ui import figures, words

SCRIPT = Path(__file__).parents[2] / "assets" / "wish.js"
MOST_STOPS = 24  # of the memory slider

_HEADLINE = Markup(
    '<section class="lv-recommend" aria-label="{heading}" data-wish="{places}">'
    '<p class="lv-eyebrow">{heading}</p>'
    '<div class="lv-advices" aria-live="polite">{advices}</div>{sliders}</section>'
)
_ADVICE = Markup('<div class="lv-advice"{hidden}><p class="lv-say">{text}</p><p>{reason} {condition}</p></div>')
_SLIDER = Markup(
    '<div class="lv-slider" data-of="{of}"><span aria-hidden="true">{label} <b>{now}</b></span><input type="range" '
    'min="0" max="{last}" step="1" value="{at}" data-said="{said}" aria-label="{label}" aria-valuetext="{now}"></div>'
)
_SLIDERS = Markup('<div class="lv-sliders">{memory}{quality}<p>{rule}</p></div>')
_HIDDEN = Markup(" hidden")


def headline(run: Run) -> Markup:
    """The recommendation of a finished run with its sliders; empty where the run supports none."""
    if recommend(run.variants, run.baseline, run.model.low_bit_grid) is None:
        return Markup("")
    stops, qualities = _stops(run), tuple(reversed(QUALITY_WORDS))
    at = qualities.index(NO_WISH.quality)
    told: dict[Recommendation | None, int] = {}
    places = [[told.setdefault(_advice(run, Wish(most, least)), len(told)) for least in qualities] for most in stops]
    shown = places[-1][at]
    return _HEADLINE.format(
        heading=words.RECOMMENDED,
        places=json.dumps(places),
        advices=Markup("").join(_said(advice, place != shown) for advice, place in told.items()),
        sliders=_SLIDERS.format(
            memory=_slider("memory", words.WISH_MEMORY, [_at_most(most) for most in stops], len(stops) - 1),
            quality=_slider("quality", words.WISH_QUALITY, [words.WISH_QUALITIES[word] for word in qualities], at),
            rule=figures.quality_rule(),
        ),
    )


def _stops(run: Run) -> tuple[int | None, ...]:
    """What the memory slider can be set to: each measured variant's peak, as any recommendation changes there only; the
    last is no limit."""
    peaks = sorted({peak for one in run.variants if one.status == "measured" and (peak := peak_bytes(one)) is not None})
    return (*peaks[:-1][-MOST_STOPS:], None)


def _advice(run: Run, wish: Wish) -> Recommendation | None:
    return recommend(run.variants, run.baseline, run.model.low_bit_grid, wish)


def _said(advice: Recommendation | None, hidden: bool) -> Markup:
    text, reason, condition = (
        (advice.text, advice.reason, advice.condition) if advice else (words.WISH_NOTHING, words.WISH_MORE, "")
    )
    return _ADVICE.format(text=text, reason=reason, condition=condition, hidden=_HIDDEN if hidden else Markup(""))


def _at_most(most: int | None) -> str:
    return words.WISH_ANY if most is None else figures.size(most)


def _slider(of: str, label: str, said: list[str], at: int) -> Markup:
    """One slider whose positions have these words; none where there is nothing to set."""
    if len(said) < 2:
        return Markup("")
    return _SLIDER.format(of=of, label=label, now=said[at], last=len(said) - 1, at=at, said=json.dumps(said))
