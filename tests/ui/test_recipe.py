"""The recipes on the page: closed at first, a variant is picked, the code is copied by keyboard, all of it is text."""

from __future__ import annotations

from browsing import WHOLE_RUN_MS, compare
from playwright.sync_api import BrowserContext, Page, expect


def opened(page: Page, address: str) -> None:
    """Opens the section with recipes of a finished run."""
    compare(page, address)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    page.get_by_role("button", name="Recipe: the code to copy").click()
    expect(page.locator(".lv-recipe pre")).to_be_visible()


def test_a_variant_is_picked_and_its_code_copied_by_keyboard(context: BrowserContext, scripted_page: str) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=scripted_page)
    page = context.new_page()
    opened(page, scripted_page)
    code = page.get_by_role("region", name="Recipe of bf16+sdpa")
    expect(code).to_contain_text("dtype=torch.bfloat16")  # what is recommended comes first
    page.click("#lv-recipe-variant input")
    page.get_by_role("option").last.click()
    code = page.get_by_role("region", name="Recipe of fp32+sdpa+torchao_int8_weight_only")
    expect(code).to_contain_text("TorchAoConfig(Int8WeightOnlyConfig())")
    button = page.get_by_role("button", name="Copy the code")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".lv-recipe [role=status]")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == code.text_content()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "PRE"  # so that it can be scrolled


def test_without_a_clipboard_the_code_is_selected(page: Page, scripted_page: str) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined });")
    opened(page, scripted_page)
    page.get_by_role("button", name="Copy the code").click()
    expect(page.locator(".lv-recipe [role=status]")).to_contain_text("The code is selected")
    marked = page.evaluate("window.getSelection().toString()")
    assert marked.strip() == page.locator(".lv-recipe pre").inner_text().strip()


def test_it_fits_a_phone_and_holds_hostile_text_as_text(page: Page, hostile_page: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    opened(page, hostile_page)
    expect(page.locator(".lv-recipe code")).to_contain_text("<img src=x onerror=")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("window.__pwned") is None
    assert page.locator(".lv-recipe img, .lv-recipe svg, .lv-recipe script").count() == 0
