"""What a reader must know of a variant that is another model: caveats, each with its remedy.

Covers such variants alone; the figures are `per_byte.py`'s, the other caveats are in `caveats.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizers.analysis.per_byte import paths_apart
from optimizers.quality import PerByte
from optimizers.results import Caveat, VariantResult
from optimizers.schema import Measurement
from optimizers.scores import OwnText

LIKE_TOKENS = 0.02
NO_REMEDY = "Nothing needs doing; read the figures with it in mind."


def caveats(
    results: Sequence[VariantResult],
    measurements: Sequence[Measurement],
    baseline: str,
    own_text: OwnText | None = None,
) -> Iterator[Caveat]:
    """The caveats of every measured variant that is another model than the run's. `own_text` is what they were scored
    on, None for the packaged text."""
    what = own_text.called if own_text else "the text"
    by_key = {item.variant: item for item in measurements}
    base = by_key.get(baseline)
    for result in results:
        if result.model is None or result.status != "measured":
            continue
        found = result.quality.per_byte if result.quality else None
        yield _another(result, found, own_text.called if own_text else "text")
        if found is not None:
            yield from _of_figures(result.key, found, what)
        apart = paths_apart(by_key[result.key], base) if base and result.key in by_key else None
        if apart is not None:
            text = (
                f"{result.key} foretells {what} otherwise in one pass than step by step, as answers are made "
                f"({apart:.2g} nats a byte apart); the latter is shown, on one stretch."
            )
            yield Caveat("per_byte_paths", text, NO_REMEDY, result.key)


def _another(result: VariantResult, found: PerByte | None, what: str) -> Caveat:
    model = result.model.id if result.model else ""
    lead = f"This is another model ({model})"
    if found is None:
        text = f"{lead}, and its quality could not be measured: the text could not be scored by its bytes."
        return Caveat("another_model", text, "Read its answers, and judge it by a test of your own.", result.key)
    figures = (
        f"perplexity per byte {found.perplexity:.3f} against {found.baseline_perplexity:.3f}, on the same "
        f"{found.bytes} bytes of {what}"
    )
    if found.same_tokenizer:
        text = f"{lead}: its KL divergence says how unlike the baseline it is, not how good it is; {figures}."
    else:
        text = f"{lead} with tokens of its own: it is judged by {figures}, not by KL divergence."
    return Caveat("another_model", text, "Judge it by perplexity per byte and by reading its answers.", result.key)


def _of_figures(key: str, found: PerByte, what: str) -> Iterator[Caveat]:
    ours, theirs = found.bytes / found.tokens, found.bytes / found.baseline_tokens
    if abs(ours / theirs - 1) > LIKE_TOKENS:
        text = (
            f"A token of {key} holds {ours:.2f} bytes of {what} on average, one of the baseline's {theirs:.2f}: at "
            f"equal tokens per second it writes {ours / theirs:.2f}x the text."
        )
        yield Caveat("other_tokens", text, "Multiply its speed by that to compare text with text.", key)
    if not found.spelled:
        text = f"Tokens do not spell {what} out for {key} or the baseline (unknown words, folded letters), which "
        yield Caveat("not_spelled", f"{text}flatters that perplexity per byte.", "Do not judge by that figure.", key)
    if found.left_out:
        text = f"{key} could not score {found.left_out} stretches of {what}, which are left out on both sides."
        yield Caveat("stretches_left_out", text, NO_REMEDY, key)
