"""A text of the person's own scored by real workers on tiny checkpoints: its windows, its figures worked out apart in
float64 from a bare forward in this process, and what is said of it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import manager_help as help_
import numpy as np
import pytest
import tiny

from optimizers import api, protocol
from optimizers.errors import TextError
from optimizers.manager import Manager
from optimizers.results import Run
from optimizers.store import Store
from optimizers.tasks.text_generation import human_text, stretches

CONTEXT = 600
NEW_TOKENS = 8
# Not in the packaged text, and long enough for two windows of 599 and a rest.
TEXT = " ".join(f"On day {day} the {day * 37 % 11} ships sold {day * 91} crates of salt." for day in range(44))
NAME = "salt & ships.txt"
BF16, OTHER = "bf16+sdpa", "fp32+sdpa+checkpoint=other"


@dataclass(frozen=True)
class Done:
    """A finished run and its log."""

    run: Run
    events: list[dict[str, Any]]

    def passages(self, key: str) -> dict[str, dict[str, Any]]:
        """What a variant scored, by name of the passage."""
        found = [line["event"] for line in self.events if line["variant"] == key and line["event"]["kind"] == "scored"]
        return {score["name"]: score for event in found for score in event["scores"]}


@pytest.fixture(scope="module")
def model(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Llama with a longer context than the packaged text's windows."""
    folder = shutil.copytree(tiny_llama, tmp_path_factory.mktemp("models") / "long")
    tiny.edit_config(folder, max_position_embeddings=CONTEXT)
    return folder


def conducted(folder: Path, store: Store, *stacks: str, **workload: Any) -> Done:
    manager = Manager(store)
    plan = help_.plan_for(folder, *stacks, rounds=1, max_new_tokens=NEW_TOKENS, **workload)
    live = manager.wait(manager.start(plan), help_.PATIENCE_S)
    manager.close()
    return Done(store.load(live.id), help_.events(store.folder(live.id)))


@pytest.fixture(scope="module")
def done(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """One comparison whose file is gone before it begins: the plan is enough."""
    other = tiny.make_llama(tmp_path_factory.mktemp("models") / "other", seed=2, vocabulary=320)
    file = tmp_path_factory.mktemp("texts") / NAME
    file.write_text(TEXT)
    text = api.choose("m", text=file).workload.text
    file.unlink()
    store = Store(tmp_path_factory.mktemp("runs"))
    yield conducted(model, store, "bf16", f"checkpoint={other}", text=text, kl_terms="llama_cpp")


def logprobs(folder: Path, ids: list[int]) -> np.ndarray:
    """Log-probability of each token after the first, given all before it, in float64."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1].numpy()
    shifted = logits - logits.max(-1, keepdims=True)
    whole = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return np.asarray(whole[range(len(ids) - 1), ids[1:]])


def tokens(folder: Path) -> list[int]:
    from transformers import AutoTokenizer

    return list(AutoTokenizer.from_pretrained(folder)(TEXT, add_special_tokens=False)["input_ids"])


def test_its_windows_are_as_long_as_the_context_and_its_perplexity_is_that_of_the_text(done: Done, model: Path) -> None:
    assert done.run.status == "done", done.run.reason
    ids = tokens(model)
    cut = [ids[:CONTEXT], ids[CONTEXT : 2 * CONTEXT], ids[2 * CONTEXT :]]
    assert len(cut[2]) > 2  # the third is the rest
    expected = [logprobs(model, part) for part in cut]
    scored = done.passages(BF16)
    assert [len(scored[f"text:{index}"]["baseline_logprob"]) for index in range(3)] == [599, 599, len(cut[2]) - 1]
    assert "text:3" not in scored and len(scored["text_timed"]["kl_divergence"]) == 64
    for index, part in enumerate(expected):
        np.testing.assert_allclose(scored[f"text:{index}"]["baseline_logprob"], part, atol=2e-4)
    found = next(variant for variant in done.run.variants if variant.key == BF16).quality
    assert found and found.text and found.text.one_pass and found.text.kl_interval
    assert found.text.positions == len(ids) - 3 and found.text.left_out == 0
    mean = math.fsum(np.concatenate(expected)) / found.text.positions
    assert found.text.baseline_perplexity == pytest.approx(math.exp(-mean), rel=1e-5)


def test_another_model_is_compared_on_its_bytes(done: Done) -> None:
    found = next(variant for variant in done.run.variants if variant.key == OTHER).quality
    assert found and found.per_byte
    cut = stretches(TEXT, tiny.CONTEXT)[:-1]
    assert (found.per_byte.bytes, found.per_byte.stretches) == (sum(len(item.text) for item in cut), len(cut))
    assert found.per_byte.bytes < len(human_text())


def test_the_run_says_what_was_measured_on_and_by_which_rule(done: Done, model: Path) -> None:
    text = done.run.workload.text
    assert text and (text.name, text.bytes, text.head) == (NAME, len(TEXT), "")
    count = len(tokens(model)) - 3
    (note,) = [note for note in done.run.notes if NAME in note]
    assert note.startswith(f"Your text ({NAME}) has {len(TEXT):,} bytes; quality is measured on {count:,} of its")
    assert "from its beginning, in 3 windows of up to 599;" in note and "in the tokens of other models." in note
    said = {caveat.id: caveat.text for caveat in done.run.caveats}
    assert "-16 or less" in said["kl_terms"]
    assert f"bytes of your text ({NAME})" in said["another_model"]


def test_what_the_reference_has_no_room_for_is_left_out_and_said(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for 900 rows: 16 of answers and 64 of the text step by step leave 820 of the text; then for 700, where the
    text has what the packaged one has, and what does not fit is told."""
    row = 4 * tiny.VOCABULARY
    for rows, lengths, left_out in ((900, [599, 221], 0), (700, [599, 85], 84 + 64)):
        monkeypatch.setattr(protocol, "REFERENCE_LIMIT_BYTES", rows * row)
        done = conducted(model, Store(tmp_path / str(rows)), "bf16", text=api.own_text(TEXT))
        scored = done.passages(BF16)
        assert [len(scored[f"text:{index}"]["kl_divergence"]) for index in range(2)] == lengths
        assert sum(score["left_out"] for score in scored.values()) == left_out
        said = [caveat for caveat in done.run.caveats if caveat.id == "positions_left_out"]
        assert [caveat.variant for caveat in said][-1:] == ([BF16] if left_out else [])


def test_one_that_makes_a_single_token_is_refused_before_anything_starts(model: Path) -> None:
    with pytest.raises(TextError, match="makes 1 token of your text, and scoring takes 2"):
        help_.plan_for(model, "bf16", text=api.own_text("a"))
    assert help_.plan_for(model, "bf16", text=api.own_text("a b c")).choice.workload.text


def test_where_only_a_worker_can_count_its_tokens_the_run_says_that_they_are_too_few(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.checkpoints, "lengths", lambda checkpoint, prompts: None)
    done = conducted(model, Store(tmp_path), "bf16", text=api.own_text("a"))
    assert done.run.status == "done", done.run.reason
    assert done.run.notes[-1] == "Your text has 1 byte, in too few tokens to be scored by them."
    found = next(variant for variant in done.run.variants if variant.key == BF16).quality
    assert found and found.kl_divergence and found.text is None
