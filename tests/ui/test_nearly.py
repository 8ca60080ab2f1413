"""What both sides nearly said, below an answer: how a token is made visible, what a file that is not to be trusted may
hold, and the table in a real browser over a scripted api and over a real comparison of tiny checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
from browsing import READY, WHOLE_RUN_MS, compare
from playwright.sync_api import BrowserContext, Page, expect
from scripted import Script
from serving import Served

from optimizers.quality import Divergence, NearMiss, Quality
from optimizers.results import NoiseFloor, Run, VariantResult
from optimizers.schema import from_json, to_json
from optimizers.scores import Candidate, Disagreement
from optimizers.ui import nearly, texts

OUTSIDE = "#lv-answers .lv-nearly"


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" the", "␣the"),
        ("a  b", "a␣␣b"),
        ("\n\n", "⏎⏎"),
        ("\t", "⇥"),
        ("\r", "⟨U+000D⟩"),
        ("", "⟨no text⟩"),
        ("\ufffd", "⟨part of a character⟩"),
        (" \ufffd\ufffd", "␣⟨part of a character⟩"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("\u2066\u200b\u00a0\u2028", "⟨U+2066⟩⟨U+200B⟩⟨U+00A0⟩⟨U+2028⟩"),
        ("\x1b[31m", "⟨U+001B⟩[31m"),
        ("\u0301", "◌\u0301"),
        ("中", "中"),
        ("<|end|>", "<|end|>"),
        ("x" * 24, "x" * 24),
        ("x" * 100_000, "x" * 23 + "…"),
    ],
)
def test_all_of_a_token_can_be_seen(token: str, shown: str) -> None:
    assert nearly.visible(token) == shown


def third(run: Run) -> VariantResult:
    variant = run.variants[2]
    assert variant.quality is not None
    return variant


def drawn(run: Run, prompt: int = 0, **changes: Any) -> str:
    """What is below the third variant's answer; `changes` are its quality's."""
    variant = third(run)
    assert variant.quality is not None
    answer, reference = variant.outputs[prompt], run.variants[0].outputs[prompt]
    return nearly.nearly(run, replace(variant.quality, **changes), answer, reference)


def test_the_table_has_both_sides_with_their_shares_and_a_near_tie_with_its_rule() -> None:
    run = Script().run("run-1", "done")
    html = drawn(run)
    assert html.count('<th scope="row">') == 5
    for part in ("␣Rayleigh", "␣the", "41 %", "39.7 %", "44 %", "&lt; 0.1 %", "width:41.0%", "⟨U+202E⟩gnp"):
        assert part in html
    assert "<td>–</td>" in html  # the variant has four candidates
    assert "less than 2 percentage points apart." in html
    noisy = replace(run, noise_floor=NoiseFloor(0.1, 0.1, 0.00125))
    assert "less than 5 percentage points apart, which the noise of its numerics can move." in drawn(noisy)
    assert "near tie" not in drawn(run, 1)
    assert drawn(run, 2) == '<div class="lv-nearly"><p>It was timed another way than it was scored.</p></div>'


def test_the_end_of_an_answer_is_named_as_that() -> None:
    run = Script().run("run-1", "done")
    variant, base = third(run), run.variants[0]
    shorter = replace(variant.outputs[0], token_ids=tuple(range(9)))  # nine tokens, and they part after them
    html = nearly.nearly(run, variant.quality, shorter, base.outputs[0])
    assert html.count("⟨end of the answer⟩") == 1
    assert html.index("␣Rayleigh") < html.index("⟨end of the answer⟩") < html.index("␣the")
    cut = replace(shorter, stopped=False)
    assert "end of the answer" not in nearly.nearly(run, variant.quality, cut, base.outputs[0])


def test_an_older_run_shows_its_candidates_and_says_no_more() -> None:
    run = Script().run("run-1", "done")
    data = json.loads(to_json(run))
    for variant in data["variants"]:
        if variant["quality"]:
            del variant["quality"]["near_misses"]
    older = from_json(Run, json.dumps(data))
    html = texts.side_by_side(older, 0)
    assert html.count("<table>") == 1
    assert "near tie" not in html
    assert "lv-nearly" not in texts.side_by_side(older, 2)
    assert "lv-nearly" not in texts.side_by_side(run, 0, short=True)


def _side(token: str, probability: float = 0.5, count: int = 1) -> tuple[Candidate, ...]:
    return (Candidate(token, probability),) * count


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (Disagreement(9, _side("a", float("nan")), _side("b")), 0),
        (Disagreement(9, _side("a", -1), _side("b")), 0),
        (Disagreement(9, (), _side("b")), 0),
        (Disagreement(9, _side("x" * 10**6, count=1000), _side("b", count=1000)), 5),
    ],
)
def test_what_a_file_from_elsewhere_may_hold_is_left_out_or_cut(found: Disagreement, shown: int) -> None:
    html = drawn(Script().run("run-1", "done"), first_divergence=(Divergence(0, 9, found),), near_misses=())
    assert html.count('<th scope="row">') == shown
    assert len(html) < 10_000
    long = (NearMiss(0, None, "y" * 10**6),)
    assert len(drawn(Script().run("run-1", "done"), first_divergence=(), near_misses=long)) < 1000


def test_no_quality_and_no_difference_have_nothing_below() -> None:
    run = Script().run("run-1", "done")
    assert nearly.nearly(run, None, third(run).outputs[0], run.variants[0].outputs[0]) == ""
    assert drawn(run, first_divergence=(), near_misses=()) == ""
    (first, second, *rest) = run.variants
    quality: Quality | None = third(run).quality
    alike = replace(run, variants=(first, replace(second, quality=quality), *rest))
    assert texts.side_by_side(alike, 0).count("lv-nearly") == 1  # the second reads like the baseline


def test_hostile_tokens_are_text() -> None:
    html = drawn(Script(hostile=True).run("run-1", "done"))
    assert "&lt;img␣src=x␣onerror=" in html
    assert "<img" not in html


def test_the_table_is_below_the_answer_that_differs(page: Page, scripted_page: str) -> None:
    compare(page, scripted_page)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    below = page.locator(OUTSIDE)
    expect(below).to_have_count(1)
    table = (
        page.locator("#lv-answers .lv-answer")
        .nth(2)
        .get_by_role("table", name="At the mark: what each said, and what it nearly said instead")
    )
    expect(table.get_by_role("columnheader")).to_have_text(["Place", "Baseline", "This variant"])
    expect(table.get_by_role("row").nth(1).get_by_role("cell")).to_have_text(["␣Rayleigh41 %", "␣the44 %"])
    expect(table.get_by_role("rowheader")).to_have_text(["1", "2", "3", "4", "5"])
    expect(below).to_contain_text("A near tie: to the baseline, what the two said lies less than 2 percentage points")
    page.click("#lv-prompt input")
    page.get_by_role("option").nth(2).click()
    expect(below).to_have_text("It was timed another way than it was scored.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_reads_well_in_both_themes(context: BrowserContext, scheme: Any, hostile_page: str) -> None:
    page = context.new_page()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    compare(page, hostile_page)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    below = page.locator(OUTSIDE)
    below.scroll_into_view_if_needed()
    expect(below).to_contain_text("<img␣src=x␣onerror=")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    inside = f"[...document.querySelectorAll('{OUTSIDE} td')].every((cell) => cell.scrollWidth <= cell.clientWidth + 1)"
    assert page.evaluate(inside)
    assert page.evaluate("window.__pwned") is None
    parts = ("code", "caption", ".lv-odds", "p", "thead th")
    assert min(page.evaluate(_CONTRAST, f"{OUTSIDE} {part}") for part in parts) >= 4.5
    assert page.evaluate(_WIDTHS) == pytest.approx([0.41, 0.44], abs=0.02)
    tracks = f"[...document.querySelectorAll('{OUTSIDE} .lv-odds-bar')].map((bar) => Math.round(bar.clientWidth))"
    assert len(set(page.evaluate(tracks))) == 1  # bars of unlike tracks cannot be compared


# The contrast of an element's text with the card that it stands on, as WCAG 2 defines it.
_CONTRAST = """(part) => {
  const light = (color) => { const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((value) => {
    const share = value / 255; return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const found = document.querySelector(part), card = found.closest('.lv-answer');
  const [one, other] = [getComputedStyle(found).color, getComputedStyle(card).backgroundColor].map(light);
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05); }"""
# Of the two bars in the first row: the share of its track that each fills.
_WIDTHS = """() => [...document.querySelectorAll('.lv-nearly tbody tr:first-child .lv-odds-bar')].map((bar) =>
  bar.firstElementChild.getBoundingClientRect().width / bar.getBoundingClientRect().width)"""


def test_a_real_comparison_shows_what_two_models_nearly_said(
    page: Page, real_page: Served, tiny_llama: Path, tmp_path: Path
) -> None:
    other = tiny.make_llama(tmp_path / "other", seed=1)
    page.goto(real_page.address)
    expect(page.locator("#lv-model input")).not_to_have_value("")
    page.fill("#lv-model input", str(tiny_llama))
    page.press("#lv-model input", "Enter")
    expect(page.locator("#lv-model-facts .lv-facts")).to_contain_text("LlamaForCausalLM")
    page.uncheck("#lv-technique-torchao_int8_weight_only input")
    page.fill("#lv-prompts textarea", "What is a mutex?")
    page.fill("#lv-tokens input", "8")
    page.fill("#lv-rounds input", "2")
    page.fill("#lv-stacks textarea", f"checkpoint={other}")
    expect(page.locator("#lv-planned")).to_contain_text("other in place of")
    expect(page.locator("#lv-estimate")).to_contain_text("1 prompt")
    page.wait_for_selector(READY)
    page.click("#lv-compare")
    page.wait_for_selector(".lv-state-done", timeout=400_000)
    card = page.locator("#lv-answers .lv-answer", has_text="checkpoint=other")
    expect(card.locator(".lv-nearly tbody tr")).to_have_count(5)
    expect(card.locator(".lv-nearly tbody tr").first.locator("td")).to_have_count(2)
