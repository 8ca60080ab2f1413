"""Where everything on the page is: three steps and Compare, then the run, then what came out.

Covers components and their order. What they do is in `wiring.py`; how they look, in theme.py and assets/levers.css.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import gradio as gr
from markupsafe import Markup

from optimizers import api
from optimizers.results import TechniqueRow
from optimizers.schema import PresetId
from optimizers.settings import settings
from optimizers.ui import between, form, glossary, history, hub_search, judging, notes, recipe_view, sample, words


@dataclass(frozen=True)
class ModelStep:
    name: gr.Dropdown
    search: hub_search.SearchView
    facts: gr.HTML
    note: gr.HTML
    fetch: gr.Button
    timer: gr.Timer
    ready: gr.Textbox


@dataclass(frozen=True)
class AnotherStep:
    """A second model. `ready` is its name once it is known whether it can be used."""

    name: gr.Dropdown
    facts: gr.HTML
    fetch: gr.Button
    timer: gr.Timer
    ready: gr.Textbox


@dataclass(frozen=True)
class TechniqueStep:
    rows: tuple[TechniqueRow, ...]
    boxes: tuple[gr.Checkbox, ...]
    notes: tuple[gr.HTML, ...]
    presets: dict[PresetId, gr.Button]
    ways: gr.Radio
    another: AnotherStep
    stacks: gr.Textbox
    wrong: gr.HTML
    planned: gr.HTML


@dataclass(frozen=True)
class PromptStep:
    prompts: gr.Textbox
    tokens: gr.Number
    rounds: gr.Number
    seconds: gr.Textbox
    baseline: gr.Dropdown
    text: gr.Textbox
    kl_terms: gr.Checkbox
    text_wrong: gr.HTML
    threads: gr.Textbox
    threads_wrong: gr.HTML
    as_hosted: gr.Checkbox


@dataclass(frozen=True)
class RunView:
    """`id` lies in a hidden field, not in the session, so that it outlives the server. `seen` names what is shown;
    `finished` is the id again once the run is over; `look` is pressed by the page itself when there is more to see."""

    id: gr.Textbox
    column: gr.Column
    head: gr.HTML
    lanes: gr.HTML
    race: gr.HTML
    table: gr.HTML
    stop: gr.Button
    new: gr.Button
    look: gr.Button
    timer: gr.Timer
    seen: gr.State
    finished: gr.Textbox


@dataclass(frozen=True)
class Chart:
    column: gr.Column
    plot: gr.Plot
    rows: gr.HTML


@dataclass(frozen=True)
class ResultsView:
    """`dark` is what the browser says about its theme."""

    section: gr.Column
    charts: tuple[Chart, ...]
    caveats: gr.HTML
    judged: judging.JudgingView
    prompt: gr.Dropdown
    answers: gr.HTML
    details: gr.HTML
    recipes: recipe_view.RecipeView
    beside: between.BetweenView
    download: gr.Button
    delete: gr.Button
    payload: gr.Textbox
    dark: gr.Checkbox


@dataclass(frozen=True)
class Page:
    setup: gr.Column
    notice: gr.HTML
    model: ModelStep
    techniques: TechniqueStep
    prompts: PromptStep
    estimate: gr.HTML
    notes: gr.HTML
    compare: gr.Button
    run: RunView
    results: ResultsView
    earlier: history.HistoryView

    @property
    def form(self) -> list[Any]:
        """The components that `form.read` reads, in its order."""
        steps, asked = self.techniques, self.prompts
        return [
            self.model.name,
            *steps.boxes,
            steps.ways,
            steps.stacks,
            asked.prompts,
            asked.tokens,
            asked.rounds,
            asked.seconds,
            asked.baseline,
            steps.another.name,
            asked.text,
            asked.kl_terms,
            asked.threads,
            asked.as_hosted,
        ]


def page(rows: tuple[TechniqueRow, ...]) -> Page:
    """All components, inside the Blocks that is open. `rows` are the techniques to offer."""
    _html(Markup('<div class="lv-top"><h1>{}</h1><p>{}</p></div>').format(words.NAME, words.LEAD), "lv-title")
    _html(Markup('<p class="lv-message" role="status">{}</p>').format(words.CONNECTION_LOST), "lv-connection")
    notice = _html("", "lv-notice")
    with gr.Column(elem_id="lv-setup") as setup:
        _html(sample.sample(), "lv-sample")
        model, techniques, prompts = _model_step(), _technique_step(rows), _prompt_step(rows)
        before = _html("", "lv-before-notes")
        with gr.Row(elem_id="lv-go"):
            estimate = _html(notes.say(words.ESTIMATE_WAITS), "lv-estimate")
            compare = gr.Button(words.COMPARE, variant="primary", size="lg", elem_id="lv-compare", interactive=False)
        earlier = history.view(_html)
    run = _run_view()
    results = _results_view(run)
    _html(glossary.glossary(), "lv-glossary")
    return Page(setup, notice, model, techniques, prompts, estimate, before, compare, run, results, earlier)


def _html(value: str, name: str, **more: Any) -> gr.HTML:
    # The plain template puts `value` in as it is, once; with no script of the page's, nothing in it is evaluated.
    return gr.HTML(value, elem_id=name, js_on_load=None, apply_default_css=False, **more)


def _step(number: int, title: str, hint: str) -> None:
    _html(
        Markup('<div class="lv-step"><span aria-hidden="true">{}</span><div><h2>{}</h2><p>{}</p></div></div>').format(
            number, title, hint
        ),
        f"lv-step-{number}",
    )


def _model_step() -> ModelStep:
    with gr.Column(elem_classes="lv-card"):
        _step(1, words.STEP_MODEL, words.STEP_MODEL_HINT)
        name = gr.Dropdown(
            [],
            label=words.MODEL_LABEL,
            info=words.MODEL_INFO if settings().allow_folders else words.MODEL_INFO_HOSTED,
            allow_custom_value=True,
            elem_id="lv-model",
        )
        search = hub_search.view(_html)
        facts = _html(notes.no_facts(), "lv-model-facts")
        note = _html("", "lv-model-note")
        ready = gr.Textbox(visible="hidden", label="model that is ready", elem_id="lv-ready")
        fetch = gr.Button(words.FETCH, visible=False, size="md", elem_id="lv-fetch")
    return ModelStep(name, search, facts, note, fetch, gr.Timer(0.5, active=False), ready)


def _technique_step(rows: tuple[TechniqueRow, ...]) -> TechniqueStep:
    boxes: dict[str, gr.Checkbox] = {}
    lines: dict[str, gr.HTML] = {}
    with gr.Column(elem_classes="lv-card"):
        _step(2, words.STEP_TECHNIQUES, words.STEP_TECHNIQUES_HINT)
        presets = _presets()
        ways = gr.Radio(
            list(words.WAYS), value="alone", label=words.WAYS_LABEL, info=words.WAYS_INFO, elem_id="lv-ways"
        )
        for slot, group in groupby(rows, key=lambda row: row.slot):
            with gr.Column(elem_classes="lv-slot"):
                title, hint = words.SLOTS[slot]
                _html(Markup("<h3>{}</h3><p>{}</p>").format(title, hint), f"lv-slot-{slot}")
                with gr.Row(elem_classes="lv-techniques"):
                    for row in group:
                        boxes[row.id], lines[row.id] = _technique(row)
        another = _another_step()
        stacks = gr.Textbox(
            label=words.STACKS_LABEL,
            info=words.STACKS_INFO,
            placeholder=words.STACKS_PLACEHOLDER,
            lines=2,
            max_lines=6,
            elem_id="lv-stacks",
        )
        wrong = _html("", "lv-stacks-note")
        planned = _html(notes.not_planned(words.PLANNED_WAITS), "lv-planned")
    in_order = tuple(boxes[row.id] for row in rows), tuple(lines[row.id] for row in rows)
    return TechniqueStep(rows, *in_order, presets, ways, another, stacks, wrong, planned)


def _presets() -> dict[PresetId, gr.Button]:
    _html(Markup('<p class="lv-presets-label">{}</p>').format(words.PRESETS_LABEL), "lv-presets-label")
    with gr.Row(elem_id="lv-presets"):
        return {name: gr.Button(title, size="md", elem_id=f"lv-preset-{name}") for name, title in words.PRESETS.items()}


def _another_step() -> AnotherStep:
    with gr.Column(elem_classes="lv-slot"):
        title, hint = words.SLOTS["checkpoint"]
        _html(Markup("<h3>{}</h3><p>{}</p>").format(title, hint), "lv-slot-checkpoint")
        name = gr.Dropdown(
            [(words.ANOTHER_NONE, "")],
            value="",
            label=words.ANOTHER_LABEL,
            info=words.ANOTHER_INFO if settings().allow_folders else words.ANOTHER_INFO_HOSTED,
            allow_custom_value=True,
            elem_id="lv-another",
        )
        facts = _html("", "lv-another-facts")
        ready = gr.Textbox(visible="hidden", label="other model that is ready", elem_id="lv-another-ready")
        fetch = gr.Button(words.FETCH, visible=False, size="md", elem_id="lv-another-fetch")
    return AnotherStep(name, facts, fetch, gr.Timer(0.5, active=False), ready)


def _technique(row: TechniqueRow) -> tuple[gr.Checkbox, gr.HTML]:
    with gr.Column(elem_classes="lv-technique", min_width=240):
        box = gr.Checkbox(
            row.available and row.id in api.usual(),
            label=row.title,
            info=row.summary,
            interactive=row.available,
            container=False,
            elem_id=f"lv-technique-{row.id}",
        )
        return box, _html(notes.technique(row), f"lv-technique-note-{row.id}")


def _prompt_step(rows: tuple[TechniqueRow, ...]) -> PromptStep:
    with gr.Column(elem_classes="lv-card"):
        _step(3, words.STEP_PROMPTS, words.STEP_PROMPTS_HINT)
        with gr.Row(elem_classes="lv-asked"):
            prompts = gr.Textbox(
                form.join_prompts(api.choose("default prompts").workload.prompts),
                label=words.PROMPTS_LABEL,
                info=words.PROMPTS_INFO,
                lines=9,
                max_lines=16,
                scale=3,
                min_width=280,
                elem_id="lv-prompts",
            )
            with gr.Column(scale=2, min_width=280, elem_classes="lv-settings"):
                tokens = gr.Number(
                    api.DEFAULT_TOKENS, label=words.TOKENS_LABEL, info=words.TOKENS_INFO, elem_id="lv-tokens"
                )
                rounds = gr.Number(
                    api.DEFAULT_ROUNDS, label=words.ROUNDS_LABEL, info=words.ROUNDS_INFO, elem_id="lv-rounds"
                )
                seconds = gr.Textbox(
                    label=words.SECONDS_LABEL,
                    info=words.SECONDS_INFO,
                    placeholder=words.SECONDS_PLACEHOLDER,
                    max_lines=1,
                    elem_id="lv-seconds",
                )
                baseline = gr.Dropdown(
                    [(words.BASELINE_AUTO, ""), *((row.title, row.id) for row in rows if row.slot == "precision")],
                    value="",
                    label=words.BASELINE_LABEL,
                    info=words.BASELINE_INFO,
                    allow_custom_value=True,
                    elem_id="lv-baseline",
                )
        measured_on, threads = _quality_step(), _threads_step()
    return PromptStep(prompts, tokens, rounds, seconds, baseline, *measured_on, *threads)


def _quality_step() -> tuple[gr.Textbox, gr.Checkbox, gr.HTML]:
    with gr.Accordion(words.TEXT, open=False, elem_id="lv-measured-on"):
        text = gr.Textbox(
            label=words.TEXT_LABEL,
            info=words.TEXT_INFO,
            lines=6,
            max_lines=16,
            elem_id="lv-text",
        )
        wrong = _html("", "lv-text-note")
        terms = gr.Checkbox(label=words.TERMS_LABEL, info=words.TERMS_INFO, container=False, elem_id="lv-kl-terms")
    return text, terms, wrong


def _threads_step() -> tuple[gr.Textbox, gr.HTML, gr.Checkbox]:
    with gr.Accordion(words.THREADS, open=False, elem_id="lv-threads-step"):
        threads = gr.Textbox(
            label=words.THREADS_LABEL,
            info=words.THREADS_INFO,
            placeholder=words.THREADS_PLACEHOLDER,
            max_lines=1,
            elem_id="lv-threads",
        )
        wrong = _html("", "lv-threads-note")
        as_hosted = gr.Checkbox(
            label=words.AS_HOSTED_LABEL, info=words.AS_HOSTED_INFO, container=False, elem_id="lv-as-hosted"
        )
    return threads, wrong, as_hosted


def _run_view() -> RunView:
    with gr.Column(visible=False, elem_id="lv-run") as column:
        with gr.Row(elem_id="lv-run-top"):
            head = _html("", "lv-run-head")
            with gr.Row(elem_id="lv-run-buttons"):
                stop = gr.Button(words.STOP, size="md", elem_id="lv-stop")
                new = gr.Button(words.NEW, size="md", elem_id="lv-new")
        shown = _html("", "lv-run-lanes")
        table = _html("", "lv-run-table")
        race = _html("", "lv-run-race")
    return RunView(
        gr.Textbox(visible="hidden", label="run", elem_id="lv-run-id"),
        column,
        head,
        shown,
        race,
        table,
        stop,
        new,
        gr.Button(visible="hidden", elem_id="lv-look"),
        gr.Timer(1.0, active=False),
        gr.State(""),
        gr.Textbox(visible="hidden", label="finished run", elem_id="lv-finished"),
    )


def _results_view(run: RunView) -> ResultsView:
    with run.column:
        caveats = _html("", "lv-run-caveats")
        judged = judging.view(_html)
        with gr.Column(visible=False, elem_id="lv-results") as section:
            _html(Markup("<h2>{}</h2><p>{}</p>").format(words.ANSWERS, words.ANSWERS_HINT), "lv-answers-title")
            prompt = gr.Dropdown([], label=words.PROMPT_PICK, elem_id="lv-prompt")
            answers = _html("", "lv-answers")
            with gr.Row(elem_classes="lv-charts"):
                charts = tuple(_chart(name, title) for name, title in words.CHARTS.items())
            details = _html("", "lv-details")
            recipes = recipe_view.view(_html)
            beside = between.view(_html)
            download = gr.Button(words.DOWNLOAD, size="md", elem_id="lv-download")
            delete = history.delete_button()
            payload = gr.Textbox(visible="hidden", label="run.json", elem_id="lv-payload")
    dark = gr.Checkbox(visible="hidden", label="dark", elem_id="lv-dark")
    return ResultsView(
        section, charts, caveats, judged, prompt, answers, details, recipes, beside, download, delete, payload, dark
    )


def _chart(name: str, title: str) -> Chart:
    with gr.Column(elem_classes="lv-chart", elem_id=f"lv-chart-{name}", min_width=240) as column:
        _html(Markup("<h3>{}</h3>").format(title), f"lv-chart-title-{name}")
        plot = gr.Plot(show_label=False, label=title)
        if name in words.CHART_NOTES:
            _html(Markup('<p class="lv-fine">{}</p>').format(words.CHART_NOTES[name]), f"lv-chart-note-{name}")
        return Chart(column, plot, _html("", f"lv-chart-rows-{name}"))
