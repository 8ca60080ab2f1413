"""The quiet parts of a finished run as HTML: quality with its errors, promises, speed with one core busy, what speed
costs, energy, how close it comes to what the machine can do, what really happened.

Covers drawing only: the judgements are in `results.PromiseResult` and `results.Payback`, the census is as the worker
read it. All are closed until a reader opens them; what is absent is left out, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from markupsafe import Markup

from optimizers.analysis.quality_words import numeric_floor
from optimizers.limits import DecodeLimit, MachineLimits, PromptLimit
from optimizers.quality import Interval, Quality, Spread
from optimizers.results import Hosted, Payback, PromiseResult, Run, Stat, VariantResult
from optimizers.schema import Census, Cost
from optimizers.ui import figures, tables, words
from optimizers.ui.results_view import speed, verdict

EMPTY = Markup("")
LEAST_SHOWN_S = 0.01

_SECTION = Markup(
    '<details class="lv-deep lv-results"><summary><h2>{title}</h2><span>{hint}</span></summary>{table}{fine}</details>'
)
_FINE = Markup('<p class="lv-fine">{}</p>')
_KEPT = Markup('<span class="lv-verdict lv-kept-{kind}"><span aria-hidden="true">{mark}</span> {word}</span>')
_WITH_NOTE = Markup("{} <small>{}</small>")


def details(run: Run) -> str:
    """The sections; empty for a run in which nothing was loaded."""
    told = _quality(run) + _promises(run) + _hosted(run) + _cost(run) + _energy(run)
    return told + _limits(run) + _census(run)


def _quality(run: Run) -> Markup:
    scored = [(variant, variant.quality) for variant in run.variants if variant.quality]
    if not scored:
        return EMPTY
    rows = (_row(variant, words.QUALITY_COLUMNS, _quality_cells(quality)) for variant, quality in scored)
    text = figures.text(run)
    fine = words.QUALITY_FINE.format(text=text, rule=words.KL_RULE[run.workload.kl_terms])
    noise = numeric_floor(run.noise_floor.kl_divergence)
    if noise is not None:
        fine += " " + words.QUALITY_FLOOR.format(nats=figures.floor(noise))
    return _section(words.QUALITY, words.QUALITY_HINT.format(text=text), words.QUALITY_COLUMNS, rows, fine)


def _quality_cells(quality: Quality) -> tuple[str | Markup, ...]:
    text = quality.text
    answers = _kl(quality.kl_divergence, quality.kl_interval)
    if quality.within_noise:
        answers = _WITH_NOTE.format(answers, words.WITHIN_NOISE)
    if text is None:
        by_bytes = quality.per_byte
        ratio = words.PER_BYTE.format(times=figures.times(by_bytes.ratio.value)) if by_bytes else figures.NOTHING
        return answers, *[figures.NOTHING] * 3, ratio, figures.NOTHING
    top = words.GIVE_OR_TAKE.format(value=figures.percent(text.same_top.rate), se=figures.percent(text.same_top.se))
    root = words.ROOT_MEAN_SQUARE.format(value=figures.small(text.rms_delta_p))
    ours, theirs = figures.number(text.perplexity), figures.number(text.baseline_perplexity)
    return (
        answers,
        _kl(text.kl_divergence, text.kl_interval),
        top,
        words.AGAINST.format(ours=ours, theirs=theirs),
        _WITH_NOTE.format(figures.times(text.perplexity_ratio.value), figures.interval(text.perplexity_ratio)),
        _WITH_NOTE.format(figures.give_or_take(text.delta_p.mean, text.delta_p.se), root),
    )


def _kl(found: Spread | None, interval: Interval | None) -> str | Markup:
    return figures.NOTHING if found is None else _WITH_NOTE.format(figures.small(found.mean), figures.between(interval))


def _promises(run: Run) -> Markup:
    promised = [(variant, promise) for variant in run.variants for promise in variant.promises]
    if not promised:
        return EMPTY
    tally = {kept: sum(promise.kept is kept for _, promise in promised) for kept in (True, False, None)}
    hint = words.PROMISES_HINT.format(kept=tally[True], broken=tally[False], open=tally[None])
    return _section(words.PROMISES, hint, words.PROMISE_COLUMNS, (_promise_row(*pair) for pair in promised))


def _promise_row(variant: VariantResult, promise: PromiseResult) -> Markup:
    mark, word = words.KEPT[promise.kept]
    kind = {True: "yes", False: "no", None: "open"}[promise.kept]
    verdict = _KEPT.format(kind=kind, mark=mark, word=word)
    cells = (
        _WITH_NOTE.format(promise.claim, promise.source),
        promise.promised,
        promise.measured or figures.NOTHING,
        _WITH_NOTE.format(verdict, promise.why) if promise.why else verdict,
    )
    return _row(variant, words.PROMISE_COLUMNS, cells)


def _hosted(run: Run) -> Markup:
    timed = [(variant, variant.as_hosted) for variant in run.variants if variant.as_hosted]
    if not timed:
        return EMPTY
    rows = (_row(variant, words.AS_HOSTED_COLUMNS, _hosted_cells(found)) for variant, found in timed)
    return _section(words.AS_HOSTED, words.AS_HOSTED_HINT, words.AS_HOSTED_COLUMNS, rows, words.AS_HOSTED_FINE)


def _hosted_cells(found: Hosted) -> tuple[str | Markup, ...]:
    return (
        verdict(found.versus_baseline),
        speed(found.versus_baseline),
        figures.number(figures.median(found.decode_tokens_per_s)),
        figures.short_seconds(figures.median(found.ttft_s)),
        figures.times(found.slowdown),
    )


def _cost(run: Run) -> Markup:
    spent = [(variant, variant.cost) for variant in run.variants if variant.cost]
    if not spent:
        return EMPTY
    tokens = run.workload.max_new_tokens
    rows = (_row(variant, words.COST_COLUMNS, _cost_cells(variant, cost, tokens)) for variant, cost in spent)
    fine = words.COST_FORMULA.format(tokens=figures.plural(tokens, "token", "tokens"))
    return _section(words.COST, words.COST_HINT, words.COST_COLUMNS, rows, fine)


def _cost_cells(variant: VariantResult, cost: Cost, tokens: int) -> tuple[str | Markup, ...]:
    pays = variant.payback
    return (
        figures.short_seconds(cost.load_s),
        figures.short_seconds(cost.prepare_s) if cost.prepare_s >= LEAST_SHOWN_S else figures.NOTHING,
        figures.short_seconds(cost.warm_up_s),
        figures.more_seconds(pays.extra_s) if pays else figures.NOTHING,
        _pays(pays, tokens) if pays else figures.NOTHING,
    )


def _pays(pays: Payback, new_tokens: int) -> Markup:
    said, answers = str(pays.word), ""
    if pays.word == "after tokens" and pays.tokens is not None:
        tokens = figures.plural(new_tokens, "token", "tokens")
        said = words.PAYS_AFTER.format(tokens=figures.plural(pays.tokens, "token", "tokens"))
        times = figures.plural(math.ceil(pays.tokens / new_tokens), "answer", "answers")
        answers = words.PAYS_AFTER_ANSWERS.format(answers=times, tokens=tokens)
    lines = (Markup("<small>{}</small>").format(line) for line in (answers, pays.note) if line)
    return Markup("<strong>{}</strong> {}").format(said, EMPTY.join(lines))


def _energy(run: Run) -> Markup:
    used = [
        (variant, stat) for variant in run.variants if variant.latency and (stat := variant.latency.joules_per_token)
    ]
    rows = (_row(variant, words.ENERGY_COLUMNS, (_joules(stat),)) for variant, stat in used)
    return _section(words.ENERGY, words.ENERGY_HINT, words.ENERGY_COLUMNS, rows, words.ENERGY_FINE) if used else EMPTY


def _joules(stat: Stat) -> Markup:
    return _WITH_NOTE.format(f"{stat.median:.3g} J", figures.span(stat))


def _limits(run: Run) -> Markup:
    near = [(variant, variant.near_limit) for variant in run.variants if variant.near_limit]
    if not near or run.limits is None:
        return EMPTY
    rows = (
        _row(variant, words.LIMIT_COLUMNS, (_decode_limit(found.decode), _prompt_limit(found.prompt)))
        for variant, found in near
    )
    doubt = words.LIMIT_DISTURBED if run.limits.disturbed else ""
    fine = " ".join(filter(None, (_machine(run.limits), doubt, words.LIMIT_FORMULA)))
    return _section(words.LIMITS, words.LIMITS_HINT, words.LIMIT_COLUMNS, rows, fine)


def _decode_limit(found: DecodeLimit | None) -> str | Markup:
    if found is None:
        return figures.NOTHING
    how = words.LIMIT_DECODE.format(
        bytes=figures.size(found.bytes_read),
        bandwidth=figures.per_second(found.bytes_per_s),
        source=words.LIMIT_SOURCES[found.source],
        least=figures.short_seconds(found.least_s),
        measured=figures.short_seconds(found.measured_s),
    )
    return _share(found.share, how)


def _prompt_limit(found: PromptLimit | None) -> str | Markup:
    if found is None:
        return figures.NOTHING
    how = words.LIMIT_PROMPT.format(
        operations=words.OPERATIONS.format(billions=found.operations / 1e9),
        rate=words.OPERATIONS_PER_S.format(billions=found.operations_per_s / 1e9),
        computes_in=found.computes_in,
        least=figures.short_seconds(found.least_s),
        measured=figures.short_seconds(found.measured_s),
    )
    return _share(found.share, how)


def _share(share: float, how: str) -> Markup:
    said = words.LIMIT_SHARE.format(share=figures.percent(share))
    return Markup("<strong>{}</strong> <small>{}</small>").format(said, how)


def _machine(limits: MachineLimits) -> str:
    """What the machine did when it was measured, in a sentence."""
    products = [
        words.LIMIT_PRODUCTS.format(rate=words.OPERATIONS_PER_S.format(billions=rate / 1e9), format=name)
        for name, rate in limits.operations_per_s.items()
    ]
    known = limits.last_level_bytes
    return words.LIMIT_MACHINE.format(
        threads=figures.plural(limits.threads, "thread", "threads"),
        memory=figures.per_second(limits.memory_bytes_per_s),
        cache=figures.per_second(limits.cache_bytes_per_s),
        size=words.LIMIT_CACHE.format(size=figures.size(known)) if known else "",
        products=", ".join(products),
    )


def _census(run: Run) -> Markup:
    seen = [(variant, variant.census) for variant in run.variants if variant.census]
    if not seen:
        return EMPTY
    rows = (_row(variant, words.CENSUS_COLUMNS, _census_cells(variant, census)) for variant, census in seen)
    return _section(words.CENSUS, words.CENSUS_HINT, words.CENSUS_COLUMNS, rows)


def _census_cells(variant: VariantResult, census: Census) -> tuple[str | Markup, ...]:
    attention = _WITH_NOTE.format(census.attention, census.attention_kernel) if census.attention_kernel else ""
    return (
        _by_dtype(census),
        _converted(census),
        attention or census.attention or figures.NOTHING,
    )


def _by_dtype(census: Census) -> Markup:
    largest_first = sorted(census.bytes_by_dtype.items(), key=lambda entry: -entry[1])
    lines = [Markup("<div>{} {}</div>").format(name, figures.size(held)) for name, held in largest_first if held]
    return EMPTY.join(lines) or Markup(figures.NOTHING)


def _converted(census: Census) -> Markup:
    kinds = ", ".join(f"{kind} {amount:,}" for kind, amount in census.module_kinds.items())
    converted = figures.plural(census.modules_converted, "layer", "layers") if census.modules_converted else ""
    said = Markup("<div>{}</div>").format(converted or words.NONE_CONVERTED)
    for skipped in census.modules_skipped:
        left = words.LEFT_AS_IT_WAS.format(amount=f"{skipped.count:,}", name=skipped.name, why=skipped.why)
        said += Markup("<small>{}</small>").format(left)
    said += Markup("<small>{}</small>").format(
        words.COMPUTES_WITH.format(threads=figures.plural(census.threads, "thread", "threads"))
    )
    runs_on = words.RUNS_ON.format(providers=", ".join(census.providers)) if census.providers else ""
    for sentence in filter(None, (census.checked, runs_on)):
        said += Markup("<small>{}</small>").format(sentence)
    if census.quantization:
        said += Markup("<small>{}</small>").format(words.STORED_QUANTIZED.format(method=census.quantization))
    return said + (Markup("<small>{}</small>").format(words.KINDS.format(kinds=kinds)) if kinds else EMPTY)


def _row(variant: VariantResult, columns: tuple[str, ...], cells: Iterable[str | Markup]) -> Markup:
    drawn = (tables.cell(*pair) for pair in zip(columns[1:], cells, strict=True))
    return tables.row(variant.title, variant.key, drawn)


def _section(title: str, hint: str, columns: tuple[str, ...], rows: Iterable[Markup], fine: str = "") -> Markup:
    drawn = tables.table(title, map(tables.header, columns), rows)
    return _SECTION.format(title=title, hint=hint, table=drawn, fine=_FINE.format(fine) if fine else EMPTY)
