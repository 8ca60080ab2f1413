"""A run on the page: attach to it by its id, follow it, stop it, show what came out.

Covers what the page shows of a run. The run itself belongs to the manager: nothing here keeps it, and a page that is
reloaded attaches again by the id in its address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from optimizers import api, charts
from optimizers.errors import LeversError
from optimizers.results import LiveRun, Run
from optimizers.schema import to_json
from optimizers.ui import form, lanes, notes, results_view, texts, words

STREAMING_S = 0.4
QUIET_S = 1.0

Updates = tuple[Any, ...]


@dataclass(frozen=True)
class View:
    """What the page shows of a run at one moment. `seen` names that moment, so that a poll can tell that nothing is
    new."""

    head: str
    lanes: str
    table: str
    over: bool
    interval_s: float
    seen: str


def attach(request: gr.Request) -> Updates:
    """Open the run that the page's address names, if it names one."""
    asked = request.query_params.get("run")
    if asked is not None:
        return open_run(asked)
    return (*_closed(), notes.running_elsewhere(running)) if (running := api.running()) else (*_closed(), "")


def open_run(raw: Any) -> Updates:
    """Everything the page needs to show a run, or the form with a sentence when there is no such run."""
    try:
        run_id = form.run_id(raw)
        view = _view(api.watch(run_id))
    except LeversError as error:
        return (*_closed(), notes.message(error))
    return (
        run_id,
        gr.Column(visible=False),
        gr.Column(visible=True),
        view.head,
        "" if view.over else view.lanes,  # a run that is over opens on its results, which hold the answers too
        view.table,
        _stop_button(view.over),
        gr.Timer(value=view.interval_s, active=not view.over),
        view.seen,
        run_id if view.over else "",
        "",
    )


def started(run_id: str, problem: str) -> Updates:
    """After Compare: the run, or the form with what keeps it from starting."""
    return open_run(run_id) if run_id else (*_closed(), problem)


def close() -> Updates:
    """Back to the form; a run that goes on is not touched."""
    running = api.running()
    return (*_closed(), notes.running_elsewhere(running) if running else "")


def poll(raw: Any, seen: Any) -> Updates:
    """What is new of a run: (head, lanes, table, stop button, timer, seen, finished)."""
    try:
        run_id = form.run_id(raw)
        live = api.watch(run_id)
    except LeversError as error:
        return notes.message(error), *[gr.skip()] * 3, gr.Timer(active=False), "", ""
    version, _, turns = seen.partition(":") if isinstance(seen, str) else ("", "", "")
    if version == str(live.version):
        return tuple([gr.skip()] * 7)
    view = _view(live)
    same_turns = turns == view.seen.partition(":")[2]
    return (
        view.head,
        view.lanes,
        gr.skip() if same_turns and not view.over else view.table,
        _stop_button(True) if view.over else gr.skip(),
        gr.skip() if same_turns and not view.over else gr.Timer(value=view.interval_s, active=not view.over),
        view.seen,
        run_id if view.over else "",
    )


def stop(raw: Any) -> Any:
    """Ask the manager to stop the run."""
    try:
        api.stop(form.run_id(raw))
    except LeversError:
        return gr.Button(visible=False)
    return gr.Button(value=words.STOPPING, interactive=False)


def results(raw: Any, dark: Any) -> Updates:
    """What came out: (section, caveats, prompt, answers, then a figure and its rows for each of words.CHARTS)."""
    run = _finished(raw)
    if run is None or not any(variant.latency for variant in run.variants):
        caveats = results_view.caveats(run) if run else ""
        return gr.Column(visible=False), caveats, gr.skip(), "", *[None, ""] * len(words.CHARTS)
    drawn: list[Any] = []
    for name in words.CHARTS:
        figure, rows = getattr(charts, name), getattr(charts, f"{name}_rows")
        drawn += [figure(run, dark is True), results_view.rows(rows(run))]
    return (
        gr.Column(visible=True),
        results_view.caveats(run),
        gr.Dropdown(choices=texts.prompt_choices(run), value=0),
        texts.side_by_side(run, 0),
        *drawn,
    )


def answers(raw: Any, prompt: Any) -> str:
    """The answers to one prompt of a finished run."""
    run = _finished(raw)
    if run is None or not isinstance(prompt, int) or not 0 <= prompt < len(run.workload.prompts):
        return ""
    return texts.side_by_side(run, prompt)


def run_json(raw: Any) -> str:
    """The text of run.json, for the browser to save."""
    run = _finished(raw)
    return to_json(run, indent=1) if run else ""


def _finished(raw: Any) -> Run | None:
    try:
        return api.load(form.run_id(raw))
    except LeversError:
        return None


def _view(live: LiveRun) -> View:
    return View(
        head=lanes.live_head(live),
        lanes=lanes.lanes(live),
        table=_table(live),
        over=live.status != "running",
        interval_s=STREAMING_S if any(lane.active for lane in live.lanes) else QUIET_S,
        seen=f"{live.version}:{sum(lane.turns_done for lane in live.lanes)}:{_streaming(live)}",
    )


def _table(live: LiveRun) -> str:
    return results_view.table(live.run, final=live.status != "running") if live.run else ""


def _streaming(live: LiveRun) -> int:
    return int(any(lane.active for lane in live.lanes))


def _stop_button(over: bool) -> Any:
    return gr.Button(value=words.STOP, visible=not over, interactive=True)


def _closed() -> Updates:
    return (
        "",
        gr.Column(visible=True),
        gr.Column(visible=False),
        "",
        "",
        "",
        gr.Button(value=words.STOP, interactive=True),
        gr.Timer(active=False),
        "",
        "",
    )
