"""A browser, and servers of the page in processes of their own: over the real api, or over the scripted one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from serving import HERE, Served, free_port, serving

PATIENCE_MS = 120_000  # a busy machine is slow, and no test is about time
expect.set_options(timeout=PATIENCE_MS)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium. Where there is none the test is skipped, but fails where CI is set."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        reason = "No Chromium is installed; install it (Debian: apt-get install chromium) to run the browser tests."
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def _scripted(cache: Path, *flags: str) -> Iterator[str]:
    port = free_port()
    with serving([str(HERE / "serve_scripted.py"), str(port), *flags], port, cache) as served:
        yield served.address


@pytest.fixture(scope="session")
def scripted_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from _scripted(tmp_path_factory.mktemp("scripted"))


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from _scripted(tmp_path_factory.mktemp("hostile"), "--hostile")


@pytest.fixture(scope="session")
def slow_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page whose runs take a minute and hold what must not run."""
    yield from _scripted(tmp_path_factory.mktemp("slow"), "--hostile", "--seconds", "60")


@pytest.fixture(scope="session")
def still_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page with runs that stand still in each of their states."""
    yield from _scripted(tmp_path_factory.mktemp("stills"), "--stills")


@pytest.fixture
def real_page(tmp_path: Path) -> Iterator[Served]:
    port = free_port()
    with serving(["app.py"], port, tmp_path / "cache") as served:
        yield served
