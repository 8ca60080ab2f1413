"""Short pieces of the form as HTML: facts of a model, a technique's promise and obstacle, the estimate, messages.

Covers drawing only; everything that did not come from `words` is escaped by Markup.format.
"""

from __future__ import annotations

from markupsafe import Markup

from optimizers.errors import LeversError
from optimizers.results import RunSummary, TechniqueRow
from optimizers.schema import Checkpoint, Plan
from optimizers.ui import figures, glossary, words, words_history
from optimizers.ui.preparing import Preparation

EMPTY = Markup("")

_MESSAGE = Markup('<div class="lv-message lv-{kind}"{role}><p>{reason}</p>{remedy}</div>')
_REMEDY = Markup('<p class="lv-remedy">{}</p>')
_FACTS = Markup('<dl class="lv-facts">{}</dl>')
_FACT = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
_WORKING = Markup(
    '<div class="lv-working" role="status"><span class="lv-spin" aria-hidden="true"></span><span>{text}</span></div>'
    "{bar}"
)
_SHARE = Markup('<div class="lv-bar" aria-hidden="true"><span style="width:{}%"></span></div>')
_PLANNED = Markup('<div class="lv-planned"><h3>{heading}</h3>{body}</div>')
_PLANNED_ITEM = Markup("<li><span>{title}</span> {tag}<code>{key}</code></li>")
_BASELINE_TAG = Markup('<span class="lv-is-baseline">{}</span>').format(words.BASELINE_TAG)
_LABELED = Markup('<p class="lv-tag lv-tag-{kind}"><strong>{label}</strong> {text}</p>')


def message(error: LeversError, kind: str = "error") -> str:
    """What went wrong and what to do, beside the thing it is about."""
    role = Markup(' role="alert"') if kind == "error" else EMPTY
    remedy = _REMEDY.format(error.remedy) if error.remedy else EMPTY
    return _MESSAGE.format(kind=kind, role=role, reason=error.reason, remedy=remedy)


def say(text: str, remedy: str = "") -> str:
    """A quiet message."""
    return message(LeversError(text, remedy), "quiet")


def model(state: Preparation) -> str:
    """The facts of a model, how far it is, or why it cannot be used."""
    if state.error:
        return message(state.error)
    if state.checkpoint:
        return _checkpoint(state.checkpoint)
    bar = EMPTY if state.share is None else _SHARE.format(max(0, min(100, round(state.share * 100))))
    return _WORKING.format(text=state.text, bar=bar)


def technique(row: TechniqueRow) -> str:
    """The promise of a technique, its warning or the reason why it cannot be ticked, and how it works."""
    parts = [_LABELED.format(kind="promise", label=words.PROMISE, text=row.promise)] if row.promise else []
    if not row.available:
        text = f"{row.reason or ''} {row.remedy or ''}".strip()
        parts.append(_LABELED.format(kind="obstacle", label=words.UNAVAILABLE, text=text))
    elif row.warning:
        parts.append(_LABELED.format(kind="warning", label=words.WARNING, text=row.warning))
    return EMPTY.join((*parts, glossary.how(row.title, row.about)))


def estimate(plan: Plan, memory_bytes: int) -> str:
    """What Compare will do: how many variants, how long, how much memory."""
    headline = words.ESTIMATE.format(
        variants=figures.plural(len(plan.variants), "variant", "variants"),
        about=words.ABOUT if plan.choice.workload.seconds is None else words.AT_MOST,
        time=figures.seconds(plan.estimate_s),
        need=figures.size(plan.predicted_bytes),
        have=figures.size(memory_bytes),
    )
    details = words.ESTIMATE_BASELINE.format(
        baseline=plan.baseline,
        prompts=figures.plural(len(plan.choice.workload.prompts), "prompt", "prompts"),
        residents=words.RESIDENT if plan.resident else words.IN_TURN,
    )
    return Markup('<div class="lv-estimate" role="status"><p class="lv-say">{}</p><p>{}</p></div>').format(
        headline, details
    )


def planned(plan: Plan) -> str:
    """The variants that will be made, in their order, the baseline first."""
    items = (
        _PLANNED_ITEM.format(
            title=variant.title, tag=_BASELINE_TAG if variant.key == plan.baseline else EMPTY, key=variant.key
        )
        for variant in plan.variants
    )
    return _PLANNED.format(heading=words.PLANNED, body=Markup("<ol>{}</ol>").format(EMPTY.join(items)))


def not_planned(text: str) -> str:
    """In place of the variants, why there are none to name."""
    return _PLANNED.format(heading=words.PLANNED, body=Markup('<p class="lv-fine">{}</p>').format(text))


def before(plan: Plan) -> str:
    """What a reader must know before Compare: how the baseline came about, what is known to disappoint, what is left
    out and why."""
    lines = [Markup("<li>{}</li>").format(note) for note in plan.notes]
    lines += [
        Markup("<li><strong>{}:</strong> {}</li>").format(title, warning) for warning, title in plan.warnings.items()
    ]
    lines += [
        Markup("<li><strong>{}</strong> {} {}</li>").format(
            words.SKIPPED_BEFORE.format(title=skipped.title), skipped.obstacle.reason, skipped.obstacle.remedy
        )
        for skipped in plan.skipped
    ]
    return Markup('<ul class="lv-before">{}</ul>').format(EMPTY.join(lines)) if lines else ""


def running_elsewhere(run_id: str) -> str:
    """That a comparison is going on, with the way to it."""
    link = Markup('<a href="?run={}">{}</a>').format(run_id, words.WATCH_IT)
    return Markup('<div class="lv-message lv-quiet" role="status"><p>{} {}</p></div>').format(
        words.RUNNING_ELSEWHERE, link
    )


def history(runs: tuple[RunSummary, ...]) -> str:
    """Earlier comparisons as links, newest first."""
    if not runs:
        return Markup('<p class="lv-fine">{}</p>').format(words_history.NO_HISTORY)
    items = (
        Markup(
            '<li><a href="?run={id}">{model}</a> <span>{variants}</span> <time>{at}</time> <span>{word}</span></li>'
        ).format(
            id=run.id,
            model=run.model,
            variants=figures.plural(len(run.variants), "variant", "variants"),
            at=figures.moment(run.created_at),
            word=words.RUN_STATUS[run.status][1],
        )
        for run in runs[:50]
    )
    return Markup('<ul class="lv-history">{}</ul>').format(EMPTY.join(items))


def no_facts() -> str:
    """The facts of a model before they are known: their names, so that nothing moves when they come."""
    return _listed([figures.NOTHING] * len(words.FACTS))


def _listed(values: list[str]) -> str:
    return _FACTS.format(EMPTY.join(_FACT.format(*fact) for fact in zip(words.FACTS, values, strict=True)))


def _checkpoint(checkpoint: Checkpoint) -> str:
    listed = _listed(
        [
            figures.count(checkpoint.parameters),
            figures.size(checkpoint.disk_bytes),
            checkpoint.quantization or checkpoint.stored_dtype,
            f"{checkpoint.context_length:,} tokens",
            words.CHAT_TEMPLATE[checkpoint.has_chat_template],
            checkpoint.architecture,
        ]
    )
    note = Markup('<p class="lv-tag lv-tag-warning">{}</p>').format(checkpoint.low_bit_grid)
    return listed + note if checkpoint.low_bit_grid else listed
