"""Numbers in a person's units: bytes, seconds, counts, ratios. Covers wording of figures only; None is an en dash.

Decimal units (1 GB = 10^9 bytes), three significant digits at most.
"""

from __future__ import annotations

from optimizers.analysis.quality_words import RULE
from optimizers.quality import Interval
from optimizers.results import Ratio, Run, Stat
from optimizers.ui import words

NOTHING = "–"


def size(value: float | None) -> str:
    """Bytes as "269 MB" or "2.1 GB"."""
    return NOTHING if value is None else _scaled(value, ("B", "kB", "MB", "GB", "TB"))


def per_second(value: float) -> str:
    """A bandwidth as "11.4 GB/s"."""
    return f"{value / 1e9:.3g} GB/s"


def count(value: int | None) -> str:
    """A count as "135 M" or "1.7 B" (thousands, millions, billions)."""
    return NOTHING if value is None else _scaled(value, ("", "K", "M", "B", "T")).strip()


def seconds(value: float | None) -> str:
    """A duration for a person who waits: "under 1 s", "42 s", "3 min 20 s", "1 h 5 min"."""
    if value is None:
        return NOTHING
    whole = round(value)
    if whole < 1:
        return "under 1 s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        rest = f" {whole % 60} s" if whole % 60 else ""
        return f"{whole // 60} min{rest}"
    rest = f" {whole % 3600 // 60} min" if whole % 3600 >= 60 else ""
    return f"{whole // 3600} h{rest}"


def short_seconds(value: float | None) -> str:
    """A measured time: "38 ms", "1.24 s"."""
    if value is None:
        return NOTHING
    return f"{_digits(value * 1000)} ms" if value < 1 else f"{_digits(value)} s"


def more_seconds(value: float) -> str:
    """A difference between two times: "+ 1.24 s", "− 38 ms"."""
    return f"{'−' if value < 0 else '+'} {short_seconds(abs(value))}"


def number(value: float | None) -> str:
    """A rate with one decimal, so that a column of them lines up; from 1,000 on without."""
    return NOTHING if value is None else f"{value:,.{0 if abs(value) >= 1000 else 1}f}"


def small(value: float | None) -> str:
    """A KL divergence: two significant digits without an exponent, "≈ 0" under a hundred-thousandth."""
    if value is None:
        return NOTHING
    if abs(value) < 1e-5:
        return "0" if value == 0 else "≈ 0"
    return f"{value:.2g}" if abs(value) >= 1e-4 else f"{value:.6f}".rstrip("0")


def floor(value: float) -> str:
    """A noise floor in nats, however small: "5.1e-08"."""
    return f"{value:.2g}"


def percent(value: float | None) -> str:
    """A share as "98.9 %"."""
    return NOTHING if value is None else f"{_digits(value * 100, 1)} %"


def times(value: float | None) -> str:
    """A ratio as "1.42×"."""
    return NOTHING if value is None else f"{value:.2f}×"


def quality_rule() -> str:
    """The rule of the quality words in one sentence."""
    rows = (
        words.QUALITY_RULE_ROW.format(word=word, most=f"{most:g}", least=percent(least)) for word, most, least in RULE
    )
    return words.QUALITY_RULE.format(rules="; ".join(rows))


def text(run: Run) -> str:
    """What quality was measured on beside the answers: "the packaged text", "your text (book.txt)"."""
    own = run.workload.text
    return words.PACKAGED_TEXT if own is None else own.called


def give_or_take(mean: float, se: float | None) -> str:
    """A small figure with its standard error: "0.0012 ± 0.0003"."""
    return small(mean) if se is None else words.GIVE_OR_TAKE.format(value=small(mean), se=small(se))


def between(found: Interval | None) -> str:
    """The ends of an interval of small figures: "0.0008 to 0.0016", empty without one."""
    if found is None or found.low is None or found.high is None:
        return ""
    return words.BETWEEN.format(low=small(found.low), high=small(found.high))


def interval(ratio: Ratio | Interval | None) -> str:
    """The 95 % interval of a ratio as "1.38 to 1.46", empty without one."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    return words.BETWEEN.format(low=f"{ratio.low:.2f}", high=f"{ratio.high:.2f}")


def span(stat: Stat) -> str:
    """The 95 % interval of a measured figure: "0.97 to 1.03", empty without one."""
    if stat.low is None or stat.high is None:
        return ""
    return words.BETWEEN.format(low=f"{stat.low:.3g}", high=f"{stat.high:.3g}")


def median(stat: Stat | None) -> float | None:
    """The middle value of a statistic, None without one."""
    return None if stat is None else stat.median


def moment(created_at: str) -> str:
    """A run's ISO time as "2026-11-30 10:00"."""
    return created_at.replace("T", " ")[:16]


def plural(amount: int, one: str, many: str) -> str:
    """ "1 variant", "4 variants"."""
    return f"{amount:,} {one if amount == 1 else many}"


def _digits(value: float, places: int = 2) -> str:
    decimals = min(places, 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float, units: tuple[str, ...]) -> str:
    step = 0
    while abs(value) >= 999.5 and step < len(units) - 1:
        value /= 1000
        step += 1
    text = f"{value:.0f}" if abs(value) >= 10 or step == 0 else f"{value:.1f}"
    return f"{text} {units[step]}"
