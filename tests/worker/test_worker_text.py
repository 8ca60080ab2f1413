"""How the human text is cut into passages; counted by hand. No torch."""

from __future__ import annotations

from optimizers.tasks.text_generation import WINDOW_POSITIONS, default_prompts, human_text, windows


def test_windows_do_not_overlap_and_their_first_token_is_context() -> None:
    passages = windows(range(100, 120), context_length=6, positions=12)
    assert [passage.name for passage in passages] == ["text:0", "text:1", "text:2", "text_timed"]
    assert [passage.context_ids for passage in passages] == [(100,), (106,), (112,), (100,)]
    assert passages[0].target_ids == (101, 102, 103, 104, 105)
    assert passages[1].target_ids == (107, 108, 109, 110, 111)
    assert passages[2].target_ids == (113, 114)
    assert passages[3].target_ids == (101, 102, 103, 104, 105)
    assert [passage.row for passage in passages] == [0, 5, 10, 12]
    assert [passage.path for passage in passages] == ["one_pass", "one_pass", "one_pass", "timed"]


def test_rows_start_where_told_and_windows_are_capped() -> None:
    passages = windows(range(2000), context_length=100_000, positions=768, first_row=90)
    assert [len(passage.target_ids) for passage in passages] == [WINDOW_POSITIONS] * 3 + [64]
    assert [passage.row for passage in passages] == [90, 90 + 256, 90 + 512, 90 + 768]


def test_a_short_text_gives_what_it_has() -> None:
    assert [len(passage.target_ids) for passage in windows(range(4), context_length=256)] == [3, 3]
    assert windows([7], context_length=256) == ()
    assert windows([], context_length=256) == ()
    assert windows(range(9), context_length=1) == ()


def test_the_packaged_prompts_and_text_are_there() -> None:
    assert default_prompts() == ("Explain DNS briefly.", "What is a mutex?", "Why is the sky blue?")
    assert len(human_text().split()) > 768
