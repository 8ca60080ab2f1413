"""A run on the page: attach to it by its id, follow it, stop it, show what came out.

Covers what the page shows of a run. The run itself belongs to the manager: nothing here keeps it, and a page that is
reloaded attaches again by the id in its address.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from optimizers import api, charts
from optimizers.errors import LeversError
from optimizers.results import LiveRun, Run
from optimizers.schema import to_json
from optimizers.ui import details_view, drawn, form, lanes, notes, results_view, texts, words

# A poll costs the machine that is being measured some tens of milliseconds. Twice a second reads well while the
# baseline first answers, which is not timed. Once turns may be timed the page looks on by glimpse.js instead, and asks
# for more when there is more; the timer is for a page in which that does not run.
STREAMING_S = 0.5
TIMED_S = 10.0

Updates = tuple[Any, ...]


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
        live = api.watch(run_id)
    except LeversError as error:
        return refused(notes.message(error))
    over = live.status != "running"
    return (
        run_id,
        gr.Column(visible=False),
        gr.Column(visible=True),
        lanes.live_head(live),
        "" if over else drawn.LANES.of(live),  # a run that is over opens on its results, which hold the answers too
        _race(live),
        drawn.TABLE.of(live),
        _stop_button(over),
        gr.Timer(value=_interval_s(live), active=not over),
        _seen(live),
        run_id if over else "",
        "",
    )


def refused(problem: str) -> Updates:
    """The form, with what kept a run from being shown."""
    return (*_closed(), problem)


def started(run_id: str, problem: str) -> Updates:
    """After Compare: the run, or the form with what keeps it from starting."""
    return open_run(run_id) if run_id else refused(problem)


def close() -> Updates:
    """Back to the form; a run that goes on is not touched."""
    running = api.running()
    return (*_closed(), notes.running_elsewhere(running) if running else "")


def poll(raw: Any, seen: Any) -> Updates:
    """What is new of a run: (head, lanes, race, table, stop button, timer, seen, finished)."""
    try:
        run_id = form.run_id(raw)
        live = api.watch(run_id)
    except LeversError as error:
        return notes.message(error), *[gr.skip()] * 4, gr.Timer(active=False), "", ""
    version, _, told = seen.partition(":") if isinstance(seen, str) else ("", "", "")
    raced, _, turns = told.partition(":")
    if version == str(live.version):
        return tuple([gr.skip()] * 8)
    over, now = live.status != "running", _seen(live)
    same_turns = turns == now.split(":", 2)[2] and not over
    return (
        lanes.live_head(live),
        drawn.LANES.of(live),
        gr.skip() if raced == _can_race(live) and not over else _race(live),  # a race that goes on is left alone
        gr.skip() if same_turns else drawn.TABLE.of(live),
        _stop_button(True) if over else gr.skip(),
        gr.skip() if same_turns else gr.Timer(value=_interval_s(live), active=not over),
        now,
        run_id if over else "",
    )


def stop(raw: Any) -> tuple[Any, Any]:
    """Ask the manager to stop the run, and look for its end at once: (stop button, timer)."""
    try:
        api.stop(form.run_id(raw))
    except LeversError:
        return gr.Button(visible=False), gr.skip()
    return gr.Button(value=words.STOPPING, interactive=False), gr.Timer(value=STREAMING_S)


def results(raw: Any, dark: Any) -> Updates:
    """What came out: (section, caveats, prompt, answers, details, then column, figure and rows of each chart)."""
    run = _finished(raw)
    if run is None or not any(variant.latency for variant in run.variants):
        caveats = results_view.caveats(run) if run else ""
        return gr.Column(visible=False), caveats, gr.skip(), "", "", *[gr.skip(), None, ""] * len(words.CHARTS)
    figures: list[Any] = []
    for name in words.CHARTS:
        figure, rows = getattr(charts, name), getattr(charts, f"{name}_rows")
        asked = name != "as_hosted" or run.workload.as_hosted
        figures += [gr.Column(visible=asked), figure(run, dark is True), results_view.rows(rows(run))]
    return (
        gr.Column(visible=True),
        results_view.caveats(run),
        gr.Dropdown(choices=texts.prompt_choices(run), value=0),
        texts.side_by_side(run, 0),
        details_view.details(run),
        *figures,
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


def _seen(live: LiveRun) -> str:
    """A name for this moment of the run: its version, whether there is a race, then what the table and the pace of
    polling hang on."""
    return f"{live.version}:{_can_race(live)}:{sum(lane.turns_done for lane in live.lanes)}:{_interval_s(live)}"


def _can_race(live: LiveRun) -> str:
    return "race" if _race(live) else ""


def _race(live: LiveRun) -> str:
    """The race of a run that goes on; once it is over the results hold it."""
    return drawn.RACE.of(live) if live.status == "running" else ""


def _interval_s(live: LiveRun) -> float:
    return TIMED_S if lanes.may_be_timed(live) else STREAMING_S


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
        "",
        gr.Button(value=words.STOP, interactive=True),
        gr.Timer(active=False),
        "",
        "",
    )
