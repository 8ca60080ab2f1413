"""A comparison that was recorded, for the first screen: what the page is about before anything was measured here.

Covers reading it from assets/sample.json (a run.json, on the packaged model) and its heading. It is drawn and raced as
the answers of any run are; no chart is drawn, so that the first screen stays light.
"""

from __future__ import annotations

import logging
from pathlib import Path

from markupsafe import Markup
from pydantic import ValidationError

from optimizers.results import Run
from optimizers.schema import from_json
from optimizers.ui import texts, words

RECORDED = Path(__file__).parents[2] / "assets" / "sample.json"
PROMPT = 0

_SAMPLE = Markup(
    '<section class="lv-sample" aria-label="{heading}"><h2>{heading}</h2><p>{about}</p>{answers}</section>'
)
_logger = logging.getLogger(__name__)


def sample() -> str:
    """The recorded comparison as HTML; nothing where its file cannot be read, which the log says."""
    try:
        run: Run = from_json(Run, RECORDED.read_bytes())
    except (OSError, ValidationError) as error:
        _logger.warning("The recorded comparison %s cannot be read: %s", RECORDED.name, error)
        return ""
    return draw(run)


def draw(run: Run) -> str:
    """The answers of `run` to its first prompt, with what they were measured on and when."""
    about = words.SAMPLE_ABOUT.format(
        prompt=run.workload.prompts[PROMPT],
        model=run.model.id,
        cores=run.machine.usable_cores,
        cpu=run.machine.cpu,
        date=run.created_at[:10],
    )
    return _SAMPLE.format(
        heading=words.SAMPLE, about=about, answers=Markup(texts.side_by_side(run, PROMPT, short=True))
    )
