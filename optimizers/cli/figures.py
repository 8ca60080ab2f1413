"""Numbers and verdicts in words, and text made safe for a terminal. None is an en dash; decimal units."""

from __future__ import annotations

from optimizers.analysis.quality_words import numeric_floor
from optimizers.quality import Interval, Quality, TextQuality
from optimizers.results import MARKS, NoiseFloor, Payback, Ratio, Run, Stat
from optimizers.runners.logs import plain

NOTHING = "–"


def size(value: float | None) -> str:
    """Bytes as "269 MB"."""
    if value is None:
        return NOTHING
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} B"


def rate(stat: Stat | None) -> str:
    """Tokens per second, or joules a token, with their interval: "30.1 (29.8–30.5)"."""
    if stat is None:
        return NOTHING
    spread = "" if stat.low is None or stat.high is None else f" ({stat.low:.3g}–{stat.high:.3g})"
    return f"{stat.median:.3g}{spread}"


def ratio(value: Ratio | None) -> str:
    """A ratio with its interval, mark and word: "1.24× (1.20–1.28) ▲ faster"."""
    if value is None:
        return NOTHING
    mark = f"{MARKS[value.verdict]} {value.verdict}"
    if value.verdict == "baseline":
        return mark
    spread = "" if value.low is None or value.high is None else f" ({value.low:.2f}–{value.high:.2f})"
    return f"{value.ratio:.2f}×{spread} {mark}"


def times(value: float | None) -> str:
    """A factor as "1.42×"."""
    return NOTHING if value is None else f"{value:.2f}×"


def milliseconds(stat: Stat | None) -> str:
    """A time as "84 ms"."""
    return NOTHING if stat is None else f"{stat.median * 1000:.3g} ms"


def seconds(value: float | None) -> str:
    """A time spent once as "1.24 s"."""
    return NOTHING if value is None else f"{value:.3g} s" if value < 1000 else f"{value:.0f} s"


def payback(value: Payback | None) -> str:
    """When a variant has paid for its start: "after 1,240 tokens", "at once", "never"."""
    if value is None:
        return NOTHING
    return f"after {value.tokens:,} tokens" if value.word == "after tokens" else value.word


def small(value: float | None) -> str:
    """A KL divergence to two digits."""
    if value is None:
        return NOTHING
    return "0" if abs(value) < 1e-6 else f"{value:.2g}"


def percent(value: float | None) -> str:
    """A share as "98.9 %"."""
    return NOTHING if value is None else f"{value * 100:.1f} %"


def kl_divergence(quality: Quality | None) -> str:
    """Mean KL divergence of the answers, and whether that is noise: "0 ≈ within noise"; of a model with other tokens,
    which has none, its perplexity per byte."""
    if quality is None or quality.kl_divergence is None:
        by_bytes = quality.per_byte if quality else None
        return f"{by_bytes.ratio.value:.2f}× perplexity/byte" if by_bytes else NOTHING
    said = small(quality.kl_divergence.mean)
    return f"{said} {MARKS['within noise']} within noise" if quality.within_noise else said


def noise(floors: NoiseFloor) -> str:
    """Which differences are noise in this run, as far as that is known."""
    speeds = {"speed ratios": floors.decode, "first-token ratios": floors.ttft}
    said = [
        f"{name} between {max(0.0, 1 - floor):.2f} and {1 + floor:.2f}"
        for name, floor in speeds.items()
        if floor is not None
    ]
    numeric = numeric_floor(floors.kl_divergence)
    if numeric is not None:
        said.append(
            f"a mean KL divergence of up to {numeric:.2g} nats (the baseline's text token by token against one pass)"
        )
    return ", ".join(said)


def mean(value: float, interval: Interval | None, form: str = "{:.2g}") -> str:
    """A mean or ratio with its interval: "0.0012 (0.0008–0.0016)"."""
    said = form.format(value)
    if interval is None or interval.low is None or interval.high is None:
        return said
    return f"{said} ({form.format(interval.low)}–{form.format(interval.high)})"


def delta_p(text: TextQuality) -> str:
    """How much the probability of a text's own tokens changed: the mean with its error, then the root mean square."""
    se = "" if text.delta_p.se is None else f" ± {text.delta_p.se * 100:.2g}"
    return f"{text.delta_p.mean * 100:+.2g}{se} %, rms {text.rms_delta_p * 100:.2g} %"


def text(run: Run) -> str:
    """What quality was measured on beside the answers: "the packaged text", "your text (book.txt)"."""
    own = run.workload.text
    return "the packaged text" if own is None else one_line(own.called)


def same_top(quality: Quality | None) -> str:
    """The share of positions with the same first choice; of a model with other tokens, that it is one."""
    if quality is None or quality.same_top is None:
        return "another model" if quality and quality.per_byte else NOTHING
    return percent(quality.same_top.rate)


def duration(seconds: float | None) -> str:
    """A wait as "42 s" or "3 min 20 s"."""
    if seconds is None:
        return NOTHING
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def one_line(text: str, width: int = 200) -> str:
    """Untrusted text on one line of at most `width` characters, without escapes."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
