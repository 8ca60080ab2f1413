"""What is new of a run while its turns are timed, in a small answer to a small request: one through Gradio costs the
machine that is being measured many times as much.

Covers the route and its answer. The page's side is assets/glimpse.js, which puts the new words in place by itself; what
is not drawn here (the table, the results) comes by `watching.poll`, for which the page asks when `whole` has changed.
"""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from optimizers import api
from optimizers.errors import LeversError
from optimizers.results import LiveRun
from optimizers.ui import drawn, form, lanes

PATH = "/levers/glimpse/{run_id}"
SCRIPT = Path(__file__).parents[2] / "assets" / "glimpse.js"


def glimpse(run_id: str, seen: str) -> dict[str, str]:
    """The run's headline and lanes as HTML, left out where `seen` names this moment already. `whole` changes when
    there is more to see than these. Raises RunNotFound."""
    live = api.watch(form.run_id(run_id))
    moment = {"seen": str(live.version), "whole": _whole(live)}
    if seen == moment["seen"]:
        return moment
    return {**moment, "head": lanes.live_head(live), "lanes": drawn.LANES.of(live)}


def _whole(live: LiveRun) -> str:
    """A name for what the whole page hangs on: the round, which brings a new table, and who is ready, out or done."""
    return " ".join((live.status, live.stage, str(live.run is not None), *(lane.status for lane in live.lanes)))


def _answer(request: Request) -> JSONResponse:
    try:
        said = glimpse(request.path_params["run_id"], request.query_params.get("seen", ""))
    except LeversError as error:
        return JSONResponse({"reason": str(error)}, 404)
    return JSONResponse(said, headers={"Cache-Control": "no-store"})


ROUTE = Route(PATH, _answer)
