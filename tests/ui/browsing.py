"""What the browser tests do with a page before they look at it."""

from __future__ import annotations

from playwright.sync_api import Page

READY = "#lv-compare:not([disabled])"
WHOLE_RUN_MS = 120_000


def compare(page: Page, address: str) -> None:
    """Opens the page and presses Compare; the lanes are there afterwards."""
    page.goto(address)
    page.wait_for_selector(READY)
    page.click("#lv-compare")
    page.wait_for_selector(".lv-lane")
