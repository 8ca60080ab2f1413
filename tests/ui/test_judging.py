"""Judge by reading: what a pair tells and does not tell, what direct calls may send, and a real browser by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import voting_records as make
from browsing import READY, compare
from playwright.sync_api import Page, expect
from scripted_records import HOSTILE
from scripted_votes import VotingScript
from serving import Served, free_port, serving
from voting_records import ANN, BASE, BEN, HALF, SMALL

from optimizers import api
from optimizers.analysis.votes import deck
from optimizers.errors import LeversError
from optimizers.results import Run
from optimizers.store import Store
from optimizers.ui import drawn, judging, judging_view, results_view, words_judging
from optimizers.votes import Preference, Vote

START, SHOW = words_judging.START, words_judging.SHOW_TALLY
EIGHT = "fp32+sdpa+torchao_int8_weight_only"


def told(votes: tuple[Vote, ...] = (), **changes: Any) -> Run:
    return replace(VotingScript().run("run-1", "done"), votes=votes, **changes)


@pytest.fixture
def run_id(own_cache: Path) -> Iterator[str]:
    """A kept run of the real store, behind the real api."""
    yield make.kept(Store(own_cache / "runs"))
    api.shutdown()


def test_what_is_drawn_of_a_pair_does_not_tell_which_is_the_baselines() -> None:
    run = told()
    one, other = run.variants[0].outputs[0].text, run.variants[2].outputs[0].text
    drawn_pair = judging_view.pair(1, 3, 3, "Why is the sky blue?", one, other)
    swapped = judging_view.pair(1, 3, 3, "Why is the sky blue?", other, one)
    marks = ("\0one\0", "\0other\0")
    told_apart = drawn_pair.replace(escaped(one), marks[0]).replace(escaped(other), marks[1])
    told_swapped = swapped.replace(escaped(other), marks[0]).replace(escaped(one), marks[1])
    assert told_apart == told_swapped and marks[0] in told_apart
    for variant in run.variants:
        assert variant.key not in told_apart and variant.title not in told_apart
    assert "baseline" not in told_apart


def escaped(text: str) -> str:
    return text.replace("'", "&#39;")


def test_answers_and_prompts_from_outside_are_text() -> None:
    html = judging_view.pair(1, 1, 0, HOSTILE, HOSTILE, "two\n  lines\t.")
    assert "<img" not in html and "<script" not in html and "<svg" not in html
    assert html.count("&lt;img") == 2
    assert "two\n  lines\t." in html
    assert words_judging.EMPTY_ANSWER in judging_view.pair(1, 1, 0, "?", "", "text")


def test_a_hostile_title_is_text_in_the_tally_and_in_the_results() -> None:
    base, half, eight, *rest = VotingScript().run("run-1", "done").variants
    run = told((Vote(EIGHT, 0, "better", ANN),), variants=(base, half, replace(eight, title=HOSTILE), *rest))
    for html in (judging_view.tally(run), str(judging_view.read_blind(run)), results_view.table(run, final=True)):
        assert "&lt;img" in html and "<img" not in html and "<script" not in html


def cast(better: int, worse: int, variant: str = EIGHT) -> tuple[Vote, ...]:
    said: list[Preference] = [*["better"] * better, *["worse"] * worse]
    return tuple(Vote(variant, number % 3, word, f"{number:016x}") for number, word in enumerate(said))


@pytest.mark.parametrize(
    ("votes", "said"),
    [
        (cast(7, 2), "7 of 9 votes preferred 8-bit weights (torchao): too few to tell (p = 0.18)"),
        (cast(9, 0), "9 of 9 votes preferred 8-bit weights (torchao): it reads better (p = 0.0039)"),
        (cast(1, 11), "1 of 12 votes preferred 8-bit weights (torchao): the baseline reads better (p = 0.0063)"),
        (cast(1, 0), "1 of 1 vote preferred 8-bit weights (torchao): too few to tell (p = 1)"),
        (cast(30, 0), "30 of 30 votes preferred 8-bit weights (torchao): it reads better (p under 0.0001)"),
        ((Vote(EIGHT, 0, "same", ANN),), "no vote on 8-bit weights (torchao) has a preference"),
    ],
)
def test_the_results_say_what_was_read(votes: tuple[Vote, ...], said: str) -> None:
    assert f"<strong>Read blind:</strong> {said}." in results_view.table(told(votes), final=True)
    assert said not in results_view.table(told(votes), final=False)
    assert said.replace("8-bit weights (torchao)", "it") in judging_view.tally(told(votes))


def test_the_tally_says_how_it_was_judged_and_what_it_cannot_say() -> None:
    alone = judging_view.tally(told(cast(7, 2)))
    assert "under 0.05 counts. It takes votes for independent" in alone
    assert "These are of 9 readers on 3 prompts." in alone
    both = judging_view.tally(told((*cast(7, 2), *cast(3, 3, "bf16+sdpa"))))
    assert "under 0.05 counts, after Holm&#39;s correction for 2 variants" in both
    assert words_judging.NO_VOTES in judging_view.tally(told())
    assert judging_view.read_blind(told()) == ""


def test_a_table_is_drawn_anew_for_new_votes() -> None:
    live = VotingScript(stills=True).watch("done")
    assert live.run
    voted = replace(live, run=replace(live.run, votes=cast(7, 2)))
    assert [words_judging.READ_BLIND in drawn.TABLE.of(one) for one in (live, voted, live)] == [False, True, False]


def step(said: tuple[Any, ...]) -> tuple[str, str, bool, bool, str]:
    """(pair, place, buttons shown, start shown, tally)"""
    pair, place, row, start, tally, _ = said
    return str(pair), place, row.visible, start.visible, str(tally)


def test_a_reader_gets_every_pair_with_its_two_answers(run_id: str) -> None:
    pair, place, open_, start, tally = step(judging.begin(run_id, ANN))
    run = api.load(run_id)
    seen = set()
    for number in (1, 2, 3, 4):
        assert (open_, start, tally) == (True, False, "")
        assert f"Pair {number} of 4" in pair
        assert "2 pairs are word for word the same and not asked." in pair
        dealt = deck(run, ANN)[int(place)]
        seen.add((dealt.variant, dealt.prompt))
        texts = re.findall(r'<p class="lv-prose">(.*?)</p>', pair)
        own, base = make.ANSWERS[dealt.variant][dealt.prompt], make.ANSWERS[BASE][dealt.prompt]
        assert texts[0] == run.workload.prompts[dealt.prompt]
        assert texts[1:] == ([base, own] if dealt.baseline_left else [own, base])
        side: Any = "right" if dealt.baseline_left else "left"
        pair, place, open_, start, tally = step(judging.judge(side, run_id, place, ANN))
    assert seen == {(HALF, 0), (HALF, 2), (SMALL, 0), (SMALL, 1)}
    assert [vote.preference for vote in api.load(run_id).votes] == ["better"] * 4


def test_the_end_shows_the_tally_of_all_readers(run_id: str) -> None:
    place = step(judging.begin(run_id, ANN))[1]
    for _ in range(4):
        said = judging.judge("same", run_id, place, ANN)
        place = step(said)[1]
    pair, place, open_, start, tally = step(said)
    assert words_judging.ALL_JUDGED in pair and (place, open_, start) == ("", False, False)
    assert "no vote on it has a preference" in tally and words_judging.READ_BLIND in said[-1]
    assert len(api.load(run_id).votes) == 4
    assert "Pair 1 of 4" in step(judging.begin(run_id, BEN))[0]
    assert words_judging.ALL_JUDGED in step(judging.begin(run_id, ANN))[0]


def test_what_was_skipped_comes_again_when_asked_for(run_id: str) -> None:
    place = step(judging.begin(run_id, ANN))[1]
    skipped = place
    place = step(judging.judge("skip", run_id, place, ANN))[1]
    for _ in range(3):
        said = step(judging.judge("left", run_id, place, ANN))
        place = said[1]
    assert said[1:] == ("", False, True, "") and "1 pair is left without a vote of yours." in said[0]
    again = step(judging.begin(run_id, ANN))
    assert again[1] == skipped and "Pair 1 of 4" in again[0]
    assert len(api.load(run_id).votes) == 3


def test_where_all_answers_are_alike_there_is_nothing_to_judge(own_cache: Path) -> None:
    same = dict.fromkeys((BASE, HALF), make.ANSWERS[BASE])
    pair, _, open_, start, _ = step(judging.begin(make.kept(Store(own_cache / "runs"), same), ANN))
    assert f"{words_judging.NOTHING_DIFFERENT} 3 pairs are word for word the same and not asked." in pair
    assert (open_, start) == (False, False)


def test_before_there_are_answers_and_while_a_run_goes_on_the_section_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    script = VotingScript(stills=True)
    for name in ("watch", "votable", "vote"):
        monkeypatch.setattr(api, name, getattr(script, name))
    assert words_judging.NO_ANSWERS in step(judging.begin("loading", ANN))[0]
    place = step(judging.begin("streaming", ANN))[1]
    for _ in range(3):
        said = step(judging.judge("left", "streaming", place, ANN))
        place = said[1]
    assert words_judging.SO_FAR in said[0] and said[3:] == (True, "")
    assert len(script.ballots["streaming"].counted) == 3


def test_a_run_from_elsewhere_says_that_it_takes_no_votes(run_id: str) -> None:
    opened = api.keep((api.folder(run_id) / "run.json").read_bytes())
    for said in (judging.opened(opened), judging.begin(opened, ANN), judging.judge("left", opened, "0", ANN)):
        pair, _, open_, _, _ = step(said)
        assert "it has no log here" in pair and not open_
    assert step(judging.opened(opened))[3] is False
    assert step(judging.opened(run_id))[:4] == ("", "", False, True)
    assert step(judging.opened(""))[:4] == ("", "", False, False)


@pytest.mark.parametrize("raw", [None, 3, "", "x", "A" * 16, "a" * 17, ["a" * 16], "a" * 16 + "\n"])
def test_who_votes_must_be_said(run_id: str, raw: object) -> None:
    for said in (judging.begin(run_id, raw), judging.judge("left", run_id, "0", raw)):
        assert words_judging.NO_READER in step(said)[0]
    assert api.load(run_id).votes == ()


@pytest.mark.parametrize("raw", [None, 0, "", "-1", "6", "99999999999999999999", "0x1", "\u0661", ["0"]])
def test_a_pair_that_was_not_dealt_takes_no_vote(run_id: str, raw: object) -> None:
    assert words_judging.NO_PAIR in step(judging.judge("left", run_id, raw, ANN))[0]
    assert api.load(run_id).votes == ()


@pytest.mark.parametrize("raw", [None, 3, "../x", "20261130-000000-00000000"])
def test_a_run_that_there_is_not_is_a_sentence(own_cache: Path, raw: object) -> None:
    for ask in (judging.opened, lambda raw: judging.begin(raw, ANN), lambda raw: judging.judge("left", raw, "0", ANN)):
        assert "There is no" in step(ask(raw))[0] or not raw
    assert "There is no" in judging.tally(raw)[0]


def test_what_keeps_a_vote_from_being_kept_is_a_sentence(run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = step(judging.begin(run_id, ANN))[1]

    def refuse(run_id: str, vote: Vote) -> None:
        raise LeversError("The disk is full.", "Free some space.")

    monkeypatch.setattr(api, "vote", refuse)
    pair, _, open_, start, _ = step(judging.judge("left", run_id, place, ANN))
    assert "The disk is full." in pair and (open_, start) == (False, True)


@pytest.fixture
def voting_page(tmp_path: Path) -> Iterator[tuple[Served, Store, str]]:
    """The real page over a kept run."""
    store, port = Store(tmp_path / "cache" / "runs"), free_port()
    run_id = make.kept(store)
    with serving(["app.py"], port, tmp_path / "cache") as served:
        yield served, store, run_id


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def tab_to(page: Page, name: str) -> None:
    for _ in range(30):
        if focused(page) == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{name} cannot be reached by keyboard from {focused(page)}")


_HAS_FOCUS = """(said) => document.activeElement !== document.body
  && document.activeElement.textContent.includes(said)"""


def until_focused(page: Page, said: str) -> None:
    page.wait_for_function(_HAS_FOCUS, arg=said)


def test_a_reader_votes_by_keyboard_reloads_and_finds_the_tally(
    page: Page, voting_page: tuple[Served, Store, str]
) -> None:
    served, store, run_id = voting_page
    address = f"{served.address}/?run={run_id}"
    page.goto(address)
    section = page.locator("#lv-judge")
    page.get_by_role("button", name=START).focus()
    page.keyboard.press("Enter")
    for number in (1, 2, 3, 4):
        until_focused(page, f"Pair {number} of 4")
        markup = section.evaluate("(section) => section.outerHTML")
        for name in (*make.ANSWERS, "bfloat16", "float16", "32-bit"):
            assert name not in markup, f"{name} stands in the section"
        assert section.locator("[role=group]").evaluate_all(
            "(groups) => groups.map((group) => group.getAttribute('aria-label'))"
        ) == ["Prompt", "Left", "Right"]
        expect(page.locator("#lv-answers .lv-said").first).to_be_hidden()
        left = section.locator(".lv-side-text").first.inner_text()
        base = any(left == text for text in make.ANSWERS[BASE])
        tab_to(page, "No difference" if number == 4 else "Right is better" if base else "Left is better")
        page.keyboard.press("Enter")
    until_focused(page, words_judging.ALL_JUDGED)
    expect(page.locator("#lv-judge-tally tbody tr")).to_have_count(2)
    expect(page.locator("#lv-run-table .lv-read-blind")).to_contain_text("Read blind:")
    expect(page.locator("#lv-answers .lv-said").first).to_be_visible()
    lines = [json.loads(line)["event"] for line in make.log(store, run_id).read_bytes().splitlines()]
    votes = [line["vote"] for line in lines if line["kind"] == "voted"]
    assert sorted(vote["preference"] for vote in votes) == ["better", "better", "better", "same"]
    assert len({vote["voter"] for vote in votes}) == 1

    page.reload()
    expect(page.locator("#lv-run-table .lv-read-blind")).to_be_visible()
    expect(page.locator("#lv-judge-tally")).to_be_empty()
    page.get_by_role("button", name=SHOW).focus()
    page.keyboard.press("Enter")
    until_focused(page, words_judging.TALLY)
    expect(page.locator("#lv-judge-tally")).to_contain_text("These are of 1 reader on 3 prompts.")
    page.get_by_role("button", name=START).click()
    until_focused(page, words_judging.ALL_JUDGED)  # the same tab is the same reader

    another = page.context.new_page()
    another.goto(address)
    another.get_by_role("button", name=START).click()
    until_focused(another, "Pair 1 of 4")
    another.get_by_role("button", name="Left is better").click()
    until_focused(another, "Pair 2 of 4")
    another.get_by_role("button", name=SHOW).click()
    expect(another.locator("#lv-judge-tally")).to_contain_text("These are of 2 readers")
    expect(another.locator("#lv-judge-pair .lv-pair")).to_be_visible()  # it stays open
    another.close()
    assert len(store.load(run_id).votes) == 5


@pytest.mark.parametrize("width", [390, 1280])
def test_a_pair_stands_side_by_side_and_on_a_phone_one_above_the_other(
    page: Page, scripted_page: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    compare(page, scripted_page)
    page.wait_for_selector(".lv-state-done")
    page.get_by_role("button", name=START).click()
    page.wait_for_selector(".lv-side")
    left, right = page.locator(".lv-side").evaluate_all("(sides) => sides.map((side) => side.getBoundingClientRect())")
    assert (left["x"] == right["x"]) == (width == 390)
    assert (left["y"] == right["y"]) == (width == 1280)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_answers_are_shown_as_text(page: Page, hostile_page: str) -> None:
    compare(page, hostile_page)
    page.wait_for_selector(".lv-state-done")
    page.get_by_role("button", name=START).click()
    expect(page.locator(".lv-pair-sides")).to_contain_text("</script><script>window.__pwned='script'</script>")
    assert page.locator("#lv-judge img, #lv-judge svg[onload], #lv-judge script").count() == 0
    page.get_by_role("button", name="Skip").click()
    until_focused(page, "Pair 2 of 3")
    assert page.evaluate("window.__pwned") is None


def test_another_run_begins_with_the_section_at_rest(page: Page, scripted_page: str) -> None:
    compare(page, scripted_page)
    page.wait_for_selector(".lv-state-done")
    page.get_by_role("button", name=START).click()
    page.wait_for_selector(".lv-pair")
    page.click("#lv-new")
    page.wait_for_selector(READY)
    page.click("#lv-compare")
    page.wait_for_selector(".lv-lane")
    expect(page.locator(".lv-pair")).to_have_count(0)
    expect(page.locator("#lv-judge-sides")).to_be_hidden()
    expect(page.get_by_role("button", name=START)).to_be_visible()
