"""Which event calls what. Covers the connections of the page and how it is served.

Polls take no place in the queue, so that tabs which watch never block each other nor a button.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from optimizers import api
from optimizers.errors import UsageError
from optimizers.settings import MAX_RUN_BYTES, Settings
from optimizers.ui import (
    between,
    glimpse,
    handlers,
    headline,
    history,
    hub_search,
    judging,
    layout,
    recipe_view,
    results_view,
    texts,
    theme,
    watching,
    words,
)
from optimizers.ui.early import Early

# The address follows the run, so that a reload finds it again; history is replaced, not grown.
_PUT_RUN = """(id) => { const url = new URL(window.location.href);
  if (id) { url.searchParams.set('run', id); } else { url.searchParams.delete('run'); }
  window.history.replaceState(null, '', url); window.scrollTo(0, 0);
  document.documentElement.classList.remove('lv-attaching'); }"""
_SAVE = """(text, id) => { if (!text) return; const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  link.download = 'run-' + id + '.json'; link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000); }"""
_DARK = "(id) => [id, document.body.classList.contains('dark')]"
# The stylesheet keeps the page unseen until its parts are in place, so that nothing jumps while Gradio puts them there.
_DRAWN = """() => { const root = document.documentElement.classList;
  if (new URLSearchParams(location.search).has('run')) { root.add('lv-attaching'); }
  requestAnimationFrame(() => requestAnimationFrame(() => root.add('lv-drawn'))); }"""
_SHOWN = "() => { document.documentElement.classList.remove('lv-attaching'); }"
# A request that gets no answer puts up the banner, the next that gets one takes it down.
_SCRIPTS = (texts.RACE_SCRIPT, headline.SCRIPT, results_view.SORT_SCRIPT, hub_search.SCRIPT, recipe_view.SCRIPT)
_HEAD = """<script>(() => { const root = document.documentElement.classList, send = window.fetch;
  window.fetch = (...asked) => send(...asked).then(
    (answer) => { root.remove('lv-offline'); return answer; },
    (error) => { if (error.name !== 'AbortError') { root.add('lv-offline'); } throw error; }); })();</script>"""

_logger = logging.getLogger(__name__)

QUEUE_LOOK_S = 0.05
_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
_POLL: dict[str, Any] = {**_QUIET, "queue": False, "trigger_mode": "once"}


def build() -> gr.Blocks:
    """The page, not yet served."""
    with gr.Blocks(title=words.PAGE_TITLE, analytics_enabled=False) as demo:
        page = layout.page(api.techniques().techniques)
        _connect_model(demo, page)
        _connect_another(demo, page.techniques.another)
        _connect_form(page)
        _connect_run(demo, page)
        _connect_results(page)
    return demo


def launch(demo: gr.Blocks, served: Settings, **more: Any) -> Any:
    """Serve the page where the settings say. `more` goes to Blocks.launch (tests pass prevent_thread_lock). Raises
    UsageError when nothing can be served there; what cannot be read of the settings is said in the log."""
    for sentence in served.unread:
        _logger.warning(sentence)
    early = Middleware(Early, script=glimpse.SCRIPT.read_text(encoding="utf-8"))
    demo.queue(default_concurrency_limit=16, max_size=256)
    # Gradio looks into its queue a thousand times a second, which takes a twentieth of a core from what is measured.
    demo._queue.sleep_when_free = QUEUE_LOOK_S  # as Gradio itself has it on Windows
    try:
        return demo.launch(
            server_name=served.host,
            server_port=served.port,
            theme=theme.theme(),
            css_paths=[theme.STYLESHEET],
            head=_HEAD + "".join(f"<script>{script.read_text(encoding='utf-8')}</script>" for script in _SCRIPTS),
            app_kwargs={"routes": [glimpse.ROUTE, hub_search.ROUTE], "middleware": [early]},
            footer_links=[],
            run_history=False,
            ssr_mode=False,
            share=False,
            show_error=False,
            quiet=False,
            enable_monitoring=False,
            mcp_server=False,
            max_file_size=MAX_RUN_BYTES,
            **more,
        )
    except OSError as error:  # what Gradio raises when the port, or every port that it tried, is taken
        asked = f"port {served.port}" if served.port else "any port from 7860 on"
        raise UsageError(
            f"The page cannot be served at {served.host} on {asked}: it is taken, or not for this program to use "
            f"({error.strerror or str(error).split('. ')[0]}).",
            "End what listens there, or name another place by LEVERS_PORT and LEVERS_HOST.",
        ) from error


def _connect_model(demo: gr.Blocks, page: layout.Page) -> None:
    model = page.model
    shown = [model.facts, model.fetch, model.timer, model.ready]
    demo.load(handlers.offer_models, None, [model.name, model.note], **_QUIET)
    hub_search.connect(demo, model.search, model.name, model.note, **_QUIET)
    model.name.input(lambda: "", None, model.note, **_QUIET)
    model.name.change(handlers.pick, model.name, shown, trigger_mode="always_last", **_QUIET)
    model.fetch.click(handlers.fetch, model.name, shown, **_QUIET)
    model.timer.tick(handlers.look, model.name, shown, **_POLL)
    rows = page.techniques.rows
    cells = [cell for pair in zip(page.techniques.boxes, page.techniques.notes, strict=True) for cell in pair]
    model.ready.change(
        lambda ready: handlers.techniques_for(ready, rows),
        model.ready,
        cells,
        **_QUIET,
    )


def _connect_another(demo: gr.Blocks, another: layout.AnotherStep) -> None:
    shown = [another.facts, another.fetch, another.timer, another.ready]
    demo.load(handlers.offer_others, None, another.name, **_QUIET)
    another.name.change(handlers.pick_another, another.name, shown, trigger_mode="always_last", **_QUIET)
    another.fetch.click(handlers.fetch_another, another.name, shown, **_QUIET)
    another.timer.tick(handlers.look_another, another.name, shown, **_POLL)


def _connect_form(page: layout.Page) -> None:
    steps = page.techniques
    ids = tuple(row.id for row in steps.rows)
    steps.ways.input(partial(handlers.usual_ticks, steps.rows), [steps.ways, *steps.boxes], list(steps.boxes), **_QUIET)
    filled = [steps.ways, *steps.boxes, steps.stacks]
    for name, button in steps.presets.items():
        button.click(partial(handlers.preset, steps.rows, name), page.model.ready, filled, **_QUIET)
    changed = [component.change for component in page.form]
    changed += [page.model.ready.change, steps.another.ready.change]
    gr.on(
        changed,
        partial(handlers.estimate, ids),
        page.form,
        [
            page.estimate,
            page.notes,
            steps.planned,
            steps.wrong,
            page.prompts.text_wrong,
            page.prompts.threads_wrong,
            page.compare,
        ],
        trigger_mode="always_last",
        concurrency_limit=1,  # else the answer to an earlier state of the form may come after that to a later one
        **_QUIET,
    )
    page.compare.click(
        lambda *raw: watching.started(*handlers.start(ids, *raw)), page.form, _view_outputs(page), **_QUIET
    )


def _connect_run(demo: gr.Blocks, page: layout.Page) -> None:
    run = page.run
    demo.load(None, js=_DRAWN)
    demo.load(watching.attach, None, _view_outputs(page), **_QUIET).then(None, js=_SHOWN)
    history.connect(demo, page.earlier, page.results.delete, run.id, _view_outputs(page), **_QUIET)
    run.id.change(None, run.id, None, js=_PUT_RUN)
    polled = [run.head, run.lanes, run.race, run.table, run.stop, run.timer, run.seen, run.finished]
    gr.on([run.timer.tick, run.look.click], watching.poll, [run.id, run.seen], polled, **_POLL)
    run.stop.click(watching.stop, run.id, [run.stop, run.timer], **_QUIET)
    run.new.click(watching.close, None, _view_outputs(page), **_QUIET)


def _connect_results(page: layout.Page) -> None:
    run, results = page.run, page.results
    drawn = [part for chart in results.charts for part in (chart.column, chart.plot, chart.rows)]
    shown = [results.section, results.caveats, results.prompt, results.answers, results.details, *drawn]
    run.finished.change(watching.results, [run.finished, results.dark], shown, js=_DARK, **_QUIET)
    between.connect(results.beside, run.id, run.finished, **_QUIET)
    judging.connect(results.judged, run.id, run.table, **_QUIET)
    results.prompt.input(watching.answers, [run.id, results.prompt], results.answers, **_QUIET)
    recipe_view.connect(results.recipes, run.id, run.finished, **_QUIET)
    saved = results.download.click(watching.run_json, run.id, results.payload, **_QUIET)
    saved.then(None, [results.payload, run.id], None, js=_SAVE)


def _view_outputs(page: layout.Page) -> list[Any]:
    """The components that `watching.open_run` updates, in its order."""
    run = page.run
    return [
        run.id,
        page.setup,
        run.column,
        run.head,
        run.lanes,
        run.race,
        run.table,
        run.stop,
        run.timer,
        run.seen,
        run.finished,
        page.notice,
    ]
