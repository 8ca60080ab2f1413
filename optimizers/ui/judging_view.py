"""A pair of answers without their names, and what the votes on such pairs say, as HTML.

Covers drawing only. What is drawn of a pair hangs on its texts and their sides alone, so that nothing in it tells which
is the baseline's. Answers are a model's: they are shown as text.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from optimizers.analysis.votes import CERTAIN, Tallies, Tally, tallies
from optimizers.results import Run
from optimizers.ui import figures, tables, words_judging

EMPTY = Markup("")
LEAST_P = 0.0001

# What `data-next` marks takes the focus when it has come.
_HEADING = Markup("<h2>{}</h2><p>{}</p>")
_PAIR = Markup(
    '<section class="lv-pair" aria-label="{at}"><h3 tabindex="-1" data-next>{at}</h3>{alike}'
    '<div class="lv-pair-prompt" tabindex="0" role="group" aria-label="{asked}"><p class="lv-prose">{prompt}</p></div>'
    '<div class="lv-pair-sides">{sides}</div></section>'
)
_SIDE = Markup(
    '<div class="lv-side"><h4>{title}</h4><div class="lv-side-text" tabindex="0" role="group" aria-label="{title}">'
    '<p class="lv-prose">{text}</p></div></div>'
)
_SAID = Markup('<p class="lv-judged" tabindex="-1" data-next>{}</p>')
_FINE = Markup('<p class="lv-fine">{}</p>')
_TALLY = Markup(
    '<section class="lv-results lv-tally" aria-label="{heading}"><h3 tabindex="-1" data-next>{heading}</h3>{body}'
    "</section>"
)
_READ_BLIND = Markup('<p class="lv-read-blind"><strong>{}</strong> {}</p>')


def heading() -> Markup:
    """What the section is for."""
    return _HEADING.format(words_judging.HEADING, words_judging.HINT)


def pair(number: int, pairs: int, alike: int, prompt: str, left: str, right: str) -> str:
    """Two answers to a prompt; `alike` pairs are not asked."""
    titles = (words_judging.LEFT, left), (words_judging.RIGHT, right)
    return _PAIR.format(
        at=words_judging.PAIR.format(number=number, pairs=pairs),
        alike=_FINE.format(same(alike)) if alike else EMPTY,
        asked=words_judging.PROMPT,
        prompt=prompt,
        sides=EMPTY.join(_SIDE.format(title=title, text=text or words_judging.EMPTY_ANSWER) for title, text in titles),
    )


def said(*sentences: str) -> str:
    """In place of a pair."""
    return _SAID.format(" ".join(filter(None, sentences)))


def same(alike: int) -> str:
    """How many pairs are not asked; empty for none."""
    return words_judging.ALIKE.format(pairs=amount(alike, words_judging.ALIKE_PAIRS)) if alike else ""


def amount(number: int, forms: tuple[str, str]) -> str:
    """The form of a sentence for one, or that for more."""
    return forms[number != 1].format(amount=number)


def tally(run: Run) -> str:
    """What the votes say of each variant."""
    found = tallies(run)
    if not found.variants:
        body = Markup("<p>{}</p>").format(words_judging.NO_VOTES)
        return _TALLY.format(heading=words_judging.TALLY, body=body)
    drawn = tables.table(
        words_judging.TALLY, map(tables.header, words_judging.COLUMNS), (_row(one) for one in found.variants)
    )
    return _TALLY.format(heading=words_judging.TALLY, body=drawn + _FINE.format(_fine(found)))


def read_blind(run: Run) -> Markup:
    """One line for the results; empty without votes."""
    found = tallies(run).variants
    told = (_in_words(one, one.title) for one in found)
    return _READ_BLIND.format(f"{words_judging.READ_BLIND}:", "; ".join(told) + ".") if found else EMPTY


def _row(one: Tally) -> Markup:
    cells: Iterable[str] = (f"{one.better:,}", f"{one.same:,}", f"{one.worse:,}", _in_words(one, words_judging.IT))
    shown = (tables.cell(*cell) for cell in zip(words_judging.COLUMNS[1:], cells, strict=True))
    return tables.row(one.title, one.variant, shown)


def _in_words(one: Tally, it: str) -> str:
    if one.p is None:
        return words_judging.UNDECIDED.format(it=it)
    return words_judging.PREFERRED.format(
        better=f"{one.better:,}",
        decided=figures.plural(one.decided, *words_judging.VOTES),
        it=it,
        word=words_judging.WORDS[one.word],
        p=words_judging.P_SMALL if one.p < LEAST_P else words_judging.P.format(p=f"{one.p:.2g}"),
    )


def _fine(found: Tallies) -> str:
    corrected = words_judging.CORRECTED.format(tests=found.tests) if found.tests > 1 else ""
    return words_judging.FINE.format(
        certain=CERTAIN,
        corrected=corrected,
        voters=figures.plural(found.voters, *words_judging.READERS),
        prompts=figures.plural(found.prompts, "prompt", "prompts"),
    )
