"""The page's pure parts: how fields are read, figures worded, answers cut, and what a direct call can send."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scripted import Script
from scripted_records import CENSUS, HOSTILE

from optimizers.errors import ChoiceError, RunNotFound
from optimizers.results import PromiseResult
from optimizers.schema import SkippedModule
from optimizers.ui import details_view, figures, form, results_view, texts, watching

GOOD: list[Any] = ["model", ["bf16"], "fp16\n\nbf16+eager\n", "One\n\nTwo", 48, 6, "", ""]


def changed(place: int, value: object) -> list[Any]:
    return [*GOOD[:place], value, *GOOD[place + 1 :]]


def test_a_form_is_read_into_its_parts() -> None:
    read = form.read(*GOOD)
    assert read.stacks == ("bf16", "fp16", "bf16+eager")
    assert read.prompts == ("One", "Two")
    assert (read.seconds, read.baseline) == (None, None)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, ["a", "list"]),
        (0, "x" * 2000),
        (0, "  "),
        (2, "x" * 5000),
        (3, {"a": 1}),
        (4, "48"),
        (4, True),
        (4, 1.5),
        (4, 10**9),
        (4, float("nan")),
        (5, None),
        (6, "-3"),
        (6, "nan"),
        (6, "inf"),
        (7, 12),
    ],
)
def test_what_a_direct_call_may_send_is_refused_in_words(place: int, value: object) -> None:
    with pytest.raises(ChoiceError) as caught:
        form.read(*changed(place, value))
    assert caught.value.reason


def test_nothing_ticked_is_a_sentence() -> None:
    with pytest.raises(ChoiceError, match="Tick at least one technique"):
        form.read("model", [], "", "One", 48, 6, "", "")


@pytest.mark.parametrize("value", [None, 3, "", "../x", "a/b", ".hidden", "x" * 101, "a b", "run\n"])
def test_only_the_shape_of_a_run_id_is_taken(value: object) -> None:
    with pytest.raises(RunNotFound):
        form.run_id(value)


def test_prompts_are_cut_at_empty_lines() -> None:
    assert form.split_prompts("One\nstill one\r\n \t\r\n\n\nTwo\n") == ("One\nstill one", "Two")


@pytest.mark.parametrize(
    ("one", "other", "shared"), [("", "", 0), ("abc", "abd", 2), ("abc", "abc", 3), ("ab", "abc", 2), ("x", "y", 0)]
)
def test_the_common_prefix_counts_characters(one: str, other: str, shared: int) -> None:
    assert texts.common_prefix(one, other) == shared


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (figures.size(269_060_552), "269 MB"),
        (figures.size(2_149_000_000), "2.1 GB"),
        (figures.size(999_600), "1.0 MB"),
        (figures.size(None), "–"),
        (figures.count(134_515_008), "135 M"),
        (figures.seconds(0.2), "under 1 s"),
        (figures.seconds(59.6), "1 min"),
        (figures.seconds(200), "3 min 20 s"),
        (figures.seconds(3900), "1 h 5 min"),
        (figures.short_seconds(0.0381), "38.1 ms"),
        (figures.short_seconds(1.2), "1.2 s"),
        (figures.number(30.68), "30.7"),
        (figures.number(25.0), "25.0"),
        (figures.small(-4e-7), "≈ 0"),
        (figures.small(0.00105), "0.001"),
        (figures.small(0.0), "0"),
        (figures.percent(0.989), "98.9 %"),
        (figures.times(1.416), "1.42×"),
    ],
)
def test_figures_are_worded(made: str, wanted: str) -> None:
    assert made == wanted


def test_rows_that_were_not_measured_have_a_reason_and_no_figures() -> None:
    html = results_view.table(Script().run("run-1", "done"), final=True)
    skipped = html[html.index("lv-row-skipped") :]
    assert "The package bitsandbytes is not installed." in skipped
    assert "pip install bitsandbytes" in skipped
    assert "data-label" not in skipped


def test_promises_and_census_are_told_of_measured_variants_only() -> None:
    html = details_view.details(Script().run("run-1", "done"))
    promises, census = html.split("What really happened", 1)
    assert "2 kept, 2 not kept, 2 not judged" in promises
    assert promises.count("No native bfloat16 here.") == 2
    assert census.count("<tr") == 1 + 3
    assert "float32 114 MB" in census
    assert census.index("float32 114 MB") < census.index("int8 106 MB")
    assert "1 left out (lm_head): output head, tied to the input embedding" in census
    assert "bnb_nf4" not in html


def test_what_a_census_names_is_shown_as_text() -> None:
    run = Script().run("run-1", "done")
    census = replace(
        CENSUS, attention=HOSTILE, modules_skipped=(SkippedModule(HOSTILE, HOSTILE),), quantization=HOSTILE
    )
    promise = PromiseResult(HOSTILE, HOSTILE, HOSTILE, False, HOSTILE, HOSTILE)
    first = replace(run.variants[0], census=census, promises=(promise,))
    html = details_view.details(replace(run, variants=(first,)))
    assert html.count("&lt;img src=x") == 9
    assert "<img" not in html


def test_a_run_without_a_census_has_no_details() -> None:
    run = Script().run("run-1", "done")
    assert details_view.details(replace(run, variants=run.variants[3:])) == ""


def test_nothing_from_outside_reaches_the_markup_unescaped() -> None:
    run = Script(hostile=True).run("run-1", "done")
    for html in (results_view.table(run, final=True), results_view.caveats(run), texts.side_by_side(run, 0)):
        assert "&lt;img src=x" in html
        assert "<img" not in html
        assert "<script" not in html
        assert HOSTILE not in html


@pytest.mark.parametrize("prompt", [None, "0", -1, 99, 1.5])
def test_an_answer_to_no_prompt_is_empty(prompt: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimizers.api.load", lambda run_id: Script().run(run_id, "done"))
    assert watching.answers("run-1", prompt) == ""
