"""The answers to one prompt side by side: the baseline's, then each variant's with its first difference marked.

They carry what the race needs too: how far each text had come when.

Covers the common prefix, by characters, and drawing. It does not judge the texts. The race itself is assets/race.js.
"""

from __future__ import annotations

import json
from pathlib import Path

from markupsafe import Markup

from optimizers.results import Replay, Run, VariantResult
from optimizers.schema import Output
from optimizers.ui import figures, nearly, results_view, words

EMPTY = Markup("")

RACE_SCRIPT = Path(__file__).parents[2] / "assets" / "race.js"

_GRID = Markup(
    '<div class="lv-race">{bar}<section class="lv-answers" aria-label="{label}"{more}>{cards}</section></div>'
)
_NOW = Markup(
    '<section class="lv-now" aria-label="{title}"><h2>{title}</h2><p class="lv-fine">{hint}</p>{race}</section>'
)
_SCROLLS = Markup(' tabindex="0"')
_RACE_BAR = Markup(
    '<div class="lv-race-bar"><button type="button" class="lv-race-go" data-go="{go}" data-pause="{pause}" '
    'data-again="{again}">{go}</button><div class="lv-speeds" role="group" aria-label="{speed}">'
    '<button type="button" data-speed="1" aria-pressed="true">{once}</button>'
    '<button type="button" data-speed="2" aria-pressed="false">{twice}</button></div><p>{hint}</p></div>'
)
_CARD = Markup(
    '<article class="lv-answer{kind}" aria-label="{title}"{race}><header><h3>{title}</h3><code>{key}</code>'
    '<p class="lv-verdict-line">{verdict}</p></header>{clock}'
    '<div class="lv-said"><p class="lv-prose">{text}</p></div><footer>{note}</footer>{below}</article>'
)
_RACE = Markup(' data-times="{times}" data-ends="{ends}" data-text="{text}"')
_CLOCK = Markup(
    '<div class="lv-clock"><div class="lv-track"><span></span></div><p>'
    '<strong class="lv-time">{last}</strong> {note}</p></div>'
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


def side_by_side(run: Run, prompt: int, short: bool = False) -> str:
    """Every answer to `prompt`, the baseline's first, ready to be raced. Variants without answers are left out.
    `short`: without what each nearly said, and on a narrow page in one row, which then can be reached by keyboard."""
    baseline = next((variant for variant in run.variants if variant.key == run.baseline), None)
    reference = _answer(baseline, prompt) if baseline else None
    others = [variant for variant in run.variants if variant is not baseline and variant.outputs]
    cards = [_card(baseline, prompt, *_baseline_text(reference), kind=" lv-baseline")] if baseline else []
    cards += [_other_card(run, variant, prompt, reference, short) for variant in others]
    raced = sum(_replay(variant, prompt) is not None for variant in run.variants)
    return _GRID.format(
        label=words.ANSWERS,
        cards=EMPTY.join(cards),
        bar=_race_bar() if raced > 1 else EMPTY,
        more=_SCROLLS if short else EMPTY,
    )


def race_now(run: Run) -> str:
    """The race of the first prompt that every variant with figures has answered, while the run goes on; empty where
    there is none yet."""
    asked = [variant for variant in run.variants if variant.latency]
    prompts = range(len(run.workload.prompts)) if len(asked) > 1 else ()
    prompt = next((place for place in prompts if all(_replay(variant, place) for variant in asked)), None)
    if prompt is None:
        return ""
    title = words.RACE_NOW.format(prompt=_one_line(run.workload.prompts[prompt]))
    return _NOW.format(title=title, hint=words.RACE_NOW_HINT, race=Markup(side_by_side(run, prompt)))


def _race_bar() -> Markup:
    return _RACE_BAR.format(
        go=words.RACE,
        pause=words.RACE_PAUSE,
        again=words.RACE_AGAIN,
        speed=words.RACE_SPEED,
        once=words.RACE_ONCE,
        twice=words.RACE_TWICE,
        hint=words.RACE_HINT,
    )


def _answer(variant: VariantResult, prompt: int) -> Output | None:
    return next((output for output in variant.outputs if output.prompt == prompt), None)


def _replay(variant: VariantResult, prompt: int) -> Replay | None:
    """When each token of the answer came, where it is known how far the text had come with each."""
    found = next((replay for replay in variant.replays if replay.prompt == prompt), None)
    answer = _answer(variant, prompt)
    if found is None or answer is None or not 0 < len(found.token_times_s) <= len(answer.text_ends):
        return None
    return found


def _other_card(run: Run, variant: VariantResult, prompt: int, reference: Output | None, short: bool) -> Markup:
    answer, more = _answer(variant, prompt), EMPTY
    if answer and reference and answer.text != reference.text and not short:
        more = nearly.nearly(run, variant.quality, answer, reference)
    return _card(variant, prompt, *_text(answer, reference), below=more)


def _card(
    variant: VariantResult, prompt: int, text: str | Markup, note: str, kind: str = "", below: Markup = EMPTY
) -> Markup:
    answer, replay = _answer(variant, prompt), _replay(variant, prompt)
    race = clock = EMPTY
    if answer and replay:
        times, ends = replay.token_times_s, answer.text_ends[: len(replay.token_times_s)]
        race = _RACE.format(times=json.dumps(times), ends=json.dumps(ends), text=answer.text)
        tokens = figures.plural(len(times), "token", "tokens")
        first = words.RACE_CLOCK.format(tokens=tokens, first=figures.short_seconds(times[0]))
        clock = _CLOCK.format(last=f"{times[-1]:.2f} s", note=first)
    return _CARD.format(
        kind=kind,
        title=variant.title,
        key=variant.key,
        verdict=_verdict(variant),
        text=text,
        note=note,
        race=race,
        clock=clock,
        below=below,
    )


def _verdict(variant: VariantResult) -> Markup:
    """How fast it is against the baseline, in a word and a figure."""
    ratio = variant.decode_ratio
    if ratio is None:
        return EMPTY
    against = "" if ratio.verdict == "baseline" else figures.times(ratio.ratio)
    return Markup("{} {}").format(results_view.verdict(ratio), against)


def _baseline_text(answer: Output | None) -> tuple[str, str]:
    return words.NO_ANSWER if answer is None else answer.text or words.EMPTY_ANSWER, words.BASELINE_LABEL


def _text(answer: Output | None, reference: Output | None) -> tuple[str | Markup, str]:
    """The text of a variant's answer as it is drawn beside the baseline's, and the note below it."""
    if answer is None or reference is None:
        return (answer.text if answer else "") or words.NO_ANSWER, ""
    if answer.text == reference.text:
        return Markup('<span class="lv-same">{}</span>').format(answer.text), words.IDENTICAL
    shared = common_prefix(answer.text, reference.text)
    body = _SPLIT.format(same=answer.text[:shared], title=words.DIVERGES, rest=answer.text[shared:])
    return body, words.LEAVES.format(characters=figures.plural(shared, "character", "characters"))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else line[:89] + "…"
