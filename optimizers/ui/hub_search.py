"""Searching the hub as a person types: a field under the list of models, and a route of its own, so that a search takes
no place in Gradio's queue and holds up nothing else.

Covers drawing, the route, and putting what was taken into the field of the model. The page's side, which waits for a
pause in the typing and drops answers to earlier texts, is assets/search.js.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from optimizers import api
from optimizers.errors import ChoiceError, LeversError
from optimizers.results import Hit
from optimizers.settings import MOST_SEARCH_TEXT
from optimizers.ui import figures, form, words_search

PATH = "/levers/search"
SCRIPT = Path(__file__).parents[2] / "assets" / "search.js"

_TAKEN = "() => [document.getElementById('lv-search')?.dataset.taken ?? '']"
_FIELD = Markup(
    '<div class="lv-search" data-searching="{searching}" data-failed="{failed}" data-taken="{taken}">'
    '<label for="lv-search-text">{label}</label><p id="lv-search-info">{info}</p>'
    '<input id="lv-search-text" type="search" maxlength="{most}" autocomplete="off" autocapitalize="off" '
    'spellcheck="false" aria-describedby="lv-search-info"{disabled}>'
    '<p role="status">{said}</p><div class="lv-hits"></div></div>'
)
_DISABLED = Markup(" disabled")
_HITS = Markup('<ul aria-label="{label}">{items}</ul>')
_HIT = Markup(
    '<li><button type="button" data-model="{model}"><strong>{model}</strong> <span>{facts}</span>{notes}</button></li>'
)
_NOTE = Markup(' <span class="lv-hit-note"><b>{label}:</b> {text}</span>')


@dataclass(frozen=True)
class SearchView:
    """`take` is pressed by the page itself when one of the models found was taken."""

    field: gr.HTML
    take: gr.Button


def view(html: Callable[[str, str], gr.HTML]) -> SearchView:
    """The field, not usable until it is known that the hub answers."""
    return SearchView(html(_field("", False), "lv-search"), gr.Button(visible="hidden", elem_id="lv-take"))


def offered() -> str:
    """The field once it is known whether the hub answers, with what is said where it does not."""
    try:
        api.search("")
    except LeversError as error:
        return _field(str(error), False)
    return _field("", True)


def taken(raw: Any) -> tuple[Any, Any]:
    """What was taken as the name of the model; what was said of the default model goes."""
    try:
        return form.model_name(raw), ""
    except ChoiceError:
        return gr.skip(), gr.skip()


def found(text: str) -> dict[str, str]:
    """The models found for a text as HTML, and what is said of them as plain text."""
    try:
        hits = api.search(text[:MOST_SEARCH_TEXT])
    except LeversError as error:
        return {"hits": "", "said": str(error)}
    if not hits:
        return {"hits": "", "said": words_search.NOTHING.format(text=text[:MOST_SEARCH_TEXT])}
    models = figures.plural(len(hits), "model", "models")
    items = Markup("").join(_hit(hit) for hit in hits)
    return {
        "hits": _HITS.format(label=words_search.FOUND_LABEL, items=items),
        "said": words_search.FOUND.format(models=models),
    }


def connect(demo: gr.Blocks, search: SearchView, name: gr.Dropdown, note: gr.HTML, **quiet: Any) -> None:
    """`name` is the field of the model, `note` what is said of the default one."""
    demo.load(offered, None, search.field, **quiet)
    search.take.click(taken, name, [name, note], js=_TAKEN, **quiet)


def _field(said: str, usable: bool) -> str:
    return _FIELD.format(
        label=words_search.LABEL,
        info=words_search.INFO,
        searching=words_search.SEARCHING,
        failed=words_search.FAILED,
        taken=words_search.TAKEN,
        most=MOST_SEARCH_TEXT,
        disabled="" if usable else _DISABLED,
        said=said,
    )


def _hit(hit: Hit) -> Markup:
    notes = [_NOTE.format(label=words_search.GATED, text=words_search.GATED_REMEDY)] if hit.gated else []
    if hit.refused is not None:
        notes.append(_NOTE.format(label=words_search.REFUSED, text=hit.refused.reason))
    return _HIT.format(model=hit.id, facts=", ".join(_facts(hit)), notes=Markup("").join(notes))


def _facts(hit: Hit) -> list[str]:
    """Parameters, size, license, fit, as far as they are known."""
    size = words_search.SIZE_UNKNOWN
    if hit.parameters is not None and hit.disk_bytes is not None:
        count = words_search.PARAMETERS.format(count=figures.count(hit.parameters))
        size = f"{count}, {words_search.ON_DISK.format(size=figures.size(hit.disk_bytes))}"
    licence = words_search.LICENSE.format(name=hit.licence) if hit.licence else words_search.NO_LICENSE
    return [part for part in (size, licence, words_search.FITS[hit.fit]) if part]


def _answer(request: Request) -> JSONResponse:
    return JSONResponse(found(request.query_params.get("text", "")), headers={"Cache-Control": "no-store"})


ROUTE = Route(PATH, _answer)
