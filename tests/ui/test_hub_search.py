"""The search of the hub in a real browser, over the scripted page and a hub on this machine, and without any hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import READY
from listing_hub import ListingHub, listing_hub
from playwright.sync_api import Page, expect
from scripted_records import HOSTILE
from serving import HERE, free_port, serving
from starlette.applications import Starlette
from starlette.testclient import TestClient

from optimizers.errors import HubUnreachable
from optimizers.results import Hit
from optimizers.schema import Obstacle
from optimizers.ui import hub_search, words_search

FIELD, SAID, HITS = "#lv-search-text", "#lv-search [role=status]", "#lv-search .lv-hits button"
MEMORY = "2000000000"  # 1.55 GB beside the libraries: 135 M parameters fit in 32 bits, 500 M as stored, 1.7 B do not


@pytest.fixture(scope="module")
def hub() -> Iterator[ListingHub]:
    with listing_hub() as server:
        yield server


@pytest.fixture(scope="module")
def searched_page(hub: ListingHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cache, port = tmp_path_factory.mktemp("searched"), free_port()
    more = {
        "HF_ENDPOINT": hub.address,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(cache / "hub"),
        "LEVERS_MEMORY_BYTES": MEMORY,
    }
    with serving([str(HERE / "serve_scripted.py"), str(port)], port, cache, more=more) as served:
        yield served.address


def opened(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector(READY)
    expect(page.locator(FIELD)).to_be_enabled()


def test_typing_finds_models_and_one_is_taken_by_keyboard(page: Page, searched_page: str) -> None:
    opened(page, searched_page)
    field, hits, said = page.locator(FIELD), page.locator(HITS), page.locator(SAID)
    expect(field).to_have_accessible_name("Search Hugging Face")
    expect(page.locator("#lv-take")).to_be_hidden()
    field.press_sequentially("ti")
    expect(said).to_be_empty()
    field.press_sequentially("ny")
    expect(said).to_contain_text("4 models found, the most downloaded first.")
    expect(hits).to_contain_text(
        [
            "135 M parameters, 269 MB on disk, license apache-2.0, should fit here",
            "500 M parameters, 1.0 GB on disk, license apache-2.0, should fit here as stored, not in 32 bits",
            "1.7 B parameters, 3.4 GB on disk, license <img src=x onerror=window.__pwned=1>, does not fit here",
            "size unknown, license not told",
        ]
    )
    expect(hits.nth(1)).to_contain_text("Gated: Accept its license on its page on the hub, then log in with")
    expect(hits.nth(3)).to_contain_text("Will be refused: The weights in someone/tiny-pickled are only stored as")
    assert page.evaluate("window.__pwned") is None
    field.press("ArrowDown")
    expect(hits.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(field).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(field).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(hits.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#lv-model input")).to_have_value("someone/tiny-500m")
    expect(page.locator("#lv-model-facts")).to_contain_text("someone/tiny-500m is not on this machine yet")
    expect(page.locator("#lv-fetch")).to_be_visible()
    expect(page.locator("#lv-model-note")).to_be_empty()
    expect(said).to_have_text("someone/tiny-500m is in the field above; its facts stand below.")
    expect(hits).to_have_count(0)
    expect(field).to_be_focused()
    page.click("#lv-fetch")
    page.wait_for_selector(READY)


def test_only_a_pause_in_the_typing_asks_the_hub(page: Page, searched_page: str, hub: ListingHub) -> None:
    opened(page, searched_page)
    before = len(hub.asked)
    page.evaluate(
        """() => { const field = document.getElementById('lv-search-text');
          for (const text of ['tin', 'tiny', 'tiny-1', 'tiny-13']) {
            field.value = text; field.dispatchEvent(new Event('input', {bubbles: true})); } }"""
    )
    expect(page.locator(SAID)).to_contain_text("1 model found")
    assert hub.texts()[before:] == ["tiny-13"]


def test_a_slow_answer_holds_up_nothing_and_never_replaces_a_newer_one(
    page: Page, searched_page: str, hub: ListingHub
) -> None:
    hub.delays_s = {"tiny-p": 3.0}
    opened(page, searched_page)
    page.fill(FIELD, "tiny-p")
    expect(page.locator(SAID)).to_have_text("Searching")
    page.check("#lv-technique-eager input")
    expect(page.locator("#lv-estimate")).to_contain_text("4 variants")
    while "tiny-p" not in hub.texts():
        page.wait_for_timeout(50)
    page.fill(FIELD, "tiny-5")
    expect(page.locator(SAID)).to_contain_text("1 model found")
    while "tiny-p" not in hub.answered:
        page.wait_for_timeout(50)
    page.wait_for_timeout(500)  # for an answer that came late to be shown, were it not dropped
    expect(page.locator(HITS)).to_have_count(1)
    expect(page.locator(HITS)).to_contain_text("someone/tiny-500m")


def test_what_the_hub_does_wrong_is_said_and_the_next_search_works(
    page: Page, searched_page: str, hub: ListingHub
) -> None:
    opened(page, searched_page)
    hub.delays_s = {"tiny-s": 3.0}
    page.fill(FIELD, "tiny-s")
    expect(page.locator(SAID)).to_contain_text("cannot be searched (no answer from")
    hub.answer = 200, b"<html>no</html>"
    page.fill(FIELD, "tiny-g")
    expect(page.locator(SAID)).to_have_text(
        "The hub's answer to the search cannot be read. Every model in the list works without it."
    )
    hub.answer = None
    page.fill(FIELD, "no such name")
    expect(page.locator(SAID)).to_have_text("No language model on the hub has “no such name” in its name.")
    page.fill(FIELD, "tiny-1")
    expect(page.locator(HITS)).to_have_count(2)
    page.route(re.compile("/levers/search"), lambda route: route.fulfill(status=500))
    page.fill(FIELD, "tiny-17")
    expect(page.locator(SAID)).to_have_text("The search got no answer. Type on to try again.")


def test_the_models_found_fit_a_phone(page: Page, searched_page: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, searched_page)
    page.fill(FIELD, "tiny")
    expect(page.locator(HITS)).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_a_hub_the_page_says_so_and_works(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    expect(page.locator(SAID)).to_have_text(
        "The Hugging Face hub cannot be searched (HF_HUB_OFFLINE is set). Every model in the list works without it."
    )
    expect(page.locator(FIELD)).to_be_disabled()
    page.click("#lv-compare")
    page.wait_for_selector(".lv-lane")


def answered(monkeypatch: pytest.MonkeyPatch, found: object, query: str) -> Any:
    """What the route says when `api.search` finds this, or raises it; `asked` holds the texts it was given."""
    asked: list[str] = []

    def search(text: str) -> object:
        asked.append(text)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr("optimizers.api.search", search)
    said = TestClient(Starlette(routes=[hub_search.ROUTE])).get(f"/levers/search{query}").json()
    return {**said, "asked": asked}


def test_nothing_from_the_hub_reaches_the_markup_unescaped(monkeypatch: pytest.MonkeyPatch) -> None:
    hit = Hit(HOSTILE, 5, 10, HOSTILE, True, Obstacle(HOSTILE, HOSTILE), "fits")
    html = answered(monkeypatch, (hit,), "?text=abc")["hits"]
    assert "<img" not in html and "<script" not in html
    assert html.count("&lt;img src=x") == 4  # the name as value and as text, the license, the reason


def test_a_direct_call_is_answered_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, (), "")["hits"] == ""
    assert answered(monkeypatch, (), "?text=" + "x" * 5000)["asked"] == ["x" * 96]
    said = answered(monkeypatch, HubUnreachable("It is gone.", "Wait."), "?text=abc")
    assert (said["hits"], said["said"]) == ("", "It is gone. Wait.")


def test_what_was_taken_becomes_the_model_unless_it_is_no_name() -> None:
    assert hub_search.taken("owner/name") == ("owner/name", "")
    for wrong in (None, "", 3, ["a"], "x" * 2000):
        assert all(isinstance(update, dict) for update in hub_search.taken(wrong))


def test_every_fit_has_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for fit, words in words_search.FITS.items():
        html = answered(monkeypatch, (Hit("a/b", 5, 10, fit=fit),), "?text=abc")["hits"]
        assert html.count("<span>5 parameters, 10 B on disk, license not told" + (f", {words}" if words else "")) == 1
