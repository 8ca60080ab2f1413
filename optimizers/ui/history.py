"""Earlier comparisons on the page: their list, a run.json opened from elsewhere, a run deleted.

Covers the components and what they do. Where the operator does not allow changes the list stands alone, and the
handlers refuse as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from optimizers import api
from optimizers.errors import ChoiceError, LeversError
from optimizers.settings import settings
from optimizers.ui import form, notes, watching, words_history

Updates = tuple[Any, ...]
_WHO_CAN = "Run Levers on your own machine, or ask the operator of this page, who can set LEVERS_ALLOW_HISTORY=1."

# Whoever presses by mistake is asked; without a yes no id is sent.
_ASK = f"(id) => [window.confirm({json.dumps(words_history.DELETE_ASKED)}) ? id : '']"


@dataclass(frozen=True)
class HistoryView:
    listed: gr.HTML
    upload: gr.UploadButton


def view(html: Callable[[str, str], gr.HTML]) -> HistoryView:
    """The list of earlier comparisons and, where it is allowed, the way to open one from a file."""
    with gr.Accordion(words_history.HISTORY, open=False, elem_id="lv-earlier"):
        listed = html(notes.history(()), "lv-history")
        upload = gr.UploadButton(
            words_history.OPEN_RUN,
            file_types=[".json"],
            type="binary",
            size="md",
            visible=settings().allow_history,
            elem_id="lv-open-run",
        )
    return HistoryView(listed, upload)


def delete_button() -> gr.Button:
    """Beside the results of a run."""
    return gr.Button(words_history.DELETE, size="md", visible=settings().allow_history, elem_id="lv-delete")


def listed() -> str:
    """Earlier comparisons as links."""
    return notes.history(tuple(api.runs()))


def opened(raw: Any) -> Updates:
    """A run.json that was uploaded: the run as `watching.open_run` shows it, or the form with what is wrong."""
    try:
        _allowed()
        return watching.open_run(api.keep(raw if isinstance(raw, bytes) else b""))
    except LeversError as error:
        return watching.refused(notes.message(error))


def deleted(raw: Any) -> Updates:
    """After the question: the form and the list without the run; without an id all stays as it is."""
    if not raw:
        return (*[gr.skip()] * len(watching.refused("")), gr.skip())
    try:
        _allowed()
        api.delete(form.run_id(raw))
    except LeversError as error:
        return (*watching.refused(notes.message(error)), gr.skip())
    return (*watching.close(), listed())


def connect(
    demo: gr.Blocks, history: HistoryView, delete: gr.Button, run_id: gr.Textbox, shown: list[Any], **quiet: Any
) -> None:
    """`shown` are the components that `watching.open_run` updates, in its order."""
    demo.load(listed, None, history.listed, **quiet)
    history.upload.upload(opened, history.upload, shown, **quiet)
    delete.click(deleted, run_id, [*shown, history.listed], js=_ASK, **quiet)


def _allowed() -> None:
    if not settings().allow_history:
        raise ChoiceError("On this page comparisons cannot be opened from a file or deleted.", _WHO_CAN)
