"""Judge by reading: two answers without their names, four buttons, and what the votes say.

Covers the components and what they do. Which pair is shown is known to the server alone: the page carries a number that
means nothing without the order dealt to this reader (`analysis.votes.deck`), whose random id lives as long as the
browser's tab. Nothing here asks by itself: each press is one request, also while a run is measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import gradio as gr

from optimizers import api
from optimizers.analysis.votes import Side, deck, pairs, preference
from optimizers.errors import ChoiceError, LeversError
from optimizers.results import LiveRun
from optimizers.ui import drawn, form, judging_view, notes, words_judging
from optimizers.votes import VOTER, Vote

Updates = tuple[Any, ...]
Pressed = Side | Literal["skip"]

# A browser that keeps nothing for a page in a frame still has the page itself.
_VOTER = """(() => { let id = window.levers_voter; try { id = id || sessionStorage.getItem('levers-voter'); } catch {}
  if (!/^[0-9a-f]{16}$/.test(id || '')) { id = Array.from(crypto.getRandomValues(new Uint8Array(8)),
    (byte) => byte.toString(16).padStart(2, '0')).join(''); }
  window.levers_voter = id; try { sessionStorage.setItem('levers-voter', id); } catch {} return id; })()"""
_WITH_VOTER = f"(run) => [run, {_VOTER}]"
_WITH_PLACE = f"(run, place) => [run, place, {_VOTER}]"
_FOCUS = "() => {{ setTimeout(() => document.querySelector('#{} [data-next]')?.focus(), 50); }}"


@dataclass(frozen=True)
class JudgingView:
    """`place` and `voter` are hidden fields; the last is filled by the browser with each request."""

    pair: gr.HTML
    place: gr.Textbox
    row: gr.Row
    sides: dict[Pressed, gr.Button]
    start: gr.Button
    show: gr.Button
    tally: gr.HTML
    voter: gr.Textbox


def view(html: Callable[[str, str], gr.HTML]) -> JudgingView:
    """The section."""
    with gr.Column(elem_id="lv-judge"):
        html(judging_view.heading(), "lv-judge-title")
        pair = html("", "lv-judge-pair")
        with gr.Row(visible=False, elem_id="lv-judge-sides") as row:
            sides: dict[Pressed, gr.Button] = {
                side: gr.Button(title, size="md", elem_id=f"lv-judge-{side}")
                for side, title in words_judging.SIDES.items()
            }
        with gr.Row(elem_id="lv-judge-more"):
            start = gr.Button(words_judging.START, size="md", visible=False, elem_id="lv-judge-start")
            show = gr.Button(words_judging.SHOW_TALLY, size="md", elem_id="lv-judge-show")
        tally = html("", "lv-judge-tally")
        place = gr.Textbox(visible="hidden", label="pair", elem_id="lv-judge-place")
        voter = gr.Textbox(visible="hidden", label="reader", elem_id="lv-judge-voter")
    return JudgingView(pair, place, row, sides, start, show, tally, voter)


def connect(judging: JudgingView, run_id: gr.Textbox, table: gr.HTML, **quiet: Any) -> None:
    """`table` holds the results, which the votes join when their tally is shown."""
    shown = [judging.pair, judging.place, judging.row, judging.start, judging.tally, table]
    to_pair, to_tally = _FOCUS.format("lv-judge-pair"), _FOCUS.format("lv-judge-tally")
    run_id.change(opened, run_id, shown, **quiet)
    judging.start.click(begin, [run_id, judging.voter], shown, js=_WITH_VOTER, **quiet).then(None, js=to_pair)
    for side, button in judging.sides.items():
        judged = button.click(
            partial(judge, side), [run_id, judging.place, judging.voter], shown, js=_WITH_PLACE, **quiet
        )
        judged.then(None, js=to_pair)
    judging.show.click(tally, run_id, [judging.tally, table], **quiet).then(None, js=to_tally)


def opened(raw: Any) -> Updates:
    """The section as it stands when a run is opened: at rest, or with what keeps votes from being cast."""
    try:
        api.votable(form.run_id(raw))
    except LeversError as error:
        return _at_rest(notes.say(error.reason, error.remedy) if raw else "", can_start=False)
    return _at_rest("")


def begin(raw_run: Any, raw_voter: Any) -> Updates:
    """The first pair that this reader has not judged yet."""
    try:
        run_id, voter = form.run_id(raw_run), _voter(raw_voter)
        api.votable(run_id)
        return _next(api.watch(run_id), voter, -1)
    except LeversError as error:
        return _at_rest(notes.message(error))


def judge(side: Pressed, raw_run: Any, raw_place: Any, raw_voter: Any) -> Updates:
    """A button was pressed under a pair: its vote is kept, and the next pair shown."""
    try:
        run_id, voter, place = form.run_id(raw_run), _voter(raw_voter), _place(raw_place)
        api.votable(run_id)
        live = api.watch(run_id)
        dealt = deck(live.run, voter) if live.run else ()
        if place >= len(dealt):
            raise ChoiceError(words_judging.NO_PAIR, words_judging.NO_PAIR_REMEDY)
        if side != "skip":
            pair = dealt[place]
            api.vote(run_id, Vote(pair.variant, pair.prompt, preference(pair, side), voter))
            live = api.watch(run_id)
        return _next(live, voter, place)
    except LeversError as error:
        return _at_rest(notes.message(error))


def tally(raw: Any) -> Updates:
    """What the votes say, and the results with them: (tally, table)."""
    try:
        live = api.watch(form.run_id(raw))
    except LeversError as error:
        return notes.message(error), gr.skip()
    return judging_view.tally(live.run) if live.run else notes.say(words_judging.NO_VOTES), drawn.TABLE.of(live)


def _next(live: LiveRun, voter: str, after: int) -> Updates:
    """The pair after this place in the reader's order that the reader has not judged, or that there is none."""
    run = live.run
    found = pairs(run) if run else None
    if run is None or found is None or not (found.different or found.alike):
        return _at_rest(judging_view.said(words_judging.NO_ANSWERS))
    order = [(at, pair) for at, pair in enumerate(deck(run, voter)) if (pair.variant, pair.prompt) in found.different]
    judged = {(vote.variant, vote.prompt) for vote in run.votes if vote.voter == voter}
    left = [(at, pair) for at, pair in order if (pair.variant, pair.prompt) not in judged]
    coming = next(((at, pair) for at, pair in left if at > after), None)
    if coming is None:
        return _none_left(live, len(left), judging_view.same(found.alike), asked=bool(order))
    at, pair = coming
    one, other = found.different[pair.variant, pair.prompt]
    texts = (one, other) if pair.baseline_left else (other, one)
    asked = run.workload.prompts[pair.prompt]
    shown = judging_view.pair(order.index(coming) + 1, len(order), found.alike, asked, *texts)
    return shown, str(at), gr.Row(visible=True), gr.Button(visible=False), "", gr.skip()


def _none_left(live: LiveRun, open_: int, alike: str, asked: bool) -> Updates:
    """At the end of the reader's order; so many pairs have no vote of this reader."""
    if not asked:
        return _at_rest(judging_view.said(words_judging.NOTHING_DIFFERENT, alike), can_start=live.status == "running")
    if open_:
        return _at_rest(judging_view.said(judging_view.amount(open_, words_judging.OPEN), alike))
    if live.status == "running":
        return _at_rest(judging_view.said(words_judging.SO_FAR, alike))
    ended = _at_rest(judging_view.said(words_judging.ALL_JUDGED, alike), can_start=False)
    return *ended[:-2], *tally(live.id)


def _at_rest(said: str, can_start: bool = True) -> Updates:
    """No pair is open."""
    return said, "", gr.Row(visible=False), gr.Button(visible=can_start), "", gr.skip()


def _voter(raw: Any) -> str:
    if isinstance(raw, str) and re.fullmatch(VOTER, raw):
        return raw
    raise ChoiceError(words_judging.NO_READER, words_judging.NO_READER_REMEDY)


def _place(raw: Any) -> int:
    if isinstance(raw, str) and raw.isascii() and raw.isdecimal() and len(raw) < 10:
        return int(raw)
    raise ChoiceError(words_judging.NO_PAIR, words_judging.NO_PAIR_REMEDY)
