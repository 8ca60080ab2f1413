"""The race of the answers, and the choices made with one press, in a real browser over a scripted api."""

from __future__ import annotations

from browsing import READY, WHOLE_RUN_MS, compare
from playwright.sync_api import Page, expect

_WATCH_RACE = """() => { window.__finished = []; window.__seen = [];
  new MutationObserver((changes) => { for (const change of changes) {
    const card = change.target.closest?.('[data-times]');
    if (!card) { continue; }
    const name = card.querySelector('code').textContent, ghost = card.querySelector('.lv-ghost');
    if (ghost) { window.__seen.push([card.dataset.text, ghost.textContent]); }
    if (card.classList.contains('lv-finished') && !window.__finished.includes(name)) { window.__finished.push(name); }
  } }).observe(document.querySelector('#lv-answers'), {subtree: true, childList: true, attributes: true}); }"""


def test_the_race_writes_all_answers_again_together_at_the_pace_that_was_measured(
    page: Page, scripted_page: str
) -> None:
    compare(page, scripted_page)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    answers = page.locator("#lv-answers")
    expect(answers.locator(".lv-answer .lv-time")).to_have_text(["1.06 s", "1.14 s", "0.82 s"])
    expect(answers.locator(".lv-clock").first).to_contain_text("30 tokens, first after 120 ms")
    before = answers.inner_text()
    page.evaluate(_WATCH_RACE)
    answers.get_by_role("button", name="Race them").click()
    expect(answers.get_by_role("button", name="Race again")).to_be_visible()
    # 29 tokens after the first at 41.2, 30.7 and 28.4 tokens/s, each 0.12 s after the start
    assert page.evaluate("window.__finished") == ["fp32+sdpa+torchao_int8_weight_only", "fp32+sdpa", "bf16+sdpa"]
    seen = page.evaluate("window.__seen")
    assert all(text.startswith(written) for text, written in seen)
    assert len({len(written) for text, written in seen}) > 5
    assert answers.locator(".lv-ghost").count() == 0
    assert answers.inner_text() == before.replace("Race them", "Race again")
    expect(answers.locator("mark.lv-split")).to_have_count(1)


def test_answers_can_be_raced_while_the_run_goes_on(page: Page, still_page: str) -> None:
    page.goto(f"{still_page}/?run=between")
    race = page.locator("#lv-run-race")
    race.get_by_role("button", name="Race them").click()
    expect(race.get_by_role("button", name="Race again")).to_be_visible()
    expect(race.locator(".lv-finished")).to_have_count(3)


def test_a_race_can_be_held_and_run_at_twice_the_pace(page: Page, scripted_page: str) -> None:
    compare(page, scripted_page)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    answers = page.locator("#lv-answers")
    answers.get_by_role("button", name="Twice as fast").click()
    expect(answers.get_by_role("button", name="Twice as fast")).to_have_attribute("aria-pressed", "true")
    expect(answers.get_by_role("button", name="True speed")).to_have_attribute("aria-pressed", "false")
    # pressed and held in one turn of the browser: nothing has come yet, and nothing comes
    page.evaluate("() => { const go = document.querySelector('.lv-race-go'); go.click(); go.click(); }")
    written = "[...document.querySelectorAll('.lv-ghost')].map((ghost) => ghost.textContent)"
    assert page.evaluate(written) == ["", "", ""]
    page.wait_for_timeout(200)
    assert page.evaluate(written) == ["", "", ""]
    answers.get_by_role("button", name="Race them").click()
    expect(answers.get_by_role("button", name="Race again")).to_be_visible()
    page.click("#lv-prompt input")
    page.get_by_role("option").nth(1).click()
    expect(answers.get_by_role("button", name="Race them")).to_be_visible()


def test_one_press_ticks_what_its_words_say(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    planned = page.locator("#lv-planned li code")
    page.click("#lv-preset-ladder")
    expect(page.locator("#lv-ways input[value='ladder']")).to_be_checked()
    expect(page.locator("#lv-technique-compile input")).to_be_checked()
    page.click("#lv-preset-fast")
    expect(page.locator("#lv-ways input[value='alone']")).to_be_checked()
    expect(page.locator("#lv-technique-compile input")).not_to_be_checked()
    page.click("#lv-preset-cheap")
    expect(planned.last).to_contain_text("torchao_int8_weight_only")
    expect(page.locator("#lv-compare")).to_be_enabled()
    expect(page.locator("#lv-stacks textarea")).to_have_value("")
