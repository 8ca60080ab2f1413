"""The answers to one prompt side by side: the baseline's, then each variant's with its first difference marked.

Covers the common prefix, by characters, and drawing. It does not judge the texts.
"""

from __future__ import annotations

from markupsafe import Markup

from optimizers.results import Run, VariantResult
from optimizers.ui import figures, words

EMPTY = Markup("")

_GRID = Markup('<section class="lv-answers" aria-label="{label}">{cards}</section>')
_CARD = Markup(
    '<article class="lv-answer{kind}" aria-label="{title}"><header><h3>{title}</h3><code>{key}</code></header>'
    '<p class="lv-prose">{text}</p><footer>{note}</footer></article>'
)
_SPLIT = Markup(
    '<span class="lv-same">{same}</span><mark class="lv-split" title="{title}"><span class="lv-hidden">{title}</span>'
    "</mark>{rest}"
)


def common_prefix(one: str, other: str) -> int:
    """How many characters the two texts share from the start."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def prompt_choices(run: Run) -> list[tuple[str, int]]:
    """The run's prompts as (label, index) for a list, each on one line."""
    return [(f"{i + 1}. {_one_line(prompt)}", i) for i, prompt in enumerate(run.workload.prompts)]


def side_by_side(run: Run, prompt: int) -> str:
    """Every answer to `prompt`, the baseline's first. Variants without answers are left out."""
    baseline = next((variant for variant in run.variants if variant.key == run.baseline), None)
    reference = _answer(baseline, prompt) if baseline else None
    others = [variant for variant in run.variants if variant is not baseline and variant.outputs]
    cards = [_baseline_card(baseline, reference)] if baseline else []
    cards += [_card(variant, _answer(variant, prompt), reference) for variant in others]
    return _GRID.format(label=words.ANSWERS, cards=EMPTY.join(cards))


def _answer(variant: VariantResult, prompt: int) -> str | None:
    return next((output.text for output in variant.outputs if output.prompt == prompt), None)


def _baseline_card(variant: VariantResult, text: str | None) -> Markup:
    body = words.NO_ANSWER if text is None else text or words.EMPTY_ANSWER
    return _CARD.format(kind=" lv-baseline", title=variant.title, key=variant.key, text=body, note=words.BASELINE_LABEL)


def _card(variant: VariantResult, text: str | None, reference: str | None) -> Markup:
    body: str | Markup
    if text is None or reference is None:
        body, note = text or words.NO_ANSWER, ""
    elif text == reference:
        body, note = Markup('<span class="lv-same">{}</span>').format(text), words.IDENTICAL
    else:
        shared = common_prefix(text, reference)
        body = _SPLIT.format(same=text[:shared], title=words.DIVERGES, rest=text[shared:])
        note = words.LEAVES.format(characters=figures.plural(shared, "character", "characters"))
    return _CARD.format(kind="", title=variant.title, key=variant.key, text=body, note=note)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else line[:89] + "…"
