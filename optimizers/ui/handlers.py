"""What happens when a person does something: small functions from raw field values to updates of components.

Covers the form. The run that follows is in `watching.py`; which event calls what is in `wiring.py`. Every function
answers direct HTTP calls as well, so values are checked by `form.py` before anything is done with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from optimizers import api
from optimizers.errors import ChoiceError, LeversError, TextError, ThreadsError
from optimizers.results import ModelEntry, TechniqueRow
from optimizers.schema import Choice, Plan, PresetId
from optimizers.settings import settings
from optimizers.ui import figures, form, notes, preparing, words

QUICK_S = 0.5
WAIT_S = 5.0

Updates = tuple[Any, ...]


def model_choices() -> list[tuple[str, str]]:
    """The models that can be picked without typing, as (label, id)."""
    return [(_model_label(entry), entry.id) for entry in api.models()]


def offer_models() -> Updates:
    """The list of models afresh, the default one picked, and the sentence that says why."""
    model, sentence = api.default_model()
    preparing.begin(model)  # the first use of the default model fetches it without being asked
    return gr.Dropdown(choices=model_choices(), value=model), notes.say(sentence)


def pick(raw: Any) -> Updates:
    """A model was picked or typed: its facts, or a button to fetch it first."""
    try:
        model = form.model_name(raw)
    except ChoiceError as error:
        return notes.message(error), gr.Button(visible=False), gr.Timer(active=False), ""
    if preparing.look(model) is None and _must_be_fetched(model):
        text = words.FETCH_NEEDED.format(model=model)
        return notes.say(text, words.FETCH_REMEDY), gr.Button(visible=True), gr.Timer(active=False), ""
    return _state(preparing.begin(model, QUICK_S))


def offer_others() -> Any:
    """The models that can stand beside the one that is picked. None comes first: an emptied field means the first."""
    return gr.Dropdown(choices=[(words.ANOTHER_NONE, ""), *model_choices()])


def pick_another(raw: Any) -> Updates:
    """Another checkpoint was picked, typed or taken out: its facts, or a button to fetch it first."""
    try:
        if not form.another_name(raw):
            return "", gr.Button(visible=False), gr.Timer(active=False), ""
    except ChoiceError as error:
        return notes.message(error), gr.Button(visible=False), gr.Timer(active=False), ""
    return _settled(raw, pick(raw))


def fetch_another(raw: Any) -> Updates:
    """Fetch the checkpoint in the second field."""
    return _settled(raw, fetch(raw))


def look_another(raw: Any) -> Updates:
    """How far the checkpoint in the second field is."""
    return _settled(raw, look(raw))


def _settled(raw: Any, updates: Updates) -> Updates:
    """The last update is the name once it is known whether it can be used: one that cannot is planned, too, as left
    out."""
    name = raw.strip() if isinstance(raw, str) else ""
    state = preparing.look(name)
    return *updates[:-1], name if state is not None and state.over else ""


def fetch(raw: Any) -> Updates:
    """Fetch the model in the field."""
    try:
        return _state(preparing.begin(form.model_name(raw), QUICK_S))
    except ChoiceError as error:
        return notes.message(error), gr.Button(visible=False), gr.Timer(active=False), ""


def look(raw: Any) -> Updates:
    """How far the model in the field is."""
    state = preparing.look(raw.strip()) if isinstance(raw, str) else None
    if state is None:
        return gr.skip(), gr.skip(), gr.Timer(active=False), ""
    return _state(state)


def techniques_for(model: str, rows: tuple[TechniqueRow, ...]) -> list[Any]:
    """Check boxes and notes as they stand for `model`, a check box and a note for each of `rows`. Ticks stay as they
    are, also those of a person who was faster, but for what cannot be used with it."""
    try:
        fresh = {row.id: row for row in api.techniques(model or None).techniques}
    except LeversError:
        fresh = {}
    updates: list[Any] = []
    for row in rows:
        now = fresh.get(row.id, row)
        box = gr.Checkbox(interactive=True) if now.available else gr.Checkbox(interactive=False, value=False)
        updates += [box, notes.technique(now)]
    return updates


def usual_ticks(rows: tuple[TechniqueRow, ...], ways: Any, *ticked: bool) -> list[Any]:
    """Check boxes after the way was changed: the usual ones of the other way give place to the usual ones of this
    way, and what a person ticked stays as it is."""
    usual = {"alone": set(api.usual("alone")), "ladder": set(api.usual("ladder"))}
    chosen = {row.id for row, tick in zip(rows, ticked, strict=True) if tick is True}
    here = {row.id for row in rows if row.available}
    if (
        not isinstance(ways, str)
        or ways not in usual
        or not any(chosen == named & here for way, named in usual.items() if way != ways)
    ):
        return [gr.skip() for _ in rows]
    return [gr.Checkbox(value=row.id in usual[ways] & here) for row in rows]


def preset(rows: tuple[TechniqueRow, ...], name: PresetId, model: Any) -> list[Any]:
    """The form after a choice was made with one press: (way, a check box for each of `rows`, stacks)."""
    try:
        chosen = api.preset(name, form.model_name(model) if model else None)
    except LeversError:
        chosen = api.preset(name)
    return [chosen.ways, *(gr.Checkbox(value=row.id in chosen.ticked) for row in rows), "\n".join(chosen.stacks)]


def estimate(ids: tuple[str, ...], *raw: Any) -> Updates:
    """What Compare would do, or what keeps it from doing so; what must be known first; the variants; what is wrong in
    the fields for combinations, for a text and for threads; whether Compare can be pressed."""
    off, nothing = gr.Button(interactive=False), notes.not_planned(words.PLANNED_NOTHING)
    try:
        plan = _plan(ids, raw)
    except _WrittenWrong as error:
        refusal = ChoiceError(words.STACKS_WRONG, words.STACKS_WRONG_REMEDY)
        wrong = notes.not_planned(words.PLANNED_WRONG)
        return notes.message(refusal, "refusal"), "", wrong, notes.message(error), "", "", off
    except TextError as error:
        refusal = ChoiceError(words.TEXT_WRONG, words.TEXT_WRONG_REMEDY)
        return notes.message(refusal, "refusal"), "", nothing, "", notes.message(error), "", off
    except ThreadsError as error:
        refusal = ChoiceError(words.THREADS_WRONG, words.THREADS_WRONG_REMEDY)
        return notes.message(refusal, "refusal"), "", nothing, "", "", notes.message(error), off
    except LeversError as error:
        return notes.message(error, "refusal"), "", nothing, "", "", "", off
    except _Waiting:
        return notes.say(words.ESTIMATE_WAITS), "", notes.not_planned(words.PLANNED_WAITS), "", "", "", off
    api.get_ready(plan)
    limit = min(settings().memory_bytes or plan.machine.memory_available_bytes, plan.machine.memory_available_bytes)
    ready = gr.Button(interactive=True)
    return notes.estimate(plan, limit), notes.before(plan), notes.planned(plan), "", "", "", ready


def start(ids: tuple[str, ...], *raw: Any) -> tuple[str, str]:
    """Start the comparison: (run id, "") or ("", what keeps it from starting)."""
    try:
        return api.start(_plan(ids, raw)), ""
    except LeversError as error:
        return "", notes.message(error)
    except _Waiting:
        return "", notes.say(words.ESTIMATE_WAITS)


class _Waiting(Exception):
    """The model is not read yet."""


class _WrittenWrong(ChoiceError):
    """A hand-written combination cannot be read."""


def _plan(ids: tuple[str, ...], raw: tuple[Any, ...]) -> Plan:
    model, ticked, tail = raw[0], raw[1 : 1 + len(ids)], raw[1 + len(ids) :]
    entered = form.read(model, [name for name, tick in zip(ids, ticked, strict=True) if tick is True], *tail)
    for stack in entered.written:
        _check_written(stack)
    state = preparing.look(entered.model)
    if state is None or not state.over:
        raise _Waiting
    if state.error:
        raise state.error
    unusable = _unusable(api.named_checkpoints(entered.stacks))
    plan = api.plan(_choice(entered), folders=settings().allow_folders, unusable=unusable)
    if len(plan.variants) < 2:
        raise _alone(plan)
    return plan


def _unusable(names: tuple[str, ...]) -> dict[str, LeversError]:
    """Those of these checkpoints that cannot be used, and why. Nothing is fetched here: what is not on this machine is
    refused, what is still being read is waited for."""
    found: dict[str, LeversError] = {}
    for name in names:
        state = preparing.look(name)
        if state is None and _must_be_fetched(name):
            raise ChoiceError(words.FETCH_NEEDED.format(model=name), words.ANOTHER_FETCH)
        state = state or preparing.begin(name, WAIT_S)
        if not state.over:
            raise _Waiting
        if state.error:
            found[name] = state.error
    return found


def _check_written(stack: str) -> None:
    try:
        api.named_in(stack)
    except ChoiceError as error:
        raise _WrittenWrong(error.reason, error.remedy) from None


def _alone(plan: Plan) -> ChoiceError:
    """Why nothing but the baseline is left."""
    if not plan.skipped:
        return ChoiceError(words.ONLY_BASELINE, words.ONLY_BASELINE_REMEDY.format(baseline=plan.baseline))
    first = plan.skipped[0]
    return ChoiceError(
        f"{words.SKIPPED_BEFORE.format(title=first.title)} {first.obstacle.reason}", first.obstacle.remedy
    )


def _choice(entered: form.Form) -> Choice:
    return api.choose(
        entered.model,
        entered.stacks,
        prompts=entered.prompts,
        max_new_tokens=entered.max_new_tokens,
        rounds=entered.rounds,
        seconds=entered.seconds,
        baseline=entered.baseline,
        ways=entered.ways,
        text=api.own_text(entered.own_text) if entered.own_text.strip() else None,
        kl_terms=entered.kl_terms,
        threads=entered.threads,
        as_hosted=entered.as_hosted,
    )


def _state(state: preparing.Preparation) -> Updates:
    ready = state.model if state.checkpoint else ""
    return notes.model(state), gr.Button(visible=False), gr.Timer(active=not state.over), ready


def _must_be_fetched(model: str) -> bool:
    if not form.is_hub_id(model) or any(entry.id == model for entry in api.models()):
        return False
    return not (settings().allow_folders and Path(model).is_dir())


def _model_label(entry: ModelEntry) -> str:
    facts = [figures.size(entry.disk_bytes)] if entry.disk_bytes else []
    facts.append(words.IN_CACHE if entry.cached else words.TO_FETCH)
    return f"{entry.title} ({', '.join(facts)})"
