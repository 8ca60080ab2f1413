"""The headline and its two sliders: what is said where, in the markup and in a real browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect
from scripted import Script
from scripted_records import HOSTILE, measured

from optimizers.results import Run
from optimizers.ui import headline, words


def run(title: str = "Mild") -> Run:
    """A process takes 380 MB and 1.1 times the weights at most: 971.8, 820, 675.9 and 490 MB."""
    return replace(
        Script().run("run-1", "done"),
        variants=(
            measured("fp32+sdpa", "Baseline", 30.0, None, 0.0, 1.0, 538e6, "One."),
            measured("alike", "Alike", 45.0, (1.5, "faster"), 0.001, 0.99, 400e6, "One."),
            measured("mild", title, 60.0, (2.0, "faster"), 0.02, 0.95, 269e6, "Two."),
            measured("rough", "Rough", 120.0, (4.0, "faster"), 0.3, 0.7, 100e6, "Three."),
        ),
    )


def said(html: str, memory: int, quality: int) -> str:
    places = json.loads(re.search(r'data-wish="(.*?)"', html)[1].replace("&#34;", '"'))
    return re.findall(r'<p class="lv-say">(.*?)</p>', html)[places[memory][quality]]


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        (0, ["Use Rough.", "Use Rough.", words.WISH_NOTHING, words.WISH_NOTHING]),  # 490 MB
        (1, ["Use Rough.", "Use Rough.", "Use Mild.", words.WISH_NOTHING]),  # 675.9 MB
        (2, ["Use Rough.", "Use Rough.", "Use Mild.", "Use Alike."]),  # 820 MB
        (3, ["Use Rough.", "Use Rough.", "Use Mild.", "Use Alike."]),  # no limit
    ],
)
def test_each_position_of_the_sliders_has_its_sentence(memory: int, told: list[str]) -> None:
    html = str(headline.headline(run()))
    assert [said(html, memory, quality) for quality in range(4)] == told


def test_what_is_shown_first_is_the_recommendation_without_a_wish() -> None:
    html = str(headline.headline(run()))
    said_once = html.count('class="lv-advice"')
    assert html.count('lv-advice" hidden') == said_once - 1
    (first,) = re.findall(r'<div class="lv-advice">(.*?)</div>', html)
    assert "Use Mild." in first
    assert "If answers must not change, Alike: 1.50x" in first
    assert "slight is a mean KL up to 0.05 nats and the same top token at 90 % or more" in html


def test_without_a_recommendation_there_is_no_headline_and_with_one_variant_no_slider_for_memory() -> None:
    alone = replace(run(), variants=run().variants[:1])
    assert headline.headline(alone) == ""
    alike = tuple(replace(item, memory=run().variants[0].memory) for item in run().variants)
    html = str(headline.headline(replace(run(), variants=alike)))
    assert 'data-of="quality"' in html and 'data-of="memory"' not in html


def test_a_title_from_outside_is_shown_as_text() -> None:
    html = str(headline.headline(run(HOSTILE)))
    assert "<img" not in html and "<script" not in html and "&lt;img" in html


def test_the_sliders_tell_the_headline_anew(page: Page) -> None:
    page.set_content(f"<main>{headline.headline(run())}</main><script>{headline.SCRIPT.read_text()}</script>")
    shown, memory, quality = (
        page.locator(".lv-say:visible"),
        page.get_by_role("slider", name=words.WISH_MEMORY),
        page.get_by_role("slider", name=words.WISH_QUALITY),
    )
    expect(shown).to_have_text("Use Mild.")
    expect(memory).to_have_attribute("aria-valuetext", words.WISH_ANY)
    quality.press("ArrowRight")
    expect(shown).to_have_text("Use Alike.")
    expect(quality).to_have_attribute("aria-valuetext", "indistinguishable")
    memory.press("Home")
    expect(shown).to_have_text(words.WISH_NOTHING)
    expect(page.locator("[data-of=memory] b")).to_have_text("490 MB")
    quality.press("Home")
    expect(shown).to_have_text("Use Rough.")
