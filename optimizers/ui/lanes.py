"""A run while it goes on: the headline with its progress, and a lane per variant, as HTML.

Covers drawing only. Everything from a run is escaped by Markup.format; the templates here are constant.
"""

from __future__ import annotations

from markupsafe import Markup

from optimizers.results import Lane, LiveRun
from optimizers.schema import FINAL_STATUSES, RunStatus
from optimizers.ui import figures, words

EMPTY = Markup("")

_HEAD = Markup(
    '<section class="lv-head lv-head-{status}" aria-label="{label}">'
    '<div class="lv-head-line"><p class="lv-state lv-state-{status}"><span aria-hidden="true">{mark}</span> {word}</p>'
    '<p class="lv-stage" role="status">{stage}</p><p class="lv-left">{left}</p></div>'
    '<div class="lv-bar" role="progressbar" aria-label="Progress" aria-valuemin="0" aria-valuemax="100" '
    'aria-valuenow="{percent}"><span style="width:{percent}%"></span></div>{note}</section>'
)
_LANE = Markup(
    '<article class="lv-lane lv-{status}{active}" aria-label="{title}"><header><h3 title="{title}">{title}</h3>'
    '<p class="lv-mark"><span aria-hidden="true">{mark}</span> {word}</p></header><code title="{key}">{tag}{key}</code>'
    '<div class="lv-rate{unrated}"><strong>{rate}</strong> {unit}</div>{body}'
    '<footer><span class="lv-turns" aria-hidden="true">{pips}</span><span>{turns}</span><span>{stage}</span></footer>'
    "</article>"
)
_LANES = Markup(
    '<section class="lv-lanes" aria-label="{label}"{watched}><h2 class="lv-hidden">{label}</h2>{drawn}</section>'
)
_WATCHED = Markup(' data-watch="{}"')
_TAG = Markup('<b class="lv-is-baseline">{}</b> ').format(words.BASELINE_TAG)
_TEXT = Markup('<div class="lv-text" tabindex="0" role="group" aria-label="{label}"><p>{text}</p></div>')
_EMPTY_TEXT = Markup('<div class="lv-text lv-quiet"><p>{text}</p></div>')
_REASON = Markup(
    '<div class="lv-text lv-why" tabindex="0" role="group" aria-label="{title}"><p>{reason}</p>{remedy}</div>'
)
_REMEDY = Markup('<p class="lv-remedy">{}</p>')


def head(status: RunStatus, stage: str, progress: float, time_left_s: float | None, note: str | None = None) -> str:
    """The headline of a run. `progress` is a share; `note` is a sentence under the bar (why it ended)."""
    mark, word = words.RUN_STATUS[status]
    running = status == "running"
    if running:
        left = words.TIME_UNKNOWN if time_left_s is None else words.TIME_LEFT.format(time=figures.seconds(time_left_s))
    else:
        left, stage = "", words.OVER[status]
    share = 100 if status == "done" else max(0, min(100, round(progress * 100)))
    return _HEAD.format(
        label=word,
        status=status,
        mark=mark,
        word=word,
        stage=stage,
        left=left,
        percent=share,
        note=Markup('<p class="lv-note">{}</p>').format(note) if note else EMPTY,
    )


def live_head(live: LiveRun) -> str:
    """The headline of a run as the manager tells it."""
    stage = live.stage[:1].upper() + live.stage[1:]
    return head(live.status, stage, live.progress, live.time_left_s, live.reason)


def lanes(live: LiveRun) -> str:
    """All lanes, in plan order: the baseline first."""
    watched = _WATCHED.format(live.id) if live.status == "running" and may_be_timed(live) else EMPTY
    drawn = EMPTY.join(_lane(lane, first=place == 0) for place, lane in enumerate(live.lanes))
    return _LANES.format(label=words.LANES_HEADING, watched=watched, drawn=drawn)


def may_be_timed(live: LiveRun) -> bool:
    """Whether timed turns may come at any moment: every one of them comes after the baseline is ready, which it is
    once it has answered and scored."""
    return any(lane.turns_done or lane.status in ("ready", "measured") for lane in live.lanes)


def _lane(lane: Lane, *, first: bool) -> Markup:
    mark, word = words.ACTIVE if lane.active and lane.status in ("ready", "loading") else words.STATUS[lane.status]
    planned = max(lane.turns_planned, lane.turns_done)
    return _LANE.format(
        status=lane.status,
        active=" lv-active" if lane.active else "",
        title=lane.title,
        key=lane.key,
        tag=_TAG if first else EMPTY,
        mark=mark,
        word=word,
        rate=figures.number(lane.tokens_per_s),
        unrated=" lv-unrated" if lane.tokens_per_s is None else "",
        unit=words.TOKENS_PER_S,
        body=_body(lane),
        pips=_pips(lane.turns_done, planned),
        turns=words.TURNS.format(done=lane.turns_done, planned=planned) if planned else "",
        stage="" if word.lower() in lane.stage.lower() else lane.stage,
    )


def _body(lane: Lane) -> Markup:
    if lane.reason and lane.status in ("failed", "skipped", "not_applied"):
        remedy = _REMEDY.format(lane.remedy) if lane.remedy else EMPTY
        return _REASON.format(title=lane.title, reason=lane.reason, remedy=remedy)
    if not lane.text:
        return _EMPTY_TEXT.format(text=words.NO_TEXT_CAME if lane.status in FINAL_STATUSES else words.NO_TEXT)
    number = words.PROMPT_NUMBER.format(number=lane.prompt + 1)
    return _TEXT.format(label=f"{lane.title}, {number}", text=lane.text)


def _pips(done: int, planned: int) -> Markup:
    if not 0 < planned <= 24:
        return EMPTY
    return EMPTY.join(Markup('<i class="{}"></i>').format("on" if i < done else "") for i in range(planned))
