"""Scoring against values worked out apart: rows against a bare forward, KL against numpy in float64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from driver import WorkerProcess

from optimizers.protocol import Answered, Failed, Passage, Reference, RunRequest, Score, Scored
from optimizers.scores import PassageScores

VOCABULARY = 384
PROMPT = "What is a mutex?"
NEW_TOKENS = 20
CONTEXT = tuple(range(10, 16))
TARGETS = tuple(range(40, 70))
ROWS = 200


@pytest.fixture(scope="module")
def workers(
    tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[WorkerProcess, WorkerProcess]]:
    """The baseline and a variant that is a little off."""
    logs = tmp_path_factory.mktemp("logs")
    with WorkerProcess(logs / "fp32") as base, WorkerProcess(logs / "bf16") as variant:
        base.load(tiny_llama, "fp32", "sdpa")
        variant.load(tiny_llama, "bf16", "eager")
        yield base, variant


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows"


def reference(file: Path, row: int = 0, rows_limit: int = ROWS) -> Reference:
    return Reference(str(file), VOCABULARY, row, rows_limit)


def rows_of(file: Path) -> np.ndarray:
    return np.fromfile(file, dtype=np.float32).reshape(-1, VOCABULARY)


def bare_logprobs(folder: Path, context: tuple[int, ...], targets: tuple[int, ...]) -> np.ndarray:
    """(targets, vocabulary) log-probabilities from one forward in this process, in fp32."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(torch.tensor([context + targets[:-1]])).logits[0, len(context) - 1 :].numpy().astype(np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def expected_kl(base: np.ndarray, variant: np.ndarray) -> np.ndarray:
    wide_base, wide_variant = base.astype(np.float64), variant.astype(np.float64)
    return np.maximum(0.0, (np.exp(wide_base) * (wide_base - wide_variant)).sum(-1))


def one(event: Scored) -> PassageScores:
    assert len(event.scores) == 1
    return event.scores[0]


def test_recorded_rows_are_the_models_log_probabilities(
    workers: tuple[WorkerProcess, WorkerProcess], tiny_llama: Path, file: Path
) -> None:
    base, _ = workers
    plain = base.do(RunRequest(0, PROMPT, NEW_TOKENS), Answered)
    answered = base.do(RunRequest(0, PROMPT, NEW_TOKENS, reference(file, row=5)), Answered)
    assert answered.output == plain.output
    rows = rows_of(file)[5 : 5 + len(answered.scored_ids)]
    expected = bare_logprobs(tiny_llama, answered.prompt_ids, answered.scored_ids)
    np.testing.assert_allclose(rows, expected, atol=2e-4)
    assert tuple(rows.argmax(-1)) == answered.scored_ids


def test_the_baseline_scores_its_own_answer_at_zero(workers: tuple[WorkerProcess, WorkerProcess], file: Path) -> None:
    base, _ = workers
    answered = base.do(RunRequest(0, PROMPT, NEW_TOKENS, reference(file)), Answered)
    passage = Passage("answer:0", "timed", answered.prompt_ids, answered.scored_ids, 0)
    scores = one(base.do(Score((passage,), reference(file), "read"), Scored))
    assert max(scores.kl_divergence) == 0.0
    assert all(scores.same_top)
    assert scores.disagreement is None
    assert scores.baseline_logprob == scores.variant_logprob


@pytest.mark.parametrize("path", ["timed", "one_pass"])
def test_kl_and_same_top_agree_with_numpy(
    path: str, workers: tuple[WorkerProcess, WorkerProcess], tiny_llama: Path, file: Path, tmp_path: Path
) -> None:
    base, variant = workers
    passage = Passage("text:0", path, CONTEXT, TARGETS, 3)
    written = one(base.do(Score((passage,), reference(file), "write"), Scored))
    assert set(written.kl_divergence) == {0.0}
    base_rows = rows_of(file)[3:]
    np.testing.assert_allclose(base_rows, bare_logprobs(tiny_llama, CONTEXT, TARGETS), atol=2e-4)

    own = tmp_path / "own"
    variant.do(Score((passage,), reference(own), "write"), Scored)
    own_rows = rows_of(own)[3:]
    scores = one(variant.do(Score((passage,), reference(file), "read"), Scored))
    expected = expected_kl(base_rows, own_rows)
    assert expected.max() > 1e-6
    np.testing.assert_allclose(scores.kl_divergence, expected, rtol=1e-9, atol=1e-12)
    same = base_rows.argmax(-1) == own_rows.argmax(-1)
    assert list(scores.same_top) == same.tolist()
    targets = list(TARGETS)
    np.testing.assert_allclose(scores.baseline_logprob, base_rows[range(len(targets)), targets], rtol=1e-6)
    np.testing.assert_allclose(scores.variant_logprob, own_rows[range(len(targets)), targets], rtol=1e-6)
    assert scores.path == path
    assert scores.left_out == 0


@pytest.mark.parametrize("path", ["timed", "one_pass"])
def test_the_rule_of_llama_cpp_is_applied_where_it_is_asked_for(
    path: str, workers: tuple[WorkerProcess, WorkerProcess], file: Path, tmp_path: Path
) -> None:
    """The reference is made so that a third of each row lies under the rule's edge."""
    _, variant = workers
    passage = Passage("text:0", path, CONTEXT, TARGETS, 0)
    variant.do(Score((passage,), reference(file), "write"), Scored)
    own = rows_of(file).astype(np.float64)
    rows = rows_of(file)
    rows[:, ::3] -= 14.0
    rows.tofile(file)
    base = rows.astype(np.float64)
    assert (base <= -16).any(axis=-1).all() and (base > -16).any(axis=-1).all()
    terms = np.exp(base) * (base - own)
    asked = Score((passage,), reference(file), "read", "llama_cpp")
    np.testing.assert_allclose(
        one(variant.do(asked, Scored)).kl_divergence, np.where(base > -16, terms, 0.0).sum(-1), rtol=1e-9, atol=1e-12
    )
    whole = one(variant.do(Score((passage,), reference(file), "read"), Scored)).kl_divergence
    np.testing.assert_allclose(whole, np.maximum(0.0, terms.sum(-1)), rtol=1e-9, atol=1e-12)
    assert np.abs(np.where(base > -16, 0.0, terms).sum(-1)).max() > 1e-7  # the two rules do differ here


def test_the_first_disagreement_names_both_sides_candidates(
    workers: tuple[WorkerProcess, WorkerProcess], file: Path
) -> None:
    """The reference is made so that the variant's favorite is not first at position 2."""
    _, variant = workers
    passage = Passage("text:0", "one_pass", CONTEXT, TARGETS[:4], 0)
    variant.do(Score((passage,), reference(file), "write"), Scored)
    rows = rows_of(file)
    favorite = int(rows[2].argmax())
    other = (favorite + 1) % VOCABULARY
    rows[2] = np.log(0.1 / (VOCABULARY - 1))
    rows[2, other] = np.log(0.9)
    rows.tofile(file)
    scores = one(variant.do(Score((passage,), reference(file), "read"), Scored))
    assert list(scores.same_top) == [True, True, False, True]
    assert scores.disagreement is not None
    assert scores.disagreement.position == 2
    assert len(scores.disagreement.baseline) == len(scores.disagreement.variant) == 5
    assert scores.disagreement.baseline[0].probability == pytest.approx(0.9, rel=1e-5)
    assert scores.disagreement.variant[0].token != scores.disagreement.baseline[0].token


def test_the_text_step_by_step_is_compared_with_its_one_pass_rows(
    workers: tuple[WorkerProcess, WorkerProcess], file: Path
) -> None:
    _, variant = workers
    text = Passage("text:0", "one_pass", CONTEXT, TARGETS, 0)
    timed = Passage("text_timed", "timed", CONTEXT, TARGETS[:10], len(TARGETS))
    first, second = variant.do(Score((timed, text), reference(file), "write"), Scored).scores
    assert (first.name, second.name) == ("text_timed", "text:0")
    rows = rows_of(file)
    assert len(rows) == len(TARGETS) + 10
    expected = expected_kl(rows[:10], rows[len(TARGETS) :])
    np.testing.assert_allclose(first.kl_divergence, expected, rtol=1e-9, atol=1e-12)
    assert set(second.kl_divergence) == {0.0}


@pytest.mark.parametrize("path", ["timed", "one_pass"])
def test_positions_past_the_limit_are_left_out_and_counted(
    path: str, workers: tuple[WorkerProcess, WorkerProcess], file: Path
) -> None:
    base, variant = workers
    passage = Passage("text:0", path, CONTEXT, TARGETS, 4)
    cut = reference(file, rows_limit=16)
    written = one(base.do(Score((passage,), cut, "write"), Scored))
    assert written.left_out == len(TARGETS) - 12
    assert len(rows_of(file)) == 16
    scores = one(variant.do(Score((passage,), cut, "read"), Scored))
    assert len(scores.kl_divergence) == 12
    assert scores.left_out == len(TARGETS) - 12
    beyond = Passage("text:1", path, CONTEXT, TARGETS, 16)
    nothing = one(variant.do(Score((beyond,), cut, "read"), Scored))
    assert nothing.kl_divergence == ()
    assert nothing.left_out == len(TARGETS)


def test_recording_stops_at_the_limit(workers: tuple[WorkerProcess, WorkerProcess], file: Path) -> None:
    base, _ = workers
    base.do(RunRequest(0, PROMPT, NEW_TOKENS, reference(file, row=2, rows_limit=6)), Answered)
    assert len(rows_of(file)) == 6


def test_a_reference_that_does_not_fit_is_refused(
    workers: tuple[WorkerProcess, WorkerProcess], file: Path, tmp_path: Path
) -> None:
    _, variant = workers
    passage = Passage("text:0", "one_pass", CONTEXT, TARGETS, 0)
    assert "could not be opened" in variant.do(Score((passage,), reference(file), "read"), Failed).reason
    np.zeros((2, VOCABULARY), dtype=np.float32).tofile(file)
    assert "end too early" in variant.do(Score((passage,), reference(file), "read"), Failed).reason
    other = Reference(str(file), VOCABULARY - 1, 0, ROWS)
    assert "cannot be compared" in variant.do(Score((passage,), other, "write"), Failed).reason
