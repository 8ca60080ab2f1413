"""Explanations on the page: every column and term has one, a key opens them, and what they hold is text."""

from __future__ import annotations

from dataclasses import replace

from playwright.sync_api import Page, expect
from scripted_records import HOSTILE, ROWS

from optimizers.schema import Explanation
from optimizers.ui import glossary, notes, words


def test_every_column_of_the_results_is_explained() -> None:
    names = " ".join(name for name, _ in glossary.FIGURES).lower()
    explained_above = {"Variant", words.STEP_COLUMN}  # a glossary term; the speed column against another stack
    assert [name for name, _ in words.COLUMNS if name not in explained_above and name.lower() not in names] == []


def test_an_explanation_is_a_paragraph_with_its_source() -> None:
    entries = [*glossary.FIGURES, *glossary.TERMS]
    assert len({name for name, _ in entries}) == len(entries)
    for name, about in entries:
        assert 20 <= len(about.text.split()) <= 90, name
        assert about.text.endswith(".") and about.source, name


def test_what_a_technique_says_of_itself_is_text() -> None:
    html = notes.technique(replace(ROWS[0], about=Explanation(HOSTILE, HOSTILE)))
    assert "<script" not in html and "<img" not in html and "&lt;img" in html


def test_a_key_opens_a_technique_s_paragraph_and_the_glossary(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    ticked = page.locator("#lv-technique-bf16 input")
    how = page.locator("#lv-technique-note-bf16 details")
    paragraph = how.locator("p")
    expect(paragraph).to_be_hidden()
    before = ticked.is_checked()
    how.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(paragraph).to_contain_text("Fewer bytes are read for each token. Source: its documentation")
    assert ticked.is_checked() is before
    terms = page.locator("#lv-glossary dl")
    expect(terms).to_be_hidden()
    page.locator("#lv-glossary summary").focus()
    page.keyboard.press("Enter")
    expect(terms).to_contain_text("Key-value cache")
