"""The one sentence for the reader who wants to know what to use.

The rule, in order: the fastest variant whose verdict on decoding is "faster" with indistinguishable or slightly
different quality; else the smallest variant that saves a tenth of the weights at indistinguishable quality; else the
baseline, once at least one verdict was reached. With nothing to go by there is none. The quality words are those of
`quality_words.py`. 4-bit quality on a checkpoint that was 4-bit before is never used without saying so. Another model
whose answers cannot be compared has no such word: it is never recommended, and what it gives and costs is told apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizers.analysis.quality_words import ACCEPTABLE, QualityWord, quality_word
from optimizers.results import Recommendation, VariantResult
from optimizers.schema import Checkpoint

WORTHWHILE_BYTES = 0.9
_SETTLED = ("faster", "slower", "within noise")


def word_of(result: VariantResult) -> QualityWord | None:
    """The quality word of a measured variant's answers; None when they were not scored."""
    quality = result.quality
    if quality is None:
        return None
    kl, top = quality.kl_divergence, quality.same_top
    return quality_word(kl.mean if kl else None, top.rate if top else None)


def recommend(variants: Sequence[VariantResult], baseline: str, checkpoint: Checkpoint) -> Recommendation | None:
    """The recommendation that the measured variants support, None when they support none."""
    measured = [item for item in variants if item.status == "measured"]
    others = [item for item in measured if item.key != baseline]
    fast = [item for item in others if _verdict(item) == "faster" and word_of(item) in ACCEPTABLE]
    apart = _apart(others)
    if fast:
        return _fastest(max(fast, key=_speed), checkpoint, apart)
    small = [item for item in others if _saving(item) <= WORTHWHILE_BYTES and word_of(item) == "indistinguishable"]
    if small:
        return _smallest(min(small, key=_saving), checkpoint, apart)
    base = next((item for item in measured if item.key == baseline), None)
    if base is None or not any(_verdict(item) in _SETTLED for item in others):
        return None
    return Recommendation(
        key=base.key,
        text=f"Stay with {base.title}.",
        reason=(
            f"No variant{' of the same model' if apart else ''} was faster with acceptable quality, and none saved "
            "memory with indistinguishable quality."
        ),
        condition=_condition(base, checkpoint, apart),
    )


def _apart(others: Sequence[VariantResult]) -> str:
    """What the other models gave and cost, for the reader to weigh; empty without any."""
    said = []
    for item in others:
        by_bytes = item.quality.per_byte if item.quality else None
        if item.model is not None and by_bytes is not None and word_of(item) not in ACCEPTABLE:
            said.append(
                f"{item.title} is another model, to be weighed by its answers: {_told_speed(item)}, "
                f"{_saving(item):.2f}x the bytes of weights, {by_bytes.ratio.value:.2f}x the perplexity per byte."
            )
    return " ".join(said)


def _told_speed(item: VariantResult) -> str:
    decode = item.versus_baseline.decode if item.versus_baseline else None
    return f"{decode.ratio:.2f}x the speed ({decode.verdict})" if decode else "a speed that was not measured"


def _fastest(item: VariantResult, checkpoint: Checkpoint, apart: str) -> Recommendation:
    return Recommendation(
        key=item.key,
        text=f"Use {item.title}.",
        reason=f"It decodes {_speed(item):.2f}x as fast as the baseline, and its quality is {_words(item)}.",
        condition=_condition(item, checkpoint, apart),
    )


def _smallest(item: VariantResult, checkpoint: Checkpoint, apart: str) -> Recommendation:
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
        condition=_condition(item, checkpoint, apart),
    )


def _condition(item: VariantResult, checkpoint: Checkpoint, apart: str) -> str:
    parts = ["This holds for this model, these prompts and this machine."]
    grid = item.model.low_bit_grid if item.model else checkpoint.low_bit_grid
    if item.four_bit and grid:
        parts.append(f"Do not go by its 4-bit quality here. {grid}")
    return " ".join([*parts, apart]).strip()


def _words(item: VariantResult) -> str:
    if item.quality is not None and item.quality.within_noise:
        return "the baseline's own within the noise of the numerics"
    return {"indistinguishable": "indistinguishable", "slight": "slightly different"}[word_of(item) or ""]


def _verdict(item: VariantResult) -> str | None:
    decode = item.versus_baseline.decode if item.versus_baseline else None
    return decode.verdict if decode else None


def _speed(item: VariantResult) -> float:
    decode = item.versus_baseline.decode if item.versus_baseline else None
    return decode.ratio if decode else 0.0


def _saving(item: VariantResult) -> float:
    ratio = item.versus_baseline.weights_bytes if item.versus_baseline else None
    return 1.0 if ratio is None else ratio
