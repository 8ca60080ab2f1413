"""Another checkpoint as a variant, by real workers on tiny ones: a baseline, one of the same tokens, one of others.
Perplexity per byte is worked out apart, in float64, from a bare forward in this process."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import manager_help as help_
import numpy as np
import pytest
import tiny
from driver import WorkerProcess

from optimizers import api, checkpoints
from optimizers.errors import CheckpointNotFound
from optimizers.manager import Manager
from optimizers.protocol import ScoreText, Stretch, TextScored
from optimizers.results import Run, VariantResult
from optimizers.schema import Checkpoint
from optimizers.store import Store
from optimizers.tasks import text_generation

OTHER_VOCABULARY = 320
BASE = "fp32+sdpa"
SAME, OTHER, GONE = (f"{BASE}+checkpoint={name}" for name in ("same", "other", "./gone"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose tokens are others, with a context of its own."""
    return tiny.make_llama(tmp_path_factory.mktemp("models") / "other", seed=2, vocabulary=OTHER_VOCABULARY)


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_llama(tmp_path_factory.mktemp("models") / "same", seed=1, hidden=32)


@pytest.fixture(scope="module")
def run(tiny_llama: Path, same: Path, other: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One comparison through the manager."""
    stacks = (f"checkpoint={same}", f"checkpoint={other}", "checkpoint=./gone")
    store = Store(tmp_path_factory.mktemp("runs"))
    manager = Manager(store)
    live = manager.wait(manager.start(help_.plan_for(tiny_llama, *stacks, rounds=2)), help_.PATIENCE_S)
    yield store.load(live.id)
    manager.close()


def result(run: Run, key: str) -> VariantResult:
    return next(variant for variant in run.variants if variant.key == key)


def nats(folder: Path, stretches: tuple[Stretch, ...]) -> float:
    """-sum of the log-probabilities of the stretches' own tokens, in float64, each given its lead. The lead's tokens
    begin those of lead and stretch here: both are cut before a space, where this tokenizer always cuts."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    total = 0.0
    for stretch in stretches:
        lead, text = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (stretch.lead, stretch.text))
        with torch.no_grad():
            logits = model(torch.tensor([lead + text])).logits[0, len(lead) - 1 : -1].numpy()
        shifted = logits - logits.max(-1, keepdims=True)
        logprobs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        total -= math.fsum(logprobs[range(len(text)), text])
    return total


def test_the_stretches_cover_the_text_without_a_gap_and_fit_the_context() -> None:
    text = text_generation.human_text()
    *stretches, timed = text_generation.stretches(text, tiny.CONTEXT)
    first = len(stretches[0].lead)
    assert stretches[0].lead + "".join(stretch.text for stretch in stretches) == text
    assert 0 < first <= 64
    at = first
    for stretch in stretches:
        assert text[:at].endswith(stretch.lead)
        assert len((stretch.lead + stretch.text).encode()) <= tiny.CONTEXT - 4
        at += len(stretch.text)
    assert (timed.text, timed.path, timed.name) == (stretches[0].text, "timed", "bytes_timed")
    assert text_generation.stretches(text, 20) == ()
    assert all(len(s.lead.encode()) + len(s.text.encode()) <= 768 for s in text_generation.stretches(text, 0))
    letters = "\u00e9\u4e2d" * 400  # no space to cut at: between two letters
    cut = text_generation.stretches(letters, 0)[:-1]
    assert cut[0].lead + "".join(stretch.text for stretch in cut) == letters


def test_a_model_of_other_tokens_is_judged_by_the_bytes_of_the_same_text(
    run: Run, tiny_llama: Path, other: Path
) -> None:
    assert run.status == "done", run.reason
    measured = result(run, OTHER)
    quality = measured.quality
    assert measured.status == "measured", measured.reason
    assert quality and quality.per_byte
    assert (quality.kl_divergence, quality.same_top, quality.text, quality.exact_match_rate) == (None,) * 4
    assert (quality.first_divergence, quality.positions, quality.length_ratio) == ((), 0, None)
    stretches = text_generation.stretches(text_generation.human_text(), tiny.CONTEXT)[:-1]
    count = sum(len(stretch.text.encode()) for stretch in stretches)
    found = quality.per_byte
    assert (found.bytes, found.stretches, found.one_pass, found.same_tokenizer) == (count, len(stretches), True, False)
    ours, theirs = nats(other, stretches), nats(tiny_llama, stretches)
    assert found.perplexity == pytest.approx(math.exp(ours / count), rel=1e-6)
    assert found.baseline_perplexity == pytest.approx(math.exp(theirs / count), rel=1e-6)
    assert found.ratio.value == pytest.approx(math.exp((ours - theirs) / count), rel=1e-6)
    assert found.bits_per_byte == pytest.approx(ours / count / math.log(2), rel=1e-6)
    assert found.ratio.low is not None and found.ratio.low < found.ratio.value < (found.ratio.high or 0.0)
    assert found.tokens > found.baseline_tokens  # fewer entries, shorter tokens
    assert found.spelled and found.left_out == 0
    said = {caveat.id: caveat.text for caveat in run.caveats if caveat.variant == OTHER}
    assert (
        f"perplexity per byte {found.perplexity:.3f} against {found.baseline_perplexity:.3f}" in said["another_model"]
    )
    assert "it writes" in said["other_tokens"]


def test_a_model_of_the_same_tokens_keeps_what_is_counted_in_tokens(run: Run, tiny_llama: Path, same: Path) -> None:
    measured = result(run, SAME)
    quality = measured.quality
    assert quality and quality.kl_divergence and quality.same_top and quality.text and quality.per_byte
    assert quality.kl_divergence.mean > 0.01  # the two are not alike
    assert len(quality.first_divergence) == 2
    stretches = text_generation.stretches(text_generation.human_text(), tiny.CONTEXT)[:-1]
    count = sum(len(stretch.text.encode()) for stretch in stretches)
    assert quality.per_byte.perplexity == pytest.approx(math.exp(nats(same, stretches) / count), rel=1e-6)
    assert quality.per_byte.tokens == quality.per_byte.baseline_tokens
    assert quality.per_byte.baseline_perplexity == result(run, OTHER).quality.per_byte.baseline_perplexity  # type: ignore[union-attr]


def test_each_is_measured_as_what_it_is_and_one_that_is_not_there_is_left_out(
    run: Run, same: Path, other: Path
) -> None:
    assert [(variant.key, variant.status) for variant in run.variants] == [
        (BASE, "measured"),
        (SAME, "measured"),
        (OTHER, "measured"),
        (GONE, "skipped"),
    ]
    gone = result(run, GONE)
    assert "There is no folder ./gone" in (gone.reason or "") and gone.remedy
    for key, folder in ((SAME, same), (OTHER, other)):
        variant = result(run, key)
        assert variant.model and variant.model.id == str(folder)
        assert variant.census and variant.memory and variant.versus_baseline
        assert variant.title == f"{folder.name} in place of tiny-llama"
        assert [output.prompt for output in variant.outputs] == [0, 1]
    small, base = result(run, SAME).memory, result(run, BASE).memory
    assert small and base and small.weights_bytes < base.weights_bytes
    assert result(run, BASE).model is None
    keyed = {caveat.variant for caveat in run.caveats if caveat.id == "another_model"}
    assert keyed == {SAME, OTHER}


def test_step_by_step_and_in_one_pass_agree_and_what_does_not_fit_is_left_out(other: Path, tmp_path: Path) -> None:
    *stretches, timed = text_generation.stretches(text_generation.human_text(), tiny.CONTEXT)
    long = Stretch("bytes:9", "one_pass", "Alice", " was beginning" * 100)
    with WorkerProcess(tmp_path / "log") as worker:
        worker.load(other, "fp32", "sdpa")
        scores = worker.do(
            ScoreText(
                (timed, long, stretches[0]),
            ),
            TextScored,
        ).scores
    assert [score.name for score in scores] == ["bytes_timed", "bytes:0"]
    assert scores[0].logprob == pytest.approx(scores[1].logprob, abs=1e-3)
    assert scores[0].logprob == pytest.approx(-nats(other, (stretches[0],)), rel=1e-6)
    assert (scores[0].bytes, scores[0].tokens) == (scores[1].bytes, scores[1].tokens)


def test_the_same_tokens_are_the_same_file_and_width(tiny_llama: Path, same: Path, other: Path, tmp_path: Path) -> None:
    one, two, three = (api.prepare(str(folder)) for folder in (tiny_llama, same, other))
    assert checkpoints.same_tokenizer(one, two)
    assert not checkpoints.same_tokenizer(one, three)
    wide = tiny.make_llama(tmp_path / "wide")
    tiny.edit_config(wide, vocab_size=tiny.VOCABULARY + 64)
    assert not checkpoints.same_tokenizer(one, api.prepare(str(wide)))
    tiny.edit_config(wide, vocab_size=tiny.VOCABULARY)
    file = wide / "tokenizer.json"
    said = json.loads(file.read_text()) | {"padding": None, "truncation": {"max_length": 8}}
    file.write_text(json.dumps(said, indent=3))  # laid out anew, with the length of somebody's last call
    assert checkpoints.same_tokenizer(one, api.prepare(str(wide)))
    said["model"]["merges"].reverse()
    file.write_text(json.dumps(said))
    assert not checkpoints.same_tokenizer(one, api.prepare(str(wide)))
    file.write_text("{")
    assert not checkpoints.same_tokenizer(one, api.prepare(str(wide)))


def test_where_folders_are_not_opened_and_what_is_known_to_fail_is_left_out(
    tiny_llama: Path, same: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = api.prepare, []

    def prepare(model: str, progress: api.Progress | None = None, folders: bool = True) -> Checkpoint:
        asked.append((model, folders))
        return real(model, progress, folders or model == str(tiny_llama))

    monkeypatch.setattr(api, "prepare", prepare)
    choice = api.choose(str(tiny_llama), [f"checkpoint={same}", "checkpoint=known+bf16"])
    failed = CheckpointNotFound("It is known to be gone.", "Leave it.")
    skipped = api.plan(choice, folders=False, unusable={"known": failed}).skipped
    assert [item.obstacle.reason for item in skipped] == [
        "This page does not open folders of the machine it runs on.",
        "It is known to be gone.",
    ]
    assert asked == [(str(tiny_llama), False), (str(same), False)]
