"""This run against another one on the page: which is picked, and both side by side.

Covers components, what they do, and drawing; the figures come from `analysis.between_runs`. Everything of a run is
untrusted and escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr
from markupsafe import Markup

from optimizers import api
from optimizers.analysis.between_runs import Between, Pair, between
from optimizers.errors import LeversError
from optimizers.results import Ratio, Run, VariantResult
from optimizers.ui import figures, form, notes, tables, words_history
from optimizers.ui.results_view import speed, verdict

MOST_OFFERED = 100

_FINE = Markup('<p class="lv-fine">{}</p>')
_SECTION = Markup('<section class="lv-results lv-between" aria-label="{title}"><h3>{title}</h3>{parts}</section>')
_DIFFERS = Markup("<h4>{title}</h4>{table}")


@dataclass(frozen=True)
class BetweenView:
    other: gr.Dropdown
    shown: gr.HTML


def view(html: Callable[[str, str], gr.HTML]) -> BetweenView:
    """The choice of the other run, and the place for both side by side."""
    with gr.Accordion(words_history.BETWEEN, open=False, elem_id="lv-between"):
        other = gr.Dropdown(
            [], label=words_history.BETWEEN_PICK, info=words_history.BETWEEN_INFO, elem_id="lv-between-other"
        )
        return BetweenView(other, html("", "lv-between-shown"))


def connect(found: BetweenView, run_id: gr.Textbox, finished: gr.Textbox, **quiet: Any) -> None:
    """`finished` is the run's id once it is over."""
    finished.change(offered, finished, [found.other, found.shown], **quiet)
    found.other.input(shown, [run_id, found.other], found.shown, **quiet)


def offered(raw: Any) -> tuple[Any, str]:
    """The other runs as choices, newest first, and what is said where there is none: (dropdown, sentence)."""
    others = [
        (
            words_history.BETWEEN_ENTRY.format(
                at=figures.moment(run.created_at),
                model=run.model,
                variants=figures.plural(len(run.variants), "variant", "variants"),
            ),
            run.id,
        )
        for run in api.runs()
        if run.id != raw
    ]
    said = "" if others or not raw else _FINE.format(words_history.BETWEEN_NONE)
    return gr.Dropdown(choices=others[:MOST_OFFERED], value=None), said


def shown(raw: Any, other: Any) -> str:
    """Both runs side by side, or why not."""
    if not other:
        return ""
    try:
        ours = api.load(form.run_id(raw))
    except LeversError as error:
        return notes.message(error)
    try:
        theirs = api.load(form.run_id(other))
    except LeversError:
        return notes.message(LeversError(words_history.BETWEEN_GONE, words_history.BETWEEN_GONE_REMEDY))
    return side_by_side(ours, theirs)


def side_by_side(one: Run, other: Run) -> str:
    """What differs between the runs, then each variant that both measured."""
    found = between(one, other)
    title = words_history.BETWEEN_TITLE.format(at=figures.moment(other.created_at))
    parts = (
        _differences(found),
        _pairs(found, title),
        *(
            _FINE.format(said.format(titles=", ".join(titles)))
            for said, titles in ((words_history.ONLY_NOW, found.only_one), (words_history.ONLY_THEN, found.only_other))
            if titles
        ),
    )
    return _SECTION.format(title=title, parts=Markup("").join(parts))


def _differences(found: Between) -> Markup:
    if not found.differences:
        return _FINE.format(words_history.NOTHING_DIFFERS)
    rows = ((item.name, item.one, item.other) for item in found.differences)
    table = tables.plain(words_history.DIFFERS, words_history.DIFFERENCE_COLUMNS, rows)
    return _DIFFERS.format(title=words_history.DIFFERS, table=table)


def _pairs(found: Between, title: str) -> Markup:
    if not found.pairs:
        return _FINE.format(words_history.NO_PAIR)
    rows = (
        tables.row(
            pair.one.title,
            pair.one.key,
            (tables.cell(*cell) for cell in zip(words_history.BETWEEN_COLUMNS[1:], _cells(pair), strict=True)),
        )
        for pair in found.pairs
    )
    drawn = tables.table(title, map(tables.header, words_history.BETWEEN_COLUMNS), rows)
    return drawn + _FINE.format(words_history.BETWEEN_FINE)


def _cells(pair: Pair) -> tuple[str | Markup, ...]:
    def both(figure: Callable[[VariantResult], str]) -> str:
        return words_history.THEN.format(now=figure(pair.one), then=figure(pair.other))

    return (
        verdict(pair.decode),
        speed(pair.decode),
        both(_rate),
        both(_first_token),
        both(lambda variant: _times(variant.decode_ratio)),
        both(lambda variant: figures.size(variant.memory.run_peak_bytes if variant.memory else None)),
        both(_kl),
    )


def _rate(variant: VariantResult) -> str:
    return figures.number(figures.median(variant.latency.decode_tokens_per_s) if variant.latency else None)


def _first_token(variant: VariantResult) -> str:
    return figures.short_seconds(figures.median(variant.latency.ttft_s) if variant.latency else None)


def _kl(variant: VariantResult) -> str:
    quality = variant.quality
    return figures.small(quality.kl_divergence.mean if quality and quality.kl_divergence else None)


def _times(ratio: Ratio | None) -> str:
    return figures.times(ratio.ratio if ratio else None)
