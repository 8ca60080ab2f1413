"""One real worker on a tiny Llama: requests, answers, refusals, and what it uses while it waits."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from driver import WorkerProcess, facts

from optimizers.protocol import (
    Answered,
    Failed,
    Load,
    Loaded,
    MemoryTaken,
    Ready,
    RunRequest,
    Save,
    Saved,
    TakeCensus,
    TakeMemory,
    Tokenize,
    Tokenized,
    WarmedUp,
    WarmUp,
)

PROMPT = "The old captain looked at the sea"
NEW_TOKENS = 24


@pytest.fixture(scope="module")
def worker(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    with WorkerProcess(tmp_path_factory.mktemp("worker") / "log") as process:
        process.load(tiny_llama, "fp32", "sdpa", threads=2)
        yield process


@pytest.fixture(scope="module")
def bare(tiny_llama: Path) -> tuple[list[int], list[int], str]:
    """Prompt ids, greedy ids and text from a bare generate() in this process."""
    return bare_generate(tiny_llama, PROMPT, NEW_TOKENS)


def bare_generate(folder: Path, prompt: str, new_tokens: int) -> tuple[list[int], list[int], str]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
    if tokenizer.chat_template:
        messages = [{"role": "user", "content": prompt}]
        inputs = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
    else:
        inputs = tokenizer(prompt, return_tensors="pt")
    # what generate() ends at is set to a token that does not exist
    output = model.generate(**inputs, max_new_tokens=new_tokens, do_sample=False, eos_token_id=10**6, pad_token_id=0)
    prompt_ids = inputs["input_ids"][0].tolist()
    ids = output[0, len(prompt_ids) :].tolist()
    return prompt_ids, ids, tokenizer.decode(ids, skip_special_tokens=True)


def test_answers_are_those_of_a_bare_generate(worker: WorkerProcess, bare: tuple[list[int], list[int], str]) -> None:
    prompt_ids, ids, text = bare
    answered = worker.do(RunRequest(7, PROMPT, NEW_TOKENS), Answered)
    assert answered.request == 7
    assert list(answered.prompt_ids) == prompt_ids
    natural = ids[: ids.index(0)] if 0 in ids else ids
    assert list(answered.output.token_ids) == natural
    assert answered.output.generated == NEW_TOKENS
    if natural == ids:
        assert answered.output.text == text
    ends = answered.output.text_ends
    assert len(ends) == len(natural) and ends[-1] == len(answered.output.text) and list(ends) == sorted(ends)
    again = worker.do(RunRequest(8, PROMPT, NEW_TOKENS), Answered)
    assert again.output.token_ids == answered.output.token_ids


def test_the_answer_streams(worker: WorkerProcess) -> None:
    answered = worker.do(RunRequest(3, PROMPT, NEW_TOKENS), Answered)
    assert worker.tokens
    assert worker.tokens[0].request == 3
    assert all(answered.output.text.startswith(tokens.text.rstrip("�")) for tokens in worker.tokens)


def test_times_are_in_order_and_account_for_the_request(worker: WorkerProcess) -> None:
    timing = worker.do(RunRequest(0, PROMPT, NEW_TOKENS), Answered).timing
    assert len(timing.token_times_s) == NEW_TOKENS
    assert list(timing.token_times_s) == sorted(timing.token_times_s)
    assert 0 < timing.tokenize_s < timing.ttft_s
    assert 0 < timing.prefill_s < timing.ttft_s
    assert timing.ttft_s == timing.token_times_s[0]
    assert timing.token_times_s[-1] < timing.total_s
    assert timing.detokenize_s > 0
    assert timing.processor_s > 0
    assert timing.threads == 2
    assert timing.others_s is None or timing.others_s >= 0


def test_one_new_token_works(worker: WorkerProcess, bare: tuple[list[int], list[int], str]) -> None:
    answered = worker.do(RunRequest(0, PROMPT, 1), Answered)
    assert answered.scored_ids == (bare[1][0],)
    assert len(answered.timing.token_times_s) == 1


def test_tokens_of_plain_text_have_no_special_ones(worker: WorkerProcess, tiny_llama: Path) -> None:
    from tokenizers import Tokenizer

    expected = Tokenizer.from_file(str(tiny_llama / "tokenizer.json")).encode("a whale", add_special_tokens=False).ids
    assert list(worker.do(Tokenize("a whale"), Tokenized).token_ids) == expected


@pytest.mark.parametrize("count", [0, -1])
def test_no_new_tokens_are_refused(worker: WorkerProcess, count: int) -> None:
    failure = worker.do(RunRequest(0, PROMPT, count), Failed)
    assert failure.command == "run"
    assert "at least 1" in failure.remedy


def test_a_prompt_longer_than_the_context_is_refused_with_counts(worker: WorkerProcess) -> None:
    failure = worker.do(RunRequest(0, PROMPT, 100_000), Failed)
    assert "100000" in failure.reason
    assert str(tiny.CONTEXT) in failure.reason
    assert "Shorten the prompt" in failure.remedy


@pytest.mark.parametrize(
    "line", [b"nonsense\n", b'{"kind": "dance"}\n', b'{"kind": "run", "request": "x"}\n', b"\xff\n"]
)
def test_a_line_that_is_no_command_is_answered_and_survived(worker: WorkerProcess, line: bytes) -> None:
    worker.send_raw(line)
    failure = worker.closing()
    assert isinstance(failure, Failed)
    assert "does not know" in failure.reason
    worker.do(RunRequest(0, PROMPT, 1), Answered)


def test_a_second_load_is_refused(worker: WorkerProcess, tiny_llama: Path) -> None:
    failure = worker.do(Load(facts(tiny_llama), ("fp32", "sdpa"), 1, 0, 64), Failed)
    assert "already" in failure.reason


def test_memory_by_phase(worker: WorkerProcess) -> None:
    worker.do(WarmUp(PROMPT, 2), WarmedUp)
    worker.do(RunRequest(0, PROMPT, 4), Answered)
    memory = worker.do(TakeMemory(), MemoryTaken).memory
    assert memory.steady_bytes is not None
    assert memory.steady_file_bytes is not None
    assert 0 < memory.steady_file_bytes < memory.steady_bytes
    if memory.load_peak_bytes is not None:
        assert memory.load_peak_bytes >= memory.runtime_bytes
        assert memory.run_peak_bytes is not None
        assert memory.run_peak_bytes >= memory.weights_bytes


def test_saves_what_from_pretrained_reads(worker: WorkerProcess, tmp_path: Path) -> None:
    saved = worker.do(Save(str(tmp_path / "saved")), Saved)
    assert saved.bytes > 4 * 98_624  # its parameters, in fp32
    assert bare_generate(tmp_path / "saved", PROMPT, 4)[1] == bare_generate(Path(saved.folder), PROMPT, 4)[1]
    generation = (tmp_path / "saved" / "generation_config.json").read_text()
    assert '"eos_token_id": 0' in generation


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processor accounts are read from /proc")
def test_a_worker_that_waits_uses_no_processor_time(worker: WorkerProcess) -> None:
    worker.do(RunRequest(0, PROMPT, 4), Answered)
    time.sleep(0.2)
    before = processor_ticks(worker.pid)
    time.sleep(2.0)
    assert processor_ticks(worker.pid) - before <= 2  # ticks of a hundredth of a second, in two seconds


def processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 100 // os.sysconf("SC_CLK_TCK")


def edit_tokenizer(folder: Path, **changes: object) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_stop_tokens_end_the_natural_answer_and_not_the_request(
    tiny_llama: Path, bare: tuple[list[int], list[int], str], tmp_path: Path
) -> None:
    """Every stop token of the checkpoint counts: here one that only its generation config names, in a list. The
    tokenizer also returns token_type_ids, which the model refuses."""
    _, ids, _ = bare
    stop_at = next(at for at in range(2, NEW_TOKENS) if ids[at] not in ids[:at] and ids[at] != 0)
    assert 0 not in ids[: stop_at + 1]
    folder = tmp_path / "stopping"
    shutil.copytree(tiny_llama, folder)
    edit_tokenizer(folder, model_input_names=["input_ids", "token_type_ids", "attention_mask"])
    path = folder / "generation_config.json"
    path.write_text(path.read_text().replace('"eos_token_id": 0', f'"eos_token_id": [0, {ids[stop_at]}]'))
    with WorkerProcess(tmp_path / "log") as process:
        process.load(folder, "fp32", "sdpa")
        answered = process.do(RunRequest(0, PROMPT, NEW_TOKENS), Answered)
    assert answered.output.stopped
    assert list(answered.output.token_ids) == ids[:stop_at]
    assert list(answered.scored_ids) == ids[: stop_at + 1]
    assert answered.output.generated == NEW_TOKENS
    assert len(answered.timing.token_times_s) == NEW_TOKENS


def test_a_base_model_without_pad_token_gets_the_raw_prompt_and_says_so(tiny_gpt2: Path, tmp_path: Path) -> None:
    prompt_ids, ids, _ = bare_generate(tiny_gpt2, PROMPT, 8)
    with WorkerProcess(tmp_path / "log") as process:
        loaded = process.load(tiny_gpt2, "fp32", "sdpa")
        answered = process.do(RunRequest(0, PROMPT, 8), Answered)
    assert list(answered.prompt_ids) == prompt_ids
    assert list(answered.scored_ids) == (ids[: ids.index(0) + 1] if 0 in ids else ids)
    assert any("raw prompt" in note for note in loaded.notes)
    assert any("padding token" in note for note in loaded.notes)


def test_failures_to_load_leave_the_worker_alive(tiny_llama: Path, tmp_path: Path) -> None:
    pickled = tmp_path / "pickled"
    shutil.copytree(tiny_llama, pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    cut = tmp_path / "cut"
    shutil.copytree(tiny_llama, cut)
    weights = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with WorkerProcess(tmp_path / "log") as process:
        assert isinstance(process.next_event(), Ready)
        assert "No model is loaded" in process.do(RunRequest(0, PROMPT, 4), Failed).reason
        assert "No model is loaded" in process.do(TakeCensus(), Failed).reason
        unknown = process.do(Load(facts(tiny_llama), ("fp64",), 1, 0, 64), Failed)
        assert '"fp64"' in unknown.reason
        assert "bf16" in unknown.remedy
        for folder in (pickled, cut):
            failure = process.do(Load(facts(folder), ("fp32", "sdpa"), 1, 0, 64), Failed)
            assert failure.reason.endswith(".")
            assert failure.remedy.endswith(".")
            assert "Traceback" not in failure.reason
        assert isinstance(process.ask(Load(facts(tiny_llama), ("fp32", "sdpa"), 1, 0, 64)), Loaded)
    log = (tmp_path / "log").read_text()
    assert '"fp64"' in log
    assert "Traceback" not in log  # these were raised on purpose
