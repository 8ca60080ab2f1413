"""What a page asks for while turns are timed: how little, how often, and that it is put in place as it should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from browsing import READY
from playwright.sync_api import Page, expect
from scripted_records import HOSTILE
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from optimizers.results import Lane, LiveRun
from optimizers.ui import glimpse, lanes
from optimizers.ui.early import Early

PAGE = "<html><head><script>theirs</script></head><body><head></body></html>"


def live(*, version: int = 7, **changes: Any) -> LiveRun:
    lane = Lane("a", "A", "ready", "", "word", 0, 12.0, 1, 6, True)
    return replace(LiveRun("run-1", version, "running", "round 1 of 6", 0.1, 30.0, (lane,), None), **changes)


def asked(monkeypatch: pytest.MonkeyPatch, moment: LiveRun, query: str = "", run: str = "run-1") -> Any:
    monkeypatch.setattr("optimizers.api.watch", lambda run_id: moment)
    return TestClient(Starlette(routes=[glimpse.ROUTE])).get(f"/levers/glimpse/{run}{query}")


def test_it_holds_the_headline_and_the_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    said = asked(monkeypatch, live()).json()
    assert said["seen"] == "7"
    assert "Round 1 of 6" in said["head"]
    assert said["lanes"] == lanes.lanes(live())


def test_a_moment_that_was_seen_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = asked(monkeypatch, live()).json()["whole"]
    assert asked(monkeypatch, live(), "?seen=7").json() == {"seen": "7", "whole": whole}
    assert "lanes" in asked(monkeypatch, live(version=8), "?seen=7").json()


def test_the_whole_changes_with_the_round_with_a_variant_s_state_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lane = live().lanes[0]
    moments = [
        live(),
        live(stage="round 2 of 6"),
        live(lanes=(replace(lane, status="failed"),)),
        live(status="done"),
    ]
    assert len({asked(monkeypatch, moment).json()["whole"] for moment in moments}) == 4
    later = live(version=9, lanes=(replace(lane, text="word by word", tokens_per_s=13.0),))
    assert asked(monkeypatch, later).json()["whole"] == asked(monkeypatch, live()).json()["whole"]


def test_a_run_that_is_not_there_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asked(monkeypatch, live(), run="..%2F..%2Fetc")
    assert answer.status_code == 404
    bad = asked(monkeypatch, live(), run="no run")
    assert bad.status_code == 404 and bad.json()["reason"].startswith("There is no comparison")


def test_only_lanes_of_a_run_that_may_time_turns_are_watched() -> None:
    assert 'data-watch="run-1"' in lanes.lanes(live())
    waiting = replace(live().lanes[0], status="loading", turns_done=0)
    assert "data-watch" not in lanes.lanes(live(lanes=(waiting,)))
    assert "data-watch" not in lanes.lanes(live(status="done"))


def test_text_streams_in_by_small_requests_alone(page: Page, slow_page: str) -> None:
    page.goto(slow_page)
    page.click(READY)
    page.wait_for_selector(".lv-lanes[data-watch]")
    page.wait_for_selector(".lv-stage:text('Round 3')")
    page.locator(".lv-lane .lv-text[tabindex]").first.focus()
    page.wait_for_timeout(1_500)  # for the poll that the new stage brought
    page.evaluate("window.lane = document.querySelector('.lv-lane')")
    before = page.locator(".lv-left").inner_text()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.wait_for_timeout(4_000)
    shown = page.locator(".lv-lanes").inner_text()
    small = [url for url in sent if "/levers/glimpse/" in url]
    assert 1 <= len(small) <= 3
    assert sent == small
    assert page.locator(".lv-left").inner_text() != before
    assert page.evaluate("window.lane.isConnected"), "a lane was drawn anew"
    assert page.evaluate("document.activeElement.className") == "lv-text", "the focus was lost"
    assert HOSTILE[:20] in shown
    assert page.evaluate("window.__pwned") is None
    page.click("#lv-stop")
    expect(page.locator(".lv-state-cancelled")).to_be_visible()


def test_the_script_comes_before_gradio_s_and_nothing_else_of_the_page_is_touched() -> None:
    def answer(text: str) -> Route:
        return Route(f"/{text[:1]}" if text != PAGE else "/", lambda request: HTMLResponse(text))

    app = Starlette(routes=[answer(PAGE), answer("x<head>")], middleware=[Middleware(Early, script="a < b")])
    got = TestClient(app).get("/")
    assert got.text == "<html><head><script>a < b</script><script>theirs</script></head><body><head></body></html>"
    assert got.headers["content-length"] == str(len(got.content))
    assert TestClient(app).get("/x").text == "x<head>"
    assert TestClient(app).head("/").status_code == 200


def test_frames_come_once_a_second_while_turns_are_timed(page: Page, slow_page: str) -> None:
    page.goto(slow_page)
    page.click(READY)
    page.wait_for_selector(".lv-lanes[data-watch]")
    page.wait_for_selector(".lv-stage:text('Round 3')")
    counted = """() => new Promise((done) => { let count = 0; const began = performance.now();
      const next = () => { count += 1; const spent = performance.now() - began;
        if (spent < 2000) { requestAnimationFrame(next); } else { done(count * 1000 / spent); } };
      requestAnimationFrame(next); })"""
    assert page.evaluate(counted) <= 1.1
    page.evaluate("() => { cancelAnimationFrame(requestAnimationFrame(() => { window.late = 1; })); }")
    page.wait_for_timeout(1_500)
    assert page.evaluate("window.late") is None
    page.click("#lv-stop")
    expect(page.locator(".lv-state-cancelled")).to_be_visible()
    page.wait_for_timeout(2_500)
    assert page.evaluate(counted) > 8
