"""A finished (or half finished) run as HTML: the table under its headline, the caveats.

Covers drawing only; values come from `results.Run`. A variant that was not measured gets its reason and no figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from optimizers.analysis.quality_words import numeric_floor
from optimizers.results import MARKS, Ratio, Run, VariantResult
from optimizers.ui import figures, glossary, judging_view, tables, words
from optimizers.ui.headline import headline
from optimizers.ui.tables import Cell

EMPTY = Markup("")
SORT_SCRIPT = Path(__file__).parents[2] / "assets" / "sort.js"

# Of each column after the variant's, in the order of words.COLUMNS: the end that comes first when it is sorted by,
# 1 the lowest and -1 the highest; 0 where it is not.
FIRST = (0, -1, -1, -1, 1, 1, 1, 1, -1, 1)

_KIND = Markup(' class="{}"')
_TITLED = Markup(' class="{kind}" title="{title}"{sorts}')
_VALUE = Markup(' data-value="{}"')
_SORTED = Markup(' aria-sort="none" data-first="{}"')
_SORT = Markup('<button type="button" class="lv-sort">{}</button>')
_SORT_LIST = Markup('<label class="lv-sort-list">{label} <select>{options}</select></label>')
_OPTION = Markup('<option value="{}">{}</option>')
_VERDICT = Markup('<span class="lv-verdict lv-{kind}"><span aria-hidden="true">{mark}</span> {word}</span>')
_TABLE = Markup(
    '<section class="lv-results" aria-label="{heading}"><h2>{heading}</h2>{headline}{read}{sort}{table}'
    '<p class="lv-fine">{fine}</p>{meant}</section>'
)
_WHY = Markup(
    '<td role="cell" class="lv-why-cell" colspan="{span}"><span class="lv-verdict lv-{status}">'
    '<span aria-hidden="true">{mark}</span> {word}</span> <span>{reason}</span> '
    '<span class="lv-remedy">{remedy}</span></td>'
)
_WITH_NOISE = Markup("{} <small>{}</small>")
_ROWS = Markup('<details class="lv-rows"><summary>{}</summary>{}</details>')
_CAVEATS = Markup('<section class="lv-caveats" aria-label="{heading}"><h2>{heading}</h2><ul>{items}</ul></section>')
_CAVEAT = Markup('<li>{variant}{text} <span class="lv-remedy">{remedy}</span></li>')


@dataclass(frozen=True)
class _Column:
    """A column of figures; `cell` is its place among `_cells`, `first` as in FIRST."""

    cell: int
    name: str
    title: str
    first: int


def table(run: Run, *, final: bool) -> str:
    """The comparison as a table, every variant of the run in a row, in plan order. Once it is `final` it can be
    sorted."""
    ladder = any(variant.step for variant in run.variants)
    (variant, _), *named = words.COLUMNS
    columns = [
        _Column(cell, name, _in_words(title, run), first if final else 0)
        for cell, ((name, title), first) in enumerate(zip(named, FIRST, strict=True))
        if ladder or name != words.STEP_COLUMN
    ]
    heading = words.RESULTS if final else words.SO_FAR
    header = [tables.header(variant), *map(_header, columns)]
    return _TABLE.format(
        heading=heading,
        headline=headline(run) if final else EMPTY,
        read=judging_view.read_blind(run) if final else EMPTY,
        sort=_sort_list(columns) if final else EMPTY,
        table=tables.table(heading, header, (_row(variant, columns) for variant in run.variants)),
        fine=" ".join(filter(None, (_noise(run), words.STEP_NOTE if ladder else "", *_measured_on(run)))),
        meant=glossary.figures_meant() if final else EMPTY,
    )


def _header(column: _Column) -> Markup:
    """The head of a column; of one that can be sorted by it is a button."""
    sorts = _SORTED.format(column.first) if column.first else EMPTY
    more = _TITLED.format(kind="lv-num" if column.cell > 0 else "", title=column.title, sorts=sorts)
    return tables.header(_SORT.format(column.name) if column.first else column.name, more)


def _sort_list(columns: Sequence[_Column]) -> Markup:
    """The same choice as a list, for where the heads of columns are not in sight."""
    options = [_OPTION.format("", words.SORT_PLANNED)]
    for place, column in enumerate(columns, start=1):
        for direction in (column.first, -column.first) if column.first else ():
            options.append(_OPTION.format(f"{place}:{direction}", words.SORTED[direction].format(name=column.name)))
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
    return _ROWS.format(words.AS_TABLE, tables.plain(words.AS_TABLE, header, body))


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


def _row(variant: VariantResult, columns: Sequence[_Column]) -> Markup:
    if variant.status == "measured" or (variant.latency and variant.status in ("ready", "loading")):
        found = _cells(variant)
        cells = [_cell(column, found[column.cell]) for column in columns]
    else:
        mark, word = words.STATUS[variant.status]
        why = _WHY.format(
            span=len(columns),
            status=variant.status,
            mark=mark,
            word=word,
            reason=variant.reason or "",
            remedy=variant.remedy or "",
        )
        cells = [why]
    return tables.row(variant.title, variant.key, cells, _KIND.format(f"lv-row-{variant.status}"))


def _cell(column: _Column, cell: Cell) -> Markup:
    kind = _KIND.format("lv-num" if column.cell > 0 else "lv-verdict-cell")
    return tables.cell(column.name, cell.shown, kind + (EMPTY if cell.sorts is None else _VALUE.format(cell.sorts)))


def _cells(variant: VariantResult) -> tuple[Cell, ...]:
    """The figures in the order of the columns."""
    latency, memory, ratio = variant.latency, variant.memory, variant.decode_ratio
    step = variant.step.versus.decode if variant.step else None
    tokens = figures.median(latency.decode_tokens_per_s) if latency else None
    first = figures.median(latency.ttft_s) if latency else None
    weights, peak = (memory.weights_bytes, memory.run_peak_bytes) if memory else (None, None)
    return (
        Cell(verdict(ratio)),
        Cell(speed(ratio), ratio.ratio if ratio else None),
        Cell(_added(step), step.ratio if step else None),
        Cell(figures.number(tokens), tokens),
        Cell(figures.short_seconds(first), first),
        Cell(figures.size(weights), weights),
        Cell(figures.size(peak), peak),
        *_quality(variant),
    )


def _added(ratio: Ratio | None) -> str | Markup:
    """What a ladder's step added to the one below: ratio, interval and word."""
    return figures.NOTHING if ratio is None else speed(ratio) + Markup("<div>{}</div>").format(verdict(ratio))


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


def _quality(variant: VariantResult) -> tuple[Cell, Cell, Cell]:
    quality, ratio = variant.quality, variant.decode_ratio
    if quality is None:  # the baseline is what the others are held against: none lies nearer to it
        itself = 0.0 if ratio and ratio.verdict == "baseline" else None
        return Cell(figures.NOTHING, itself), Cell(figures.NOTHING), Cell(figures.NOTHING)
    if quality.kl_divergence is None and quality.per_byte is not None:
        by_bytes = figures.times(quality.per_byte.ratio.value)
        return Cell(words.ANOTHER_MODEL), Cell(words.OTHER_TOKENS), Cell(words.PER_BYTE.format(times=by_bytes))
    kl = quality.kl_divergence.mean if quality.kl_divergence else None
    same = quality.same_top.rate if quality.same_top else None
    perplexity = quality.text.perplexity_ratio.value if quality.text else None
    small = figures.small(kl)
    return (
        Cell(_WITH_NOISE.format(small, words.WITHIN_NOISE) if quality.within_noise else small, kl),
        Cell(figures.percent(same), same),
        Cell(figures.times(perplexity), perplexity),
    )
