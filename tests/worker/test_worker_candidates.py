"""What both sides nearly said where an answer leaves the baseline's, by real workers on tiny checkpoints: against a
plain forward of each model in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import manager_help as help_
import pytest
import tiny
from markupsafe import escape

from optimizers.analysis import near_misses
from optimizers.manager import Manager
from optimizers.quality import Quality
from optimizers.results import Run, VariantResult
from optimizers.schema import Output
from optimizers.scores import Candidate
from optimizers.store import Store
from optimizers.ui import texts

PROMPTS = ("Alice was", "So she")
NEW_TOKENS = 8
BASE = "fp32+sdpa"
SAME, OTHER, DRAWN = f"{BASE}+checkpoint=same", f"{BASE}+checkpoint=other", f"{BASE}+sampling"


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another model of the same tokens: its answers part from the baseline's at once or nearly so."""
    return tiny.make_llama(tmp_path_factory.mktemp("models") / "same", seed=1)


@pytest.fixture(scope="module")
def run(tiny_llama: Path, same: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    other = tiny.make_llama(tmp_path_factory.mktemp("models") / "other", seed=2, vocabulary=320)
    stacks = (f"checkpoint={same}", f"checkpoint={other}", "sampling")
    store = Store(tmp_path_factory.mktemp("runs"))
    manager = Manager(store)
    plan = help_.plan_for(tiny_llama, *stacks, prompts=list(PROMPTS), max_new_tokens=NEW_TOKENS, rounds=2)
    live = manager.wait(manager.start(plan), help_.PATIENCE_S)
    yield store.load(live.id)
    manager.close()


def quality_of(run: Run, key: str) -> tuple[VariantResult, Quality]:
    variant = next(variant for variant in run.variants if variant.key == key)
    assert variant.quality is not None, variant.reason
    return variant, variant.quality


def expected(folder: Path, prompt: str, answered: tuple[int, ...]) -> list[tuple[str, float]]:
    """The five likeliest tokens after prompt and beginning of an answer: one forward and a softmax."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
    )
    ids = tokenizer(text, add_special_tokens=False)["input_ids"] + list(answered)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        chances = model(torch.tensor([ids])).logits[0, -1].double().softmax(-1)
    top = chances.topk(5)
    return [(tokenizer.decode([i]), p) for i, p in zip(top.indices.tolist(), top.values.tolist(), strict=True)]


def told(candidates: tuple[Candidate, ...]) -> list[tuple[str, object]]:
    return [(candidate.token, pytest.approx(candidate.probability, abs=1e-5)) for candidate in candidates]


def test_both_sides_candidates_are_the_models_own_at_the_token_where_they_part(
    run: Run, tiny_llama: Path, same: Path
) -> None:
    assert run.status == "done", run.reason
    base = next(variant for variant in run.variants if variant.key == BASE)
    variant, quality = quality_of(run, SAME)
    answers = {output.prompt: output for output in base.outputs}
    assert [place.prompt for place in quality.first_divergence] == [0, 1]
    for place, output in zip(quality.first_divergence, variant.outputs, strict=True):
        assert place.token is not None and place.disagreement is not None
        before = output.token_ids[: place.token]
        assert before == answers[place.prompt].token_ids[: place.token]
        prompt = PROMPTS[place.prompt]
        assert expected(tiny_llama, prompt, before) == told(place.disagreement.baseline)
        assert expected(same, prompt, before) == told(place.disagreement.variant)
        _wrote(place.disagreement.variant[0], output, place.token, same)
        _wrote(place.disagreement.baseline[0], answers[place.prompt], place.token, same)


def _wrote(first: Candidate, output: Output, place: int, folder: Path) -> None:
    """The likeliest is what was written, or the end."""
    from transformers import AutoTokenizer

    written = output.token_ids[place : place + 1] or (0,)
    assert first.token == AutoTokenizer.from_pretrained(folder).decode(list(written))


def test_each_prompt_has_its_entry_and_the_page_its_table(run: Run) -> None:
    _, quality = quality_of(run, SAME)
    ties = {miss.prompt: miss.near_tie for miss in quality.near_misses}
    assert ties.keys() == {0, 1}
    assert all(miss.absent is None for miss in quality.near_misses)
    for place in quality.first_divergence:
        assert place.disagreement is not None
        chances = {candidate.token: candidate.probability for candidate in place.disagreement.baseline}
        written = place.disagreement.variant[0].token
        apart = place.disagreement.baseline[0].probability - chances.get(written, -1.0)
        assert ties[place.prompt] is (apart < 0.02)
    html = texts.side_by_side(run, 0)
    assert html.count("<table>") == 1
    assert "lv-nearly" not in texts.side_by_side(run, 0, short=True)


@pytest.mark.parametrize(("key", "why"), [(OTHER, near_misses.OTHER_TOKENS), (DRAWN, near_misses.DRAWN)])
def test_where_nothing_can_be_set_side_by_side_that_is_said(key: str, why: str, run: Run) -> None:
    _, quality = quality_of(run, key)
    assert quality.near_misses
    assert {(miss.near_tie, miss.absent) for miss in quality.near_misses} == {(None, why)}
    assert quality.first_divergence == ()
    assert escape(why) in texts.side_by_side(run, quality.near_misses[0].prompt)


@pytest.mark.parametrize(("cap", "kept"), [(NEW_TOKENS, True), (0, False)])
def test_a_place_past_what_the_reference_holds_is_not_known(
    cap: int, kept: bool, tiny_llama: Path, same: Path, tmp_path: Path
) -> None:
    from driver import WorkerProcess

    from optimizers.protocol import Answered, Passage, Reference, RunRequest, Score, Scored

    reference = Reference(str(tmp_path / "rows"), tiny.VOCABULARY, 0, cap)
    with WorkerProcess(tmp_path / "base") as base, WorkerProcess(tmp_path / "variant") as variant:
        base.load(tiny_llama, "fp32", "sdpa")
        variant.load(same, "fp32", "sdpa")
        answered = base.do(RunRequest(0, PROMPTS[0], NEW_TOKENS, reference), Answered)
        passage = Passage("answer:0", "timed", answered.prompt_ids, answered.scored_ids, 0)
        (scores,) = variant.do(Score((passage,), reference, "read"), Scored).scores
    assert (scores.disagreement is not None) is kept
    assert scores.left_out == (0 if kept else len(answered.scored_ids))


def test_of_equal_tokens_the_one_that_is_taken_comes_first_and_fragments_are_marked(tiny_llama: Path) -> None:
    import torch
    from transformers import AutoTokenizer

    from optimizers.worker.scoring import candidates

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    the, fragment = (tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in (" the", "\u4e2d"))
    chances = torch.full((tiny.VOCABULARY,), 0.1 / (tiny.VOCABULARY - 4), dtype=torch.float64)
    chances[[300, 7, the, fragment]] = torch.tensor([0.3, 0.3, 0.2, 0.1], dtype=torch.float64)
    found = candidates(chances.log().float(), 5, tokenizer)
    assert int(chances.argmax()) == 7
    assert [candidate.token for candidate in found[:4]] == [*map(tokenizer.decode, (7, 300)), " the", "\ufffd"]
    assert [candidate.probability for candidate in found[:4]] == pytest.approx([0.3, 0.3, 0.2, 0.1])
    assert len(found) == 5
