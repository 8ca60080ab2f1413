"""Tables of variants as HTML: one row a variant, its title and key first. Covers markup; on a phone each row is a card.
Beside them, plain tables of texts.

The roles are said because the style of narrow pages takes them away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

EMPTY = Markup("")

_TABLE = Markup(
    '<div class="lv-scroll" tabindex="0" role="group" aria-label="{label}"><table role="table">'
    '<thead role="rowgroup"><tr role="row">{header}</tr></thead><tbody role="rowgroup">{rows}</tbody></table></div>'
)
_HEADER = Markup('<th role="columnheader" scope="col"{more}>{name}</th>')
_NAME = Markup('<th role="rowheader" scope="row" class="lv-name"><span>{}</span><code>{}</code></th>')
_CELL = Markup('<td role="cell" data-label="{label}"{more}><span>{value}</span></td>')
_PLAIN = Markup(
    '<div class="lv-scroll" tabindex="0" role="group" aria-label="{label}"><table><thead><tr>{header}</tr></thead>'
    "<tbody>{rows}</tbody></table></div>"
)
_PLAIN_ROW = Markup('<tr><th scope="row">{first}</th>{rest}</tr>')
_ROW = Markup('<tr role="row"{more}>{name}{cells}</tr>')


@dataclass(frozen=True)
class Cell:
    """One figure of a variant: as it is shown, and the number that its column sorts by, None where there is none."""

    shown: str | Markup
    sorts: float | None = None


def table(label: str, header: Iterable[Markup], rows: Iterable[Markup]) -> Markup:
    """The whole, from what `header` and `row` made."""
    return _TABLE.format(label=label, header=EMPTY.join(header), rows=EMPTY.join(rows))


def header(name: str | Markup, more: Markup = EMPTY) -> Markup:
    """The head of a column; `more` are further attributes, here and below."""
    return _HEADER.format(name=name, more=more)


def row(title: str, key: str, cells: Iterable[Markup], more: Markup = EMPTY) -> Markup:
    """A variant's row; `cells` as `cell` made them."""
    return _ROW.format(name=_NAME.format(title, breakable(key)), cells=EMPTY.join(cells), more=more)


def cell(label: str, value: str | Markup, more: Markup = EMPTY) -> Markup:
    """One figure; `label` is its column's name, which a card shows beside it."""
    return _CELL.format(label=label, value=value, more=more)


def plain(label: str, header: Iterable[str], rows: Iterable[Sequence[str]]) -> Markup:
    """A table of texts, of which the first column names each row; on a phone too it stays a table."""
    drawn = (
        _PLAIN_ROW.format(first=first, rest=EMPTY.join(Markup("<td>{}</td>").format(text) for text in rest))
        for first, *rest in rows
    )
    names = EMPTY.join(Markup('<th scope="col">{}</th>').format(name) for name in header)
    return _PLAIN.format(label=label, header=names, rows=EMPTY.join(drawn))


def breakable(key: str) -> Markup:
    """A key that may wrap after each plus sign and underscore."""
    return Markup(str(escape(key)).replace("+", "+<wbr>").replace("_", "_<wbr>"))
