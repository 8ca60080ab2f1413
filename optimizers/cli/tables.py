"""Tables for a person: a finished run, a run that goes on, techniques, models, history.

Covers what is shown and how it is laid out. Everything untrusted is put into `Text` (never markup) without escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from optimizers.analysis.between_runs import Between
from optimizers.cli import figures
from optimizers.results import LiveRun, ModelEntry, Run, RunSummary, TechniqueList, VariantResult
from optimizers.schema import EngineState
from optimizers.scores import KlTerms

WIDE = 150
KL_COLUMN: dict[KlTerms, str] = {"all": "KL divergence", "llama_cpp": "KL (llama.cpp's rule)"}
Column = tuple[str, list[str]]


def finished(run: Run, width: int) -> Iterable[RenderableType]:
    """The result: one wide table or, on a narrow terminal, speed and cost apart; then reasons and caveats."""
    speed, cost = _speed(run.variants), _cost(run.variants, run.workload.kl_terms)
    yield Text(f"{run.model.id}, {run.status}" + (f": {figures.one_line(run.reason, 500)}" if run.reason else ""))
    if width >= WIDE:
        yield _table([*speed, *cost[1:]])
        yield _table(_start(run.variants))
        if any(variant.where_time_goes for variant in run.variants):
            yield _table(_time_parts(run.variants))
        if any(variant.near_limit for variant in run.variants):
            yield _table(_limits(run.variants))
    else:
        yield _table(speed)
        yield _table(cost)
    if any(variant.as_hosted for variant in run.variants):
        yield Text("With one core busy:")
        yield _table(_hosted(run.variants))
    if any(variant.quality and variant.quality.text for variant in run.variants):
        yield Text(f"On {figures.text(run)}:")
        yield _table(_text(run.variants))
    if (noise := figures.noise(run.noise_floor)) and len(run.variants) > 1:
        yield _paragraph("noise", f"{noise}.")
    for note in run.notes:
        yield _paragraph("note", note)
    for caveat in run.caveats:
        where = f"{caveat.variant}: " if caveat.variant else ""
        yield _paragraph("caveat", f"{where}{caveat.text} {caveat.remedy}")
    for variant in run.variants:
        yield from _why(variant)
    if run.recommendation:
        advice = run.recommendation
        yield _paragraph("advice", f"{advice.text} {advice.reason} {advice.condition}")


def going_on(live: LiveRun) -> RenderableType:
    """The run as it goes on."""
    table = _table(
        [
            ("variant", [lane.key for lane in live.lanes]),
            ("stage", [figures.one_line(lane.stage, 40) for lane in live.lanes]),
            ("tokens/s", [f"{lane.tokens_per_s:.3g}" if lane.tokens_per_s else "" for lane in live.lanes]),
            ("turns", [f"{lane.turns_done}/{lane.turns_planned}" if lane.turns_planned else "" for lane in live.lanes]),
            ("answer", [figures.one_line(lane.text, 60) for lane in live.lanes]),
        ]
    )
    left = f", about {figures.duration(live.time_left_s)} left" if live.time_left_s is not None else ""
    return Group(table, ProgressBar(total=1.0, completed=live.progress, width=60), Text(f"{live.stage}{left}"))


def techniques(listing: TechniqueList) -> Iterable[RenderableType]:
    """Every technique in slot order, available or why not."""
    for slot in dict.fromkeys(row.slot for row in listing.techniques):
        yield Text(slot, style="bold")
        for row in listing.techniques:
            if row.slot == slot:
                yield _paragraph(row.id, f"{row.title}. {row.summary}")
                if not row.available:
                    yield _paragraph("", f"not available: {row.reason} {row.remedy}")
                elif row.warning:
                    yield _paragraph("", f"note: {row.warning}")


def models(entries: Sequence[ModelEntry]) -> RenderableType:
    """The models that can be named without fetching or typing an address."""
    return _table(
        [
            ("id", [figures.one_line(entry.id) for entry in entries]),
            ("from", [entry.source for entry in entries]),
            ("size", [figures.size(entry.disk_bytes) for entry in entries]),
            ("here", ["yes" if entry.cached else "to fetch" for entry in entries]),
            ("note", [figures.one_line(entry.note) for entry in entries]),
        ]
    )


def engines(entries: Sequence[EngineState]) -> RenderableType:
    """The engines that run in environments of their own."""
    absent = {True: "on first use", False: "not allowed here"}
    return _table(
        [
            ("id", [entry.id for entry in entries]),
            ("what", [entry.title for entry in entries]),
            ("size", [figures.size(entry.size_bytes) for entry in entries]),
            ("here", ["yes" if entry.installed else absent[entry.allowed] for entry in entries]),
            ("versions", [", ".join(entry.requirements) for entry in entries]),
        ]
    )


def runs(entries: Sequence[RunSummary]) -> RenderableType:
    """The history."""
    return _table(
        [
            ("run", [entry.id for entry in entries]),
            ("began", [figures.one_line(entry.created_at, 30) for entry in entries]),
            ("status", [entry.status for entry in entries]),
            ("model", [figures.one_line(entry.model, 60) for entry in entries]),
            ("variants", [figures.one_line(", ".join(entry.variants)) for entry in entries]),
        ]
    )


def between(found: Between) -> Iterable[RenderableType]:
    """Two runs side by side: what differs, then each variant that both measured."""
    if found.differences:
        yield _table(
            [
                ("differs", [figures.one_line(item.name) for item in found.differences]),
                ("in the first", [figures.one_line(item.one) for item in found.differences]),
                ("in the second", [figures.one_line(item.other) for item in found.differences]),
            ]
        )
    latency = [(pair.one.latency, pair.other.latency) for pair in found.pairs]
    yield _table(
        [
            ("variant", [figures.one_line(pair.one.key) for pair in found.pairs]),
            ("tokens/s", [figures.rate(one.decode_tokens_per_s if one else None) for one, _ in latency]),
            ("in the second", [figures.rate(other.decode_tokens_per_s if other else None) for _, other in latency]),
            ("first / second", [figures.ratio(pair.decode) for pair in found.pairs]),
            ("first token", [figures.ratio(pair.first_token) for pair in found.pairs]),
        ]
    )
    for said, titles in (("in the first only", found.only_one), ("in the second only", found.only_other)):
        if titles:
            yield _paragraph(said, figures.one_line(", ".join(titles)))


def _speed(variants: Sequence[VariantResult]) -> list[Column]:
    versus = [variant.versus_baseline for variant in variants]
    latency = [variant.latency for variant in variants]
    columns = [
        ("variant", [variant.key for variant in variants]),
        ("status", [variant.status.replace("_", " ") for variant in variants]),
        ("tokens/s", [figures.rate(item.decode_tokens_per_s if item else None) for item in latency]),
        ("against the baseline", [figures.ratio(item.decode if item else None) for item in versus]),
        ("first token", [figures.milliseconds(item.ttft_s if item else None) for item in latency]),
    ]
    if any(variant.step for variant in variants):
        added = [figures.ratio(variant.step.versus.decode if variant.step else None) for variant in variants]
        columns.insert(4, ("against the step below", added))
    return columns


def _cost(variants: Sequence[VariantResult], kl_terms: KlTerms) -> list[Column]:
    memory = [variant.memory for variant in variants]
    quality = [variant.quality for variant in variants]
    return [
        ("variant", [variant.key for variant in variants]),
        ("weights", [figures.size(item.weights_bytes if item else None) for item in memory]),
        ("peak", [figures.size(item.run_peak_bytes if item else None) for item in memory]),
        (KL_COLUMN[kl_terms], [figures.kl_divergence(item) for item in quality]),
        ("same top", [figures.same_top(item) for item in quality]),
        *_energy(variants),
    ]


def _energy(variants: Sequence[VariantResult]) -> list[Column]:
    """Joules of the graphics card for each new token, where its driver tells."""
    energy = [variant.latency.joules_per_token if variant.latency else None for variant in variants]
    return [("joules a token", [figures.rate(item) for item in energy])] if any(energy) else []


def _text(variants: Sequence[VariantResult]) -> list[Column]:
    """Quality on a text written by people, of those that were scored on it."""
    scored = [(variant.key, variant.quality.text) for variant in variants if variant.quality and variant.quality.text]
    found = [text for _, text in scored]
    return [
        ("variant", [key for key, _ in scored]),
        ("positions", [f"{text.positions:,}" for text in found]),
        ("KL divergence", [figures.mean(text.kl_divergence.mean, text.kl_interval) for text in found]),
        ("same top", [figures.percent(text.same_top.rate) for text in found]),
        ("perplexity", [f"{text.perplexity:.4g} against {text.baseline_perplexity:.4g}" for text in found]),
        ("ratio", [figures.mean(text.perplexity_ratio.value, text.perplexity_ratio, "{:.3f}") for text in found]),
        ("probability of its tokens", [figures.delta_p(text) for text in found]),
    ]


def _hosted(variants: Sequence[VariantResult]) -> list[Column]:
    """Those that were timed again while another program kept a core busy."""
    timed = [(variant.key, variant.as_hosted) for variant in variants if variant.as_hosted]
    found = [item for _, item in timed]
    return [
        ("variant", [key for key, _ in timed]),
        ("tokens/s", [figures.rate(item.decode_tokens_per_s) for item in found]),
        ("against the baseline", [figures.ratio(item.versus_baseline) for item in found]),
        ("slower than without", [figures.times(item.slowdown) for item in found]),
        ("first token", [figures.milliseconds(item.ttft_s) for item in found]),
    ]


def _start(variants: Sequence[VariantResult]) -> list[Column]:
    """What was spent once, and when speed has paid for it."""
    spent = [variant.cost for variant in variants]
    return [
        ("variant", [variant.key for variant in variants]),
        ("loading", [figures.seconds(item.load_s if item else None) for item in spent]),
        ("preparing", [figures.seconds(item.prepare_s if item else None) for item in spent]),
        ("first answer", [figures.seconds(item.warm_up_s if item else None) for item in spent]),
        ("pays for itself", [figures.payback(variant.payback) for variant in variants]),
    ]


def _time_parts(variants: Sequence[VariantResult]) -> list[Column]:
    """Where the time of one request goes."""
    found = [variant.where_time_goes for variant in variants]
    names = {"tokenize": "tokenization", "prefill": "prompt pass", "decode": "decode passes", "sampling": "sampling"}
    names |= {"python": "Python", "detokenize": "detokenization"}
    return [
        ("variant", [variant.key for variant in variants]),
        ("one request", [figures.seconds(item.total_s if item else None) for item in found]),
        *(
            (name, [figures.percent(getattr(item.shares, part) if item else None) for item in found])
            for part, name in names.items()
        ),
    ]


def _limits(variants: Sequence[VariantResult]) -> list[Column]:
    """How close each comes to what the machine can do at most: least time over measured time."""
    near = [variant.near_limit for variant in variants]
    decode = [item.decode if item else None for item in near]
    prompt = [item.prompt if item else None for item in near]
    return [
        ("variant", [variant.key for variant in variants]),
        ("a pass reads", [figures.size(item.bytes_read if item else None) for item in decode]),
        ("from", [f"{item.source}, {item.bytes_per_s / 1e9:.3g} GB/s" if item else figures.NOTHING for item in decode]),
        ("at least", [figures.seconds(item.least_s if item else None) for item in decode]),
        ("took", [figures.seconds(item.measured_s if item else None) for item in decode]),
        ("of the limit", [figures.percent(item.share if item else None) for item in decode]),
        ("prompt, of the limit", [figures.percent(item.share if item else None) for item in prompt]),
    ]


def _why(variant: VariantResult) -> Iterable[RenderableType]:
    """Why a variant has no figures, and the last lines of its log."""
    if variant.reason:
        word = variant.status.replace("_", " ")
        yield _paragraph(word, f"{variant.key}: {variant.reason} {variant.remedy or ''}")
    for line in variant.log_tail if variant.status == "failed" else ():
        yield _paragraph("", f"log: {line}")


def _table(columns: Sequence[Column]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, _ in columns:
        table.add_column(name, no_wrap=name in ("variant", "id", "run"))
    for cells in zip(*(values for _, values in columns), strict=True):
        table.add_row(*(Text(figures.one_line(cell)) for cell in cells))
    return table


def _paragraph(head: str, text: str) -> RenderableType:
    lead = f"{head}: " if head else ""
    return Text(f"  {lead}{figures.one_line(text, 2000)}")
