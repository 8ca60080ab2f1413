"""axe finds no violation on the page: in light and dark, wide and narrow, before, during and after a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import READY
from playwright.sync_api import Browser, Page

CHARTS = "#lv-chart-quality .js-plotly-plot .main-svg"
STATES = {"": READY, "?run=streaming": ".lv-lane", "?run=ladder": CHARTS, "?run=failed": CHARTS}


WIDTHS = (1280, 390)


@contextmanager
def opened(browser: Browser, address: str, state: str, theme: str) -> Iterator[Page]:
    context = browser.new_context(color_scheme="dark" if theme == "dark" else "light")
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(f"{address}/{state}")
    page.wait_for_selector(STATES[state])
    for summary in page.locator("summary:visible").all():
        summary.click()
    yield page
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing(browser: Browser, still_page: str, state: str, theme: str) -> None:
    with opened(browser, still_page, state, theme) as page:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(500)
            found = Axe().run(page).response["violations"]
            told = [(item["id"], node["target"], node["failureSummary"]) for item in found for node in item["nodes"]]
            assert (width, told) == (width, [])
