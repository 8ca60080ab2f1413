"""A real comparison on a tiny checkpoint through the real page: stream, reload in the middle, results."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect
from serving import Served

WHOLE_RUN_MS = 400_000


def test_a_comparison_survives_a_reload(page: Page, real_page: Served, tiny_llama: Path) -> None:
    page.goto(real_page.address)
    field = page.locator("#lv-model input")
    expect(field).not_to_have_value("")
    field.fill(str(tiny_llama))
    field.press("Enter")
    expect(page.locator("#lv-model-facts .lv-facts")).to_contain_text("LlamaForCausalLM")
    page.uncheck("#lv-technique-torchao_int8_weight_only input")
    page.check("#lv-technique-bf16 input")
    expect(page.locator("#lv-estimate")).to_contain_text("2 variants")
    page.fill("#lv-prompts textarea", "What is a mutex?")
    page.fill("#lv-tokens input", "8")
    page.fill("#lv-rounds input", "40")
    expect(page.locator("#lv-estimate")).to_contain_text("1 prompt")
    page.click("#lv-compare:not([disabled])")
    page.wait_for_url(lambda url: "run=" in url)
    page.wait_for_selector(".lv-lane .lv-text[role=group]", timeout=WHOLE_RUN_MS)
    address = page.url
    page.reload()
    page.wait_for_selector(".lv-state-running")
    assert page.url == address
    page.wait_for_selector(".lv-state-done", timeout=WHOLE_RUN_MS)
    expect(page.locator(".js-plotly-plot")).to_have_count(7, timeout=WHOLE_RUN_MS)
    rows = page.locator("#lv-run-table tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("fp32+sdpa")
    expect(rows.nth(0)).to_contain_text("baseline")
    expect(rows.nth(1)).to_contain_text("bf16+sdpa")
    expect(page.locator("#lv-answers .lv-answer")).to_have_count(2)
