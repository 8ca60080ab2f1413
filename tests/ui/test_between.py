"""Two runs side by side in a real browser over a scripted api, and what a hostile run cannot do there."""

from __future__ import annotations

from dataclasses import replace

from browsing import WHOLE_RUN_MS, compare
from playwright.sync_api import Page, expect
from scripted import Script
from scripted_records import HOSTILE

from optimizers.ui import between, words_history


def test_a_run_is_held_against_an_earlier_one(page: Page, scripted_page: str) -> None:
    for _ in range(2):
        compare(page, scripted_page)
        page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    page.get_by_role("button", name=words_history.BETWEEN).click()
    page.get_by_label(words_history.BETWEEN_PICK).click()
    page.get_by_role("option").first.click()
    shown = page.locator("#lv-between-shown")
    expect(shown).to_contain_text(words_history.NOTHING_DIFFERS)
    expect(shown.locator("tbody tr").first).to_contain_text("fp32+sdpa")
    expect(shown.locator("tbody tr").first).to_contain_text("within noise")


def test_the_first_run_of_all_has_none_beside_it() -> None:
    dropdown, said = between.offered("")
    assert (dropdown.choices, said) == ([], "")
    assert words_history.BETWEEN_NONE in between.offered("20261130-000000-00000000")[1]


def test_what_cannot_be_read_is_a_sentence() -> None:
    assert "There is no run" in between.shown("20261130-000000-00000000", "20261130-000000-00000001")
    assert between.shown("20261130-000000-00000000", None) == ""


def test_names_from_a_run_are_text() -> None:
    run = Script().run("run-1", "done")
    machine = replace(run.machine, cpu=HOSTILE, packages={HOSTILE: HOSTILE})
    titled = tuple(replace(variant, title=HOSTILE, key=HOSTILE) for variant in run.variants)
    html = between.side_by_side(run, replace(run, machine=machine, created_at=HOSTILE, variants=titled))
    assert HOSTILE[:40] not in html
    assert "<script" not in html and "<img" not in html and "<svg" not in html
