"""What was drawn last of a run, for all tabs that look at the same moment of it. Covers the keeping only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optimizers.results import LiveRun
from optimizers.ui import lanes, results_view, texts


class Drawn:
    """Draws each moment of a run once."""

    def __init__(self, draw: Callable[[LiveRun], str]) -> None:
        self._draw = draw
        self._last: tuple[tuple[Any, ...], str] | None = None

    def of(self, live: LiveRun) -> str:
        """`live` as HTML."""
        moment = live.id, live.version, live.status, live.run.votes if live.run else ()
        last = self._last  # read once: another thread may replace it
        if last is None or last[0] != moment:
            last = self._last = moment, self._draw(live)
        return last[1]


def _table(live: LiveRun) -> str:
    return results_view.table(live.run, final=live.status != "running") if live.run else ""


def _race(live: LiveRun) -> str:
    return texts.race_now(live.run) if live.run else ""


LANES = Drawn(lanes.lanes)
RACE = Drawn(_race)
TABLE = Drawn(_table)
