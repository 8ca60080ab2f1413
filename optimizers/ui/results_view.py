"""A finished (or half finished) run as HTML: the table under its headline, the caveats.

Covers drawing only; values come from `results.Run`. A variant that was not measured gets its reason and no figures.
"""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup, escape

from optimizers.analysis.quality_words import numeric_floor
from optimizers.results import MARKS, Ratio, Run, Step, VariantResult
from optimizers.ui import figures, words
from optimizers.ui.headline import headline

EMPTY = Markup("")
SORT_SCRIPT = Path(__file__).parents[2] / "assets" / "sort.js"

Columns = tuple[tuple[str, str], ...]

_CELL = Markup('<td role="cell" data-label="{label}" class="{kind}"{sorts}><span>{value}</span></td>')
_SORTS = Markup(' data-value="{}"')
_HEADER = Markup('<th role="columnheader" scope="col" class="{kind}" title="{title}"{sorts}>{name}</th>')
_SORTED = Markup(' aria-sort="none" data-first="{}"')
_SORT = Markup('<button type="button" class="lv-sort">{}</button>')
_SORT_LIST = Markup('<label class="lv-sort-list">{label} <select>{options}</select></label>')
_OPTION = Markup('<option value="{}">{}</option>')
_NAME = Markup('<th role="rowheader" scope="row" class="lv-name"><span>{title}</span><code>{key}</code></th>')
_ROW = Markup('<tr role="row" class="lv-row-{status}">{name}{cells}</tr>')
_VERDICT = Markup('<span class="lv-verdict lv-{kind}"><span aria-hidden="true">{mark}</span> {word}</span>')
_TABLE = Markup(
    '<section class="lv-results" aria-label="{heading}"><h2>{heading}</h2>{headline}{sort}'
    '<div class="lv-scroll" tabindex="0" role="group" aria-label="{heading}"><table role="table">'
    '<thead role="rowgroup"><tr role="row">{header}</tr></thead><tbody role="rowgroup">{rows}</tbody></table></div>'
    '<p class="lv-fine">{fine}</p></section>'
)
_WHY = Markup(
    '<td role="cell" class="lv-why-cell" colspan="{span}"><span class="lv-verdict lv-{status}">'
    '<span aria-hidden="true">{mark}</span> {word}</span> <span>{reason}</span> '
    '<span class="lv-remedy">{remedy}</span></td>'
)
_WITH_NOISE = Markup("{} <small>{}</small>")
_CAVEATS = Markup('<section class="lv-caveats" aria-label="{heading}"><h2>{heading}</h2><ul>{items}</ul></section>')
_CAVEAT = Markup('<li>{variant}{text} <span class="lv-remedy">{remedy}</span></li>')


def table(run: Run, *, final: bool) -> str:
    """The comparison as a table, every variant of the run in a row, in plan order."""
    ladder = any(variant.step for variant in run.variants)
    columns = tuple(column for column in words.COLUMNS if ladder or column[0] != words.STEP_COLUMN)
    header = EMPTY.join(
        _header(name, _in_words(title, run), place, final) for place, (name, title) in enumerate(columns)
    )
    return _TABLE.format(
        heading=words.RESULTS if final else words.SO_FAR,
        headline=headline(run) if final else EMPTY,
        sort=_sort_list(columns) if final else EMPTY,
        header=header,
        rows=EMPTY.join(_row(variant, columns) for variant in run.variants),
        fine=" ".join(filter(None, (_noise(run), words.STEP_NOTE if ladder else "", *_measured_on(run)))),
    )


def _header(name: str, title: str, place: int, sorts: bool) -> Markup:
    """The head of a column; where `sorts`, one of figures is a button that sorts by it, the better end first."""
    kind = "lv-num" if place > 1 else ""
    if not sorts or name not in words.FIRST_SORTED:
        return _HEADER.format(name=name, title=title, kind=kind, sorts=EMPTY)
    return _HEADER.format(
        name=_SORT.format(name), title=title, kind=kind, sorts=_SORTED.format(words.FIRST_SORTED[name])
    )


def _sort_list(columns: Columns) -> Markup:
    """The same choice as a list, for where the heads of columns are not in sight."""
    places = [(place, name) for place, (name, _) in enumerate(columns) if name in words.FIRST_SORTED]
    options = [_OPTION.format("", words.SORT_PLANNED)]
    for place, name in places:
        for direction in (words.FIRST_SORTED[name], -words.FIRST_SORTED[name]):
            options.append(_OPTION.format(f"{place}:{direction}", words.SORTED[direction].format(name=name)))
    return _SORT_LIST.format(label=words.SORT, options=EMPTY.join(options))


def caveats(run: Run) -> str:
    """What a reader must know before quoting the figures; empty without any."""
    notes = [Markup("<li>{}</li>").format(note) for note in run.notes]
    titles = {variant.key: variant.title for variant in run.variants}
    for caveat in run.caveats:
        name = titles.get(caveat.variant or "", caveat.variant)
        variant = Markup("<strong>{}:</strong> ").format(name) if name else EMPTY
        notes.append(_CAVEAT.format(variant=variant, text=caveat.text, remedy=caveat.remedy))
    return _CAVEATS.format(heading=words.CAVEATS, items=EMPTY.join(notes)) if notes else ""


def rows(table_rows: list[list[str]]) -> str:
    """The figures of a chart as a table that can be opened; the first row names the columns."""
    header, *body = table_rows
    head = EMPTY.join(Markup('<th scope="col">{}</th>').format(cell) for cell in header)
    lines = EMPTY.join(
        Markup("<tr>{}</tr>").format(EMPTY.join(Markup("<td>{}</td>").format(cell) for cell in row)) for row in body
    )
    return Markup(
        '<details class="lv-rows"><summary>{}</summary><div class="lv-scroll" tabindex="0" role="group" '
        'aria-label="{}">'
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div></details>"
    ).format(words.AS_TABLE, words.AS_TABLE, head, lines)


def breakable(key: str) -> Markup:
    """A key that may wrap after each plus sign and underscore."""
    return Markup(str(escape(key)).replace("+", "+<wbr>").replace("_", "_<wbr>"))


def _noise(run: Run) -> str:
    """Which differences are noise in this run; empty where nothing was compared."""
    floors, compared = run.noise_floor, [variant.versus_baseline for variant in run.variants if variant.versus_baseline]
    said = [
        form.format(low=f"{max(0.0, 1 - floor):.2f}", high=f"{1 + floor:.2f}")
        for form, floor, ratios in (
            (words.NOISE_DECODE, floors.decode, [versus.decode for versus in compared]),
            (words.NOISE_TTFT, floors.ttft, [versus.ttft for versus in compared]),
        )
        if floor is not None and any(ratios)
    ]
    noise = numeric_floor(floors.kl_divergence)
    if noise is not None and any(variant.quality and variant.quality.kl_divergence for variant in run.variants):
        said.append(words.NOISE_KL.format(nats=figures.floor(noise)))
    return words.NOISE.format(floors=", ".join(said)) if said else ""


def _in_words(title: str, run: Run) -> str:
    """What a column holds, with the text and the rule of this run."""
    return title.format(text=figures.text(run), rule=words.KL_RULE[run.workload.kl_terms])


def _measured_on(run: Run) -> tuple[str, str]:
    """What is another than usual in how quality was measured."""
    own = words.TEXT_NOTE.format(text=figures.text(run)) if run.workload.text else ""
    return own, words.KL_RULE_NOTE if run.workload.kl_terms == "llama_cpp" else ""


def _row(variant: VariantResult, columns: Columns) -> Markup:
    name = _NAME.format(title=variant.title, key=breakable(variant.key))
    if variant.status == "measured" or (variant.latency and variant.status in ("ready", "loading")):
        cells = _figures(variant, columns)
    else:
        mark, word = words.STATUS[variant.status]
        cells = _WHY.format(
            span=len(columns) - 1,
            status=variant.status,
            mark=mark,
            word=word,
            reason=variant.reason or "",
            remedy=variant.remedy or "",
        )
    return _ROW.format(status=variant.status, name=name, cells=cells)


def _figures(variant: VariantResult, columns: Columns) -> Markup:
    latency, memory, versus = variant.latency, variant.memory, variant.versus_baseline
    values: tuple[str | Markup, ...] = (
        verdict(versus.decode if versus else None),
        speed(versus.decode if versus else None),
        _added(variant.step),
        figures.number(figures.median(latency.decode_tokens_per_s) if latency else None),
        figures.short_seconds(figures.median(latency.ttft_s) if latency else None),
        figures.size(memory.weights_bytes if memory else None),
        figures.size(memory.run_peak_bytes if memory else None),
        *_quality(variant),
    )
    shown = [
        (name, value, sorts)
        for (name, _), value, sorts in zip(words.COLUMNS[1:], values, _values(variant), strict=True)
        if name in dict(columns)
    ]
    return EMPTY.join(
        _CELL.format(
            label=name,
            kind="lv-num" if place > 0 else "lv-verdict-cell",
            value=value,
            sorts=EMPTY if sorts is None else _SORTS.format(sorts),
        )
        for place, (name, value, sorts) in enumerate(shown)
    )


def _values(variant: VariantResult) -> tuple[float | None, ...]:
    """What each column of figures sorts by."""
    latency, memory, versus, quality = variant.latency, variant.memory, variant.versus_baseline, variant.quality
    ratio = versus.decode.ratio if versus and versus.decode else None
    step = variant.step.versus.decode if variant.step else None
    spread = quality.kl_divergence if quality else None
    itself = 0.0 if versus and versus.decode and versus.decode.verdict == "baseline" else None
    return (
        ratio,
        ratio,
        step.ratio if step else None,
        figures.median(latency.decode_tokens_per_s) if latency else None,
        figures.median(latency.ttft_s) if latency else None,
        memory.weights_bytes if memory else None,
        memory.run_peak_bytes if memory else None,
        spread.mean if spread else itself,
        quality.same_top.rate if quality and quality.same_top else None,
        quality.text.perplexity_ratio.value if quality and quality.text else None,
    )


def _added(step: Step | None) -> str | Markup:
    """What a ladder's step added to the one below: ratio, interval and word."""
    if step is None or step.versus.decode is None:
        return figures.NOTHING
    return speed(step.versus.decode) + Markup("<div>{}</div>").format(verdict(step.versus.decode))


def verdict(ratio: Ratio | None) -> str | Markup:
    """The word for a ratio, with its mark."""
    if ratio is None:
        return figures.NOTHING
    kind = ratio.verdict.replace(" ", "-")
    return _VERDICT.format(kind=kind, mark=MARKS[ratio.verdict], word=ratio.verdict)


def speed(ratio: Ratio | None) -> str | Markup:
    """A ratio with its interval."""
    if ratio is None:
        return figures.NOTHING
    return Markup("<strong>{}</strong> <small>{}</small>").format(figures.times(ratio.ratio), figures.interval(ratio))


def _quality(variant: VariantResult) -> tuple[str | Markup, str, str]:
    quality = variant.quality
    if quality is None:
        return figures.NOTHING, figures.NOTHING, figures.NOTHING
    if quality.kl_divergence is None and quality.per_byte is not None:
        ratio = figures.times(quality.per_byte.ratio.value)
        return words.ANOTHER_MODEL, words.OTHER_TOKENS, words.PER_BYTE.format(times=ratio)
    kl: str | Markup = figures.small(quality.kl_divergence.mean if quality.kl_divergence else None)
    return (
        _WITH_NOISE.format(kl, words.WITHIN_NOISE) if quality.within_noise else kl,
        figures.percent(quality.same_top.rate if quality.same_top else None),
        figures.times(quality.text.perplexity_ratio.value if quality.text else None),
    )
