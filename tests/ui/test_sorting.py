"""Sorting the results by a column, in a real browser: by its head, by the list of narrow pages, back again."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from scripted import Script

from optimizers.ui import results_view, words

BASE, HALF, EIGHT = "fp32+sdpa", "bf16+sdpa", "fp32+sdpa+torchao_int8_weight_only"
UNMEASURED = ["fp32+sdpa+bnb_nf4", "fp32+eager", "fp32+sdpa+int8_dynamic"]


def shown(page: Page) -> list[str]:
    page.set_content(
        f"<main>{results_view.table(Script().run('run-1', 'done'), final=True)}</main>"
        f"<script>{results_view.SORT_SCRIPT.read_text()}</script>"
    )
    return order(page)


def order(page: Page) -> list[str]:
    return page.locator("tbody th code").all_inner_texts()


def test_a_head_sorts_by_its_column_the_better_end_first(page: Page) -> None:
    planned = shown(page)
    assert planned == [BASE, HALF, EIGHT, *UNMEASURED]
    speed, kl = (page.locator("th", has=page.get_by_role("button", name=name, exact=True)) for name in ("Speed", "KL"))
    speed.get_by_role("button").click()
    assert order(page) == [EIGHT, BASE, HALF, *UNMEASURED]  # 1.34, 1.00, 0.93
    expect(speed).to_have_attribute("aria-sort", "descending")
    speed.get_by_role("button").press("Enter")
    assert order(page) == [HALF, BASE, EIGHT, *UNMEASURED]
    expect(speed).to_have_attribute("aria-sort", "ascending")
    kl.get_by_role("button").click()
    assert order(page) == [BASE, HALF, EIGHT, *UNMEASURED]  # 0, 0.001, 0.0034
    expect(speed).to_have_attribute("aria-sort", "none")
    expect(kl).to_have_attribute("aria-sort", "ascending")
    kl.get_by_role("button").click()
    assert order(page) == [EIGHT, HALF, BASE, *UNMEASURED]
    kl.get_by_role("button").click()
    assert order(page) == planned


def test_the_list_sorts_as_the_heads_do(page: Page) -> None:
    planned = shown(page)
    chosen = page.get_by_label(words.SORT)
    chosen.select_option(label="Peak memory, lowest first")
    assert order(page) == [EIGHT, HALF, BASE, *UNMEASURED]
    page.get_by_role("button", name="Peak memory").click()
    expect(chosen.locator("option:checked")).to_have_text("Peak memory, highest first")
    chosen.select_option(label=words.SORT_PLANNED)
    assert order(page) == planned


def test_results_that_still_come_in_are_not_sorted() -> None:
    html = results_view.table(Script().run("run-1", "running"), final=False)
    assert "lv-sort" not in html and "data-first" not in html
