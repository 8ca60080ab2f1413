"""Caches and ways of decoding in a real worker: the same answers, the same scores, chance that repeats itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from driver import WorkerProcess

from optimizers.protocol import Answered, Passage, Reference, RunRequest, Score, Scored

PROMPT = "The sea, the sea, the sea, the old captain looked at the sea"
NEW_TOKENS = 24


@pytest.fixture(scope="module")
def base(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    with WorkerProcess(tmp_path_factory.mktemp("decoding") / "log") as process:
        process.load(tiny_llama, "fp32", "sdpa")
        yield process


@pytest.mark.parametrize("name", ["static_cache", "no_cache", "prompt_lookup", "sampling"])
def test_scores_are_the_models_own_whatever_the_cache_and_the_choice_of_tokens(
    name: str, base: WorkerProcess, tiny_llama: Path, tmp_path: Path
) -> None:
    """The baseline's answer is scored step by step: temperature and nucleus must not have touched the scores, and
    guessing ahead must not have skipped any."""
    reference = Reference(str(tmp_path / "rows"), tiny.VOCABULARY, 0, 200)
    answered = base.do(RunRequest(0, PROMPT, NEW_TOKENS, reference), Answered)
    passage = Passage("answer:0", "timed", answered.prompt_ids, answered.scored_ids, 0)
    with WorkerProcess(tmp_path / "log") as variant:
        variant.load(tiny_llama, "fp32", "sdpa", name)
        own = variant.do(RunRequest(0, PROMPT, NEW_TOKENS), Answered)
        again = variant.do(RunRequest(1, PROMPT, NEW_TOKENS), Answered)
        (scores,) = variant.do(Score((passage,), reference, "read"), Scored).scores
    assert len(scores.kl_divergence) == len(answered.scored_ids)
    assert max(scores.kl_divergence) < 1e-6
    assert again.output.token_ids == own.output.token_ids
    assert (own.output.token_ids == answered.output.token_ids) is (name != "sampling")
    assert len(own.timing.token_times_s) == NEW_TOKENS
    assert own.timing.steps is not None
    assert own.timing.steps <= NEW_TOKENS


def test_tokens_that_come_together_have_the_same_time_and_stop_where_the_first_stop_token_is() -> None:
    import torch

    from optimizers.worker.generating import Streamer

    streamer = Streamer(frozenset({0}), None)
    for values in ([1, 2, 3], [5], [6, 7, 0, 8], [9]):  # the first are the prompt's
        streamer.put(torch.tensor(values))
    assert streamer.ids == [5, 6, 7, 0, 8, 9]
    assert streamer.natural_ids == [5, 6, 7]
    assert streamer.stopped
    assert streamer.steps == 3
    assert len(set(streamer.times[1:5])) == 1
    assert streamer.times == sorted(streamer.times)


def test_text_is_shown_with_the_first_token_and_then_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from optimizers.worker import generating

    clock = iter([10.0, 10.2, 10.6, 11.1, 11.2])
    monkeypatch.setattr(generating.time, "perf_counter", lambda: next(clock))
    shown: list[int] = []
    streamer = generating.Streamer(frozenset(), lambda ids, count: shown.append(count), every_s=1.0)
    for token in range(6):  # the first is the prompt's
        streamer.put(torch.tensor([token]))
    assert shown == [1, 4]


@pytest.mark.parametrize(("longest", "tokens"), [(1, 64), (64, 64), (65, 128), (0, 64)])
def test_static_caches_grow_in_steps_of_64(longest: int, tokens: int) -> None:
    from optimizers.worker.decoding import cache_tokens

    assert cache_tokens(longest) == tokens


@pytest.mark.parametrize(
    ("counts", "asked", "kind"),
    [
        (
            {"aten::scaled_dot_product_attention": 4, "aten::_scaled_dot_product_flash_attention_for_cpu": 4},
            None,
            "sdpa",
        ),
        ({"aten::softmax": 4}, "eager", "eager"),
        ({"flash_attn::_flash_attn_forward": 4}, "flash_attention_2", "flash_attention_2"),
        ({"Torch-Compiled Region: 0/0": 4}, "flex_attention", "flex_attention"),
        ({"Torch-Compiled Region: 0/0": 4, "aten::softmax": 4}, "flex_attention", "eager"),
        ({"aten::softmax": 4}, "flex_attention", "eager"),
        ({"Torch-Compiled Region: 0/0": 4}, "sdpa", "none"),
        ({}, None, "none"),
    ],
)
def test_attention_is_read_from_what_the_profiler_saw(counts: dict[str, int], asked: str | None, kind: str) -> None:
    from optimizers.worker.census import attention_in

    assert attention_in(counts, asked)[0] == kind


@pytest.mark.parametrize(
    ("mode", "device", "asked"),
    [
        ("default", "cpu", "default"),
        ("default", "cuda", "reduce-overhead"),
        ("max-autotune", "cpu", "max-autotune-no-cudagraphs"),
        ("max-autotune", "cuda", "max-autotune"),
    ],
)
def test_the_compiler_is_told_what_fits_the_device(mode: str, device: str, asked: str) -> None:
    from optimizers.worker.compiling import compile_config

    config = compile_config(mode, device)
    assert config.mode == asked
    assert config == compile_config(mode, device)  # another would be compiled anew


@pytest.mark.parametrize(
    ("device", "precision", "packed"),
    [("cpu", "float32", False), ("cpu", "bfloat16", True), ("cpu", "float16", False), ("cuda", "bfloat16", False)],
)
def test_weights_are_packed_into_compiled_code_where_that_helps(device: str, precision: str, packed: bool) -> None:
    from optimizers.techniques.shared_decoding import packs

    assert packs(device, precision) is packed
