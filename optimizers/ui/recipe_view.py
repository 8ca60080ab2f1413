"""The recipes of a finished run on the page: pick a variant, read its script, copy it.

Covers the components, what they do and how they are connected. The script is made by `takeaway/` and shown as text;
copying is the browser's (assets/recipe.js).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from optimizers import api
from optimizers.errors import LeversError
from optimizers.results import Run
from optimizers.ui import form, notes, words_recipe

Updates = tuple[Any, ...]
SCRIPT = Path(__file__).parents[2] / "assets" / "recipe.js"

_CODE = Markup(
    '<section class="lv-recipe"><div>'
    '<button type="button" class="lv-copy" data-copied="{copied}" data-marked="{marked}">'
    '{copy}</button> <span role="status"></span></div><pre tabindex="0" role="region" aria-label="{label}">'
    "<code>{code}</code></pre></section>"
)


@dataclass(frozen=True)
class RecipeView:
    column: gr.Column
    variant: gr.Dropdown
    code: gr.HTML


def view(html: Callable[[str, str], gr.HTML]) -> RecipeView:
    """The section, unseen until there is a variant to show."""
    with (
        gr.Column(visible=False, elem_id="lv-recipe-section") as column,
        gr.Accordion(words_recipe.RECIPE, open=False, elem_id="lv-recipes"),
    ):
        variant = gr.Dropdown([], label=words_recipe.PICK, info=words_recipe.PICK_INFO, elem_id="lv-recipe-variant")
        code = html("", "lv-recipe-code")
    return RecipeView(column, variant, code)


def offer(raw: Any) -> Updates:
    """The variants of a finished run that have a recipe, and the first one's: (column, variant, code)."""
    try:
        run = api.load(form.run_id(raw))
    except LeversError:
        return gr.Column(visible=False), gr.skip(), ""
    measured = [variant for variant in run.variants if variant.status == "measured"]
    if not measured or run.status == "running":
        return gr.Column(visible=False), gr.skip(), ""
    key = _best(run, [variant.key for variant in measured])
    choices = [(f"{variant.title} ({variant.key})", variant.key) for variant in measured]
    return gr.Column(visible=True), gr.Dropdown(choices=choices, value=key), code(raw, key)


def code(raw: Any, key: Any) -> str:
    """The script of a variant, or the sentence that says why there is none."""
    try:
        script = api.recipe(form.run_id(raw), key if isinstance(key, str) else "")
    except LeversError as error:
        return notes.message(error)
    return _CODE.format(
        copied=words_recipe.COPIED,
        marked=words_recipe.MARKED,
        copy=words_recipe.COPY,
        label=words_recipe.CODE.format(key=key),
        code=script,
    )


def connect(recipes: RecipeView, run_id: gr.Textbox, finished: gr.Textbox, **quiet: Any) -> None:
    """`finished` holds the run's id once it is over."""
    finished.change(offer, finished, [recipes.column, recipes.variant, recipes.code], **quiet)
    recipes.variant.input(code, [run_id, recipes.variant], recipes.code, **quiet)


def _best(run: Run, keys: list[str]) -> str:
    """What is recommended, where it has a recipe."""
    return run.recommendation.key if run.recommendation and run.recommendation.key in keys else keys[0]
