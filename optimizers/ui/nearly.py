"""What both sides nearly said where an answer leaves the baseline's, as a table below the answer.

Covers drawing, and how a token is made visible: its text is a model's output. Whether it was a near tie, and why
nothing is known where that is so, was judged when the run was compared; a run that did not keep that is drawn without.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import zip_longest

from markupsafe import Markup

from optimizers.analysis.divergence import sound
from optimizers.analysis.near_misses import NEAR_TIE, tie_width
from optimizers.quality import Quality
from optimizers.results import Run
from optimizers.schema import Output
from optimizers.scores import Candidate
from optimizers.ui import figures, words_nearly

EMPTY = Markup("")
LONGEST = 24  # characters of a token
LONGEST_REASON = 400
LEAST = 0.001
UNFINISHED = "\ufffd"

_WHOLE = Markup('<div class="lv-nearly">{}</div>')
_TABLE = Markup(
    "<table><caption>{caption}</caption><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>{note}"
)
_HEADER = Markup('<th scope="col">{}</th>')
_HIDDEN_HEADER = Markup('<th scope="col"><span class="lv-hidden">{}</span></th>')
_ROW = Markup('<tr><th scope="row">{}</th>{}{}</tr>')
_CELL = Markup(
    '<td><code><bdi>{token}</bdi></code><span class="lv-odds"><span class="lv-odds-bar" aria-hidden="true">'
    '<i style="width:{width:.1f}%"></i></span>{share}</span></td>'
)
_NO_CELL = Markup("<td>{}</td>")
_NOTE = Markup("<p>{}</p>")


def nearly(run: Run, quality: Quality | None, answer: Output, reference: Output) -> Markup:
    """What is known of where `answer` leaves `reference`, the baseline's; nothing of a run that kept nothing of it."""
    if quality is None:
        return EMPTY
    miss = next((one for one in quality.near_misses if one.prompt == answer.prompt), None)
    place = next((one for one in quality.first_divergence if one.prompt == answer.prompt), None)
    found = sound(place.disagreement) if place else None
    if place is None or found is None:
        return _WHOLE.format(_NOTE.format(cut(miss.absent, LONGEST_REASON))) if miss and miss.absent else EMPTY
    theirs, ours = (
        _cells(candidates, text.stopped and len(text.token_ids) == place.token)
        for candidates, text in ((found.baseline, reference), (found.variant, answer))
    )
    none = _NO_CELL.format(figures.NOTHING)
    rows = (_ROW.format(rank, *pair) for rank, pair in enumerate(zip_longest(theirs, ours, fillvalue=none), 1))
    first, *others = words_nearly.COLUMNS
    table = _TABLE.format(
        caption=words_nearly.LIKELIEST,
        header=_HIDDEN_HEADER.format(first) + EMPTY.join(map(_HEADER.format, others)),
        rows=EMPTY.join(rows),
        note=_near_tie(run) if miss and miss.near_tie else EMPTY,
    )
    return _WHOLE.format(table)


def _cells(candidates: tuple[Candidate, ...], ended: bool) -> list[Markup]:
    """The candidates of one side. `ended`: what it said, the first, is the end of its answer."""
    cells = []
    for rank, candidate in enumerate(candidates):
        token = _described(words_nearly.ENDS) if ended and rank == 0 else visible(candidate.token)
        chance = candidate.probability
        share = figures.percent(chance) if chance == 0 or chance >= LEAST else words_nearly.UNDER_LEAST
        cells.append(_CELL.format(token=token, width=100 * chance, share=share))
    return cells


def _near_tie(run: Run) -> Markup:
    """The word with its rule as it stands in this run."""
    width = tie_width(run.noise_floor.kl_divergence)
    said = words_nearly.NEAR_TIE_NOISE if width > NEAR_TIE else words_nearly.NEAR_TIE
    return _NOTE.format(said.format(points=f"{100 * width:.2g}"))


def visible(token: str) -> str:
    """A token with all that has no shape of its own named: spaces, line ends, controls (those that turn the direction
    of the text too), parts of characters."""
    if not token:
        return _described(words_nearly.NO_TEXT)
    shown = "".join(map(_sign, re.sub(f"{UNFINISHED}+", UNFINISHED, cut(token, LONGEST))))
    return f"◌{shown}" if unicodedata.category(token[0]).startswith("M") else shown


def _sign(letter: str) -> str:
    if letter in words_nearly.SIGNS:
        return words_nearly.SIGNS[letter]
    if letter == UNFINISHED:
        return _described(words_nearly.FRAGMENT)
    if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp"):
        return _described(words_nearly.CODE_POINT.format(code=ord(letter)))
    return letter


def _described(what: str) -> str:
    return f"⟨{what}⟩"


def cut(text: str, longest: int) -> str:
    """No more of a text than so many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
