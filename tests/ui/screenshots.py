"""Pictures of every state of the page, for a person to look at: `python tests/ui/screenshots.py`.

Covers scripted states at several widths in light and dark, into screenshots/, and how far things moved in each.
It judges nothing; the tests beside it do.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from browsing import READY
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from serving import HERE, ROOT, free_port, serving

WIDTHS = {390: 844, 1024: 768, 1440: 900, 1920: 1080}
THEMES = ("light", "dark")
CHARTS = "#lv-chart-quality .js-plotly-plot .main-svg"
Steps = Callable[[Page, str], None]

_SHIFT = """() => { window.__shift = 0; new PerformanceObserver((list) => { for (const entry of list.getEntries())
  if (!entry.hadRecentInput) window.__shift += entry.value; }).observe({type: 'layout-shift', buffered: true}); }"""


def first(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector(READY)


def ticked(page: Page, address: str) -> None:
    first(page, address)
    page.check("#lv-technique-eager input")
    page.check("#lv-technique-fp16 input")
    page.fill("#lv-stacks textarea", "bf16+torchao_int8_weight_only\nbnb_nf4")
    page.wait_for_selector("#lv-estimate :text('6 variants')")


def ladder_picked(page: Page, address: str) -> None:
    first(page, address)
    page.click("#lv-ways label >> text=The ladder")
    page.wait_for_selector("#lv-estimate :text('4 variants')")


def wrong_combination(page: Page, address: str) -> None:
    first(page, address)
    page.fill("#lv-stacks textarea", "bf16+eager\nbf16+nonsense")
    page.wait_for_selector("#lv-stacks-note .lv-error")


def own_text(page: Page, address: str) -> None:
    first(page, address)
    page.click("#lv-measured-on button")
    page.fill("#lv-text textarea", "Call me Ishmael. Some years ago, never mind how long precisely, I went to sea.")
    page.check("#lv-kl-terms input")
    page.wait_for_selector(READY)


def nothing_ticked(page: Page, address: str) -> None:
    first(page, address)
    page.uncheck("#lv-technique-bf16 input")
    page.uncheck("#lv-technique-torchao_int8_weight_only input")
    page.wait_for_selector("#lv-compare[disabled]")


def wrong_entry(page: Page, address: str) -> None:
    first(page, address)
    page.fill("#lv-tokens input", "100000")
    page.wait_for_selector("#lv-compare[disabled]")


def wrong_model(page: Page, address: str) -> None:
    first(page, address)
    page.fill("#lv-model input", "/no/such/folder")
    page.keyboard.press("Enter")
    page.wait_for_selector("#lv-model-facts .lv-error")


def fetching(page: Page, address: str) -> None:
    first(page, address)
    page.fill("#lv-model input", "slow/model")
    page.keyboard.press("Enter")
    page.click("#lv-fetch")
    page.wait_for_selector("#lv-model-facts :text('of 100 MB')")


def focused(page: Page, address: str) -> None:
    first(page, address)
    page.locator("#lv-technique-bf16 input").focus()
    page.keyboard.press("Tab")


def earlier(page: Page, address: str) -> None:
    first(page, address)
    page.click("#lv-earlier button")
    page.wait_for_selector(".lv-history a")


def unknown_run(page: Page, address: str) -> None:
    page.goto(f"{address}/?run=nothing-here")
    page.wait_for_selector("#lv-notice .lv-error")


def opened(run: str, waits: str) -> Steps:
    def steps(page: Page, address: str) -> None:
        page.goto(f"{address}/?run={run}")
        page.wait_for_selector(waits)

    return steps


def with_all_open(run: str) -> Steps:
    def steps(page: Page, address: str) -> None:
        opened(run, CHARTS)(page, address)
        for summary in page.locator("#lv-run summary").all():
            summary.click()

    return steps


def offline(page: Page, address: str) -> None:
    opened("streaming", ".lv-lane")(page, address)
    page.context.set_offline(True)
    page.wait_for_selector("#lv-connection")


STATES: dict[str, Steps] = {
    "first": first,
    "ticked": ticked,
    "ladder-picked": ladder_picked,
    "wrong-combination": wrong_combination,
    "own-text": own_text,
    "nothing-ticked": nothing_ticked,
    "wrong-entry": wrong_entry,
    "wrong-model": wrong_model,
    "fetching": fetching,
    "focused": focused,
    "history": earlier,
    "unknown-run": unknown_run,
    "loading": opened("loading", ".lv-lane"),
    "streaming": opened("streaming", ".lv-lane"),
    "between": opened("between", ".lv-lane"),
    "done": opened("done", CHARTS),
    "ladder": opened("ladder", CHARTS),
    "deep": with_all_open("ladder"),
    "noisy": with_all_open("noisy"),
    "stopped": opened("stopped", CHARTS),
    "failed": opened("failed", ".lv-state-failed"),
    "offline": offline,
}


def shoot(browser: Browser, address: str, state: str, width: int, theme: str, to: Path) -> float:
    """One picture of the whole page; the layout shift until then."""
    size = {"width": width, "height": WIDTHS[width]}
    context = browser.new_context(viewport=size, color_scheme="dark" if theme == "dark" else "light")
    context.add_init_script(f"({_SHIFT})()")
    page = context.new_page()
    page.set_default_timeout(240_000)
    STATES[state](page, address)
    page.wait_for_timeout(700)
    shift = float(page.evaluate("window.__shift"))
    # Not full_page: what sticks to the window's edge would stand in the middle of the picture.
    height = int(page.evaluate("Math.ceil(document.querySelector('.main.fillable').getBoundingClientRect().height)"))
    page.set_viewport_size({"width": width, "height": max(height, WIDTHS[width])})
    page.wait_for_timeout(300)
    page.screenshot(path=to / f"{state}-{width}-{theme}.png", timeout=240_000)
    context.close()
    return shift


def picture(browser: Browser, run: str, to: Path) -> None:
    """The results of a kept run, from the top of the page to its first four charts, in light."""
    port = free_port()
    with tempfile.TemporaryDirectory() as logs, serving(["app.py"], port, Path(logs), own_cache=False) as served:
        page = browser.new_page(viewport={"width": 1280, "height": 1000}, device_scale_factor=1.25)
        opened(run, CHARTS)(page, served.address)
        page.wait_for_timeout(1500)
        bottom = float(page.evaluate("document.querySelector('#lv-chart-quality').getBoundingClientRect().bottom"))
        page.set_viewport_size({"width": 1280, "height": round(bottom) + 24})
        page.wait_for_timeout(500)
        page.screenshot(path=to)
    with Image.open(to) as drawn:  # few colors are in it: a palette makes the file a third as large
        drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(to, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", help="a kept run (LEVERS_CACHE says where): its results alone, as assets/page.png")
    parser.add_argument("--only", default="", help="names of states, separated by commas")
    parser.add_argument("--widths", default="390,1024,1440")
    parser.add_argument("--themes", default="light,dark")
    parser.add_argument("--to", type=Path, default=ROOT / "screenshots")
    asked = parser.parse_args()
    asked.to.mkdir(parents=True, exist_ok=True)
    states = [name for name in STATES if not asked.only or name in asked.only.split(",")]
    port, chromium = free_port(), next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
    with tempfile.TemporaryDirectory() as cache, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        if asked.run:
            picture(browser, asked.run, ROOT / "assets" / "page.png")
            return
        with serving([str(HERE / "serve_scripted.py"), str(port), "--stills"], port, Path(cache)) as served:
            for state in states:
                for width in map(int, asked.widths.split(",")):
                    for theme in asked.themes.split(","):
                        shift = shoot(browser, served.address, state, width, theme, asked.to)
                        print(f"{state}-{width}-{theme}.png  layout shift {shift:.3f}", flush=True)  # noqa: T201
        browser.close()


if __name__ == "__main__":
    main()
