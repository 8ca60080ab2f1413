"""What to use, in a sentence, for a reader who may wish for memory or quality.

The rule, in order, among the variants that keep to the wish (peak memory at most, quality word at least): the fastest
whose verdict on decoding is "faster"; else the smallest that saves a tenth of the weights at indistinguishable quality,
or where the baseline takes more memory than wished for the smallest at all; else the baseline where it keeps to the
wish, once at least one verdict was reached. With nothing to go by there is none. Without a wish of the reader's quality
is at least "slight". The quality words are those of `quality_words.py`. 4-bit quality on a checkpoint that was 4-bit
before is never used without saying so. Another model whose answers cannot be compared has no such word: it is never
recommended, and what it gives and costs is told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from optimizers.analysis.quality_words import QUALITY_WORDS, QualityWord, quality_word
from optimizers.results import Recommendation, VariantResult

WORTHWHILE_BYTES = 0.9
_SETTLED = ("faster", "slower", "within noise")
_SAID: dict[QualityWord, str] = {
    "indistinguishable": "indistinguishable",
    "slight": "slightly different",
    "noticeable": "noticeably different",
    "broken": "broken",
}


@dataclass(frozen=True)
class Wish:
    """What a variant must keep to: bytes of its process at most while it answers (None: any), and a quality word."""

    run_peak_bytes: int | None = None
    quality: QualityWord = "slight"

    def met_by(self, item: VariantResult, baseline: str) -> bool:
        """Whether a measured variant keeps to it; one whose memory is not known keeps to no limit."""
        word = "indistinguishable" if item.key == baseline else word_of(item)
        good = word is not None and QUALITY_WORDS.index(word) <= QUALITY_WORDS.index(self.quality)
        peak = peak_bytes(item)
        return good and (self.run_peak_bytes is None or (peak is not None and peak <= self.run_peak_bytes))


NO_WISH = Wish()


def word_of(result: VariantResult) -> QualityWord | None:
    """The quality word of a measured variant's answers; None when they were not scored."""
    quality = result.quality
    if quality is None:
        return None
    kl, top = quality.kl_divergence, quality.same_top
    return quality_word(kl.mean if kl else None, top.rate if top else None)


def peak_bytes(result: VariantResult) -> int | None:
    """What a variant's process takes at most while it answers, in bytes; None where that is not measured."""
    return result.memory.run_peak_bytes if result.memory else None


def recommend(
    variants: Sequence[VariantResult], baseline: str, low_bit_grid: str | None, wish: Wish = NO_WISH
) -> Recommendation | None:
    """The recommendation that the measured variants support, None when they support none. `low_bit_grid` is what the
    run's own checkpoint says of weights that were stored in few bits before."""
    measured = [item for item in variants if item.status == "measured"]
    others = [item for item in measured if item.key != baseline]
    fitting = [item for item in others if wish.met_by(item, baseline)]
    base = next((item for item in measured if item.key == baseline), None)
    base_fits = base is not None and wish.met_by(base, baseline)
    apart = _apart(item for item in others if not replace(wish, run_peak_bytes=None).met_by(item, baseline))
    found = _fastest(fitting, low_bit_grid) or _smallest(fitting, low_bit_grid, base_fits)
    if found is None and base is not None and base_fits and any(_verdict(item) in _SETTLED for item in others):
        found = _stay(base, bool(apart), wish)
    return replace(found, condition=f"{found.condition} {apart}".strip()) if found else None


def _stay(base: VariantResult, apart: bool, wish: Wish) -> Recommendation:
    acceptable = "acceptable" if wish == NO_WISH else "the wished-for"
    return Recommendation(
        key=base.key,
        text=f"Stay with {base.title}.",
        reason=(
            f"No variant{' of the same model' if apart else ''} was faster with {acceptable} quality, and none saved "
            "memory with indistinguishable quality."
        ),
        condition=_condition(base, None),
    )


def _apart(unlike: Iterable[VariantResult]) -> str:
    """What the other models gave and cost, for the reader to weigh; empty without any."""
    said = []
    for item in unlike:
        by_bytes = item.quality.per_byte if item.quality else None
        if item.model is not None and by_bytes is not None:
            said.append(
                f"{item.title} is another model, to be weighed by its answers: {_told_speed(item)}, "
                f"{_saving(item):.2f}x the bytes of weights, {by_bytes.ratio.value:.2f}x the perplexity per byte."
            )
    return " ".join(said)


def _told_speed(item: VariantResult) -> str:
    decode = item.decode_ratio
    return f"{decode.ratio:.2f}x the speed ({decode.verdict})" if decode else "a speed that was not measured"


def _fastest(fitting: Sequence[VariantResult], low_bit_grid: str | None) -> Recommendation | None:
    fast = sorted((item for item in fitting if _verdict(item) == "faster"), key=_speed, reverse=True)
    if not fast:
        return None
    item = fast[0]
    alike = next((other for other in fast if word_of(other) == "indistinguishable"), None)
    instead = ""
    if alike is not None and alike.key != item.key:
        instead = f" If answers must not change, {alike.title}: {_speed(alike):.2f}x{_interval(alike)}."
    return Recommendation(
        key=item.key,
        text=f"Use {item.title}.",
        reason=(
            f"It decodes {_speed(item):.2f}x as fast as the baseline{_interval(item)}{_bytes(item)}, and its quality "
            f"is {_words(item)}.{instead}"
        ),
        condition=_condition(item, low_bit_grid),
    )


def _smallest(fitting: Sequence[VariantResult], low_bit_grid: str | None, base_fits: bool) -> Recommendation | None:
    small = [
        item
        for item in fitting
        if not base_fits or (_saving(item) <= WORTHWHILE_BYTES and word_of(item) == "indistinguishable")
    ]
    if not small:
        return None
    item = min(small, key=_saving)
    speed = {
        "slower": f"it decodes at {_speed(item):.2f}x the baseline's speed",
        "within noise": "its speed is the baseline's within the noise",
    }.get(_verdict(item) or "", "its speed has too few rounds for a verdict")
    return Recommendation(
        key=item.key,
        text=f"Use {item.title} where memory is what you lack.",
        reason=(
            f"Its weights take {_saving(item):.2f}x the baseline's bytes and its quality is {_words(item)}; {speed}."
        ),
        condition=_condition(item, low_bit_grid),
    )


def _condition(item: VariantResult, low_bit_grid: str | None) -> str:
    said = "This holds for this model, these prompts, this machine and one user at a time."
    grid = item.model.low_bit_grid if item.model else low_bit_grid
    return f"{said} Do not go by its 4-bit quality here. {grid}" if item.four_bit and grid else said


def _words(item: VariantResult) -> str:
    if item.quality is not None and item.quality.within_noise:
        return "the baseline's own within the noise of the numerics"
    word = word_of(item)
    return _SAID[word] if word else "not known"


def _verdict(item: VariantResult) -> str | None:
    decode = item.decode_ratio
    return decode.verdict if decode else None


def _speed(item: VariantResult) -> float:
    decode = item.decode_ratio
    return decode.ratio if decode else 0.0


def _interval(item: VariantResult) -> str:
    decode = item.decode_ratio
    if decode is None or decode.low is None or decode.high is None:
        return ""
    return f" [{decode.low:.2f} to {decode.high:.2f}]"


def _bytes(item: VariantResult) -> str:
    ratio = item.versus_baseline.weights_bytes if item.versus_baseline else None
    return "" if ratio is None or 0.95 < ratio < 1.05 else f", with {ratio:.2f}x its bytes of weights"


def _saving(item: VariantResult) -> float:
    ratio = item.versus_baseline.weights_bytes if item.versus_baseline else None
    return 1.0 if ratio is None else ratio
