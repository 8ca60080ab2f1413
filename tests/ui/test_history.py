"""Earlier comparisons in a real browser over a scripted api: opened from a file, deleted, and not where forbidden."""

from __future__ import annotations

from typing import Any

import pytest
from browsing import READY, WHOLE_RUN_MS
from playwright.sync_api import Page, expect

from optimizers import api
from optimizers.ui import history, words_history


def upload(page: Page, name: str, content: bytes) -> None:
    page.locator("#lv-earlier button.label-wrap").click()
    with page.expect_file_chooser() as chosen:
        page.locator("#lv-open-run").click()
    chosen.value.set_files({"name": name, "mimeType": "application/json", "buffer": content})


def test_a_run_from_a_file_is_shown_and_can_be_deleted(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    upload(page, "run.json", b'{"id": "from elsewhere"}')
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    expect(page.locator("#lv-run-table")).to_contain_text("fp32+sdpa")
    opened = page.url
    assert "?run=run-" in opened
    asked: list[str] = []
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    page.get_by_role("button", name=words_history.DELETE).click()
    page.wait_for_timeout(500)
    expect(page.locator("#lv-run-table")).to_be_visible()  # a no: nothing happens
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    page.get_by_role("button", name=words_history.DELETE).click()
    page.wait_for_selector(READY)
    assert asked == [words_history.DELETE_ASKED] * 2
    page.goto(opened)
    expect(page.locator("#lv-notice")).to_contain_text("There is no run")


def test_a_file_that_is_no_run_is_a_sentence(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    upload(page, "notes.json", b"[1, 2]")
    expect(page.locator("#lv-notice")).to_contain_text("The file is not the run.json of a comparison.")
    expect(page.locator("#lv-compare")).to_be_visible()


def test_where_the_operator_forbids_it_nothing_is_opened_or_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERS_ALLOW_HISTORY", "0")

    def never(*_: Any) -> Any:
        raise AssertionError("the run was touched")

    monkeypatch.setattr(api, "keep", never)
    monkeypatch.setattr(api, "delete", never)
    refused = history.opened(b"{}")
    assert "LEVERS_ALLOW_HISTORY=1" in refused[-1]
    refused = history.deleted("20261130-000000-00000000")
    assert "LEVERS_ALLOW_HISTORY=1" in refused[-2]


@pytest.mark.parametrize("raw", [None, 3, "text", [b"{}"]])
def test_an_upload_that_holds_no_bytes_is_a_sentence(raw: object) -> None:
    assert "not the run.json" in history.opened(raw)[-1]
