"""Parts of the worker and of the techniques on their own: failures in words, processor accounts, proofs."""

from __future__ import annotations

import io
import sys
import time
import warnings
from pathlib import Path

import planning_records as make
import pytest
from driver import WorkerProcess, facts

from optimizers.errors import WorkerError
from optimizers.protocol import CensusTaken, MemoryTaken, Save, Saved, TakeCensus, TakeMemory
from optimizers.schema import SkippedModule
from optimizers.techniques import all_techniques
from optimizers.techniques.graphs.backed import GraphBacked
from optimizers.worker import clock
from optimizers.worker.__main__ import main
from optimizers.worker.failures import failed
from optimizers.worker.saving import saved_bytes
from optimizers.worker.session import Session


def verdict(name: str, folder: Path, **changes: object) -> str | None:
    obstacle = all_techniques()[name].verify(make.census(**changes), facts(folder))
    return None if obstacle is None else obstacle.reason


def test_out_of_memory_has_a_sentence_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    import torch

    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 58)
    for error in (caught.value, MemoryError()):
        event = failed("load", error)
        assert "more memory than this machine had free" in event.reason
        assert event.remedy
    assert "Traceback" not in event.reason
    assert "alloc" in capfd.readouterr().err.lower()


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (WorkerError("It broke.", "Mend it."), "It broke."),
        (ImportError("no torchao", name="torchao"), "torchao could not be imported"),
        (ValueError("first line\nsecond line"), "Answering the prompt failed: first line."),
        (KeyError(), "KeyError"),
        (RuntimeError("x" * 5000), "…"),
    ],
)
def test_failures_are_one_short_line(error: Exception, part: str, capfd: pytest.CaptureFixture[str]) -> None:
    event = failed("run", error)
    assert part in event.reason
    assert "\n" not in event.reason
    assert len(event.reason) < 500
    assert event.command == "run"
    assert capfd.readouterr().err


def test_a_technique_explains_the_errors_that_it_knows(capfd: pytest.CaptureFixture[str]) -> None:
    techniques = (all_techniques()["fp32"], all_techniques()["bnb_nf4"])
    event = failed("run", AssertionError("N must be divisible by block_n"), techniques)
    assert "4-bit kernel" in event.reason
    assert "8-bit" in event.remedy
    assert "block_n" in failed("run", AssertionError("N must be divisible by block_n")).reason
    assert "AssertionError" in capfd.readouterr().err


def test_windows_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["--commands", "3", "--events", "4"]) == 2
    assert "WSL" in capsys.readouterr().err


def test_scores_that_are_no_numbers_are_refused() -> None:
    import torch

    from optimizers.worker.scoring import logprobs_of

    for bad in (float("nan"), float("inf")):
        with pytest.raises(WorkerError, match="not numbers"):
            logprobs_of(torch.tensor([[0.0, 1.0], [0.0, bad]]))


def test_kl_of_two_rows_worked_out_by_hand() -> None:
    """Base (1/2, 1/2, 0) against (1/4, 3/4, 0): 0.5 ln 2 + 0.5 ln (2/3) = 0.143841; a word that base never says
    counts nothing, whatever the other says."""
    import torch

    from optimizers.worker.scoring import kl_divergence

    base = torch.tensor([[0.5, 0.5, 0.0]]).log()
    own = torch.tensor([[0.25, 0.75, 0.0]]).log().clamp(min=-1e4)
    assert kl_divergence(base, own).item() == pytest.approx(0.14384103622589042, rel=1e-6)
    assert kl_divergence(base, base.clamp(min=-1e4)).item() == 0.0


def test_processor_accounts_tell_work_from_waiting() -> None:
    """Compares processor seconds with processor seconds: how long it all takes does not matter."""
    before = clock.account()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    busy = clock.usage(before, clock.account())
    before = clock.account()
    time.sleep(0.2)
    idle = clock.usage(before, clock.account())
    assert busy.processor_s >= 0.2
    assert idle.processor_s < busy.processor_s
    for used in (busy, idle):
        assert used.waited_s is None or used.waited_s >= 0
        assert used.others_s is None or used.others_s >= 0


def test_a_precision_is_proven_by_the_bytes_in_memory(tiny_llama: Path) -> None:
    assert verdict("fp32", tiny_llama) is None
    reason = verdict("bf16", tiny_llama)
    assert reason is not None
    assert "float32" in reason
    assert verdict("bf16", tiny_llama, bytes_by_dtype={"bfloat16": 900, "float32": 100}) is None
    # under a quantizer the scales may outweigh what is left in the precision asked for
    scales = {"float32": 500, "bfloat16": 400, "uint8": 4000}
    assert verdict("bf16", tiny_llama, bytes_by_dtype=scales, modules_converted=9) is None
    assert verdict("fp16", tiny_llama, bytes_by_dtype=scales, modules_converted=9) is not None


def test_an_attention_is_proven_by_what_ran(tiny_llama: Path) -> None:
    assert verdict("sdpa", tiny_llama) is None
    assert "fell back" in str(verdict("sdpa", tiny_llama, attention_kernel="attention_math"))
    assert "eager" in str(verdict("sdpa", tiny_llama, attention="eager", attention_kernel="matmul and softmax"))
    assert "sdpa" in str(verdict("eager", tiny_llama))


@pytest.mark.parametrize("name", ["int8_dynamic", "torchao_int8_weight_only", "bnb_nf4"])
def test_a_quantizer_is_proven_by_the_layers_that_it_converted(name: str, tiny_llama: Path) -> None:
    head = SkippedModule("lm_head", "output head: left as it was", 1)
    conv = SkippedModule("h.0.c_attn", "Conv1D layer, not nn.Linear", 8)
    assert verdict(name, tiny_llama, modules_converted=14, modules_skipped=(head,)) is None
    assert verdict(name, tiny_llama, modules_converted=14, modules_skipped=(conv,)) is None
    assert "nothing but the output head" in str(verdict(name, tiny_llama, modules_converted=1, modules_skipped=(conv,)))
    assert "nothing changed" in str(verdict(name, tiny_llama, modules_skipped=(conv, head)))
    assert "no layer to convert" in str(verdict(name, tiny_llama, modules_skipped=(head,)))
    assert "gptq" in str(verdict(name, tiny_llama, modules_converted=14, quantization="gptq"))


@pytest.mark.parametrize("stack", [("fp32", "sdpa"), ("fp32", "sdpa", "int8_dynamic")])
def test_the_saved_file_is_weighed_as_torch_writes_it(stack: tuple[str, ...], tiny_llama: Path, tmp_path: Path) -> None:
    import torch
    from torch.ao.quantization import quantize_dynamic
    from transformers import AutoModelForCausalLM

    with WorkerProcess(tmp_path / "log") as worker:
        worker.load(tiny_llama, *stack)
        plain = worker.do(TakeMemory(), MemoryTaken).memory
        weighed = worker.do(TakeMemory(saved=True), MemoryTaken).memory
        later = worker.do(TakeMemory(), MemoryTaken).memory
    model = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
    if "int8_dynamic" in stack:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    assert weighed.saved_bytes == later.saved_bytes == len(file.getvalue())
    assert plain.saved_bytes is None


def test_no_saved_file_is_weighed_of_a_graph() -> None:
    """Whether its class has a state to be saved (an empty one) or none."""
    import torch

    class WithState(GraphBacked, torch.nn.Module):
        pass

    assert saved_bytes(WithState()) is None
    assert saved_bytes(GraphBacked()) is None


def test_what_a_pass_reads_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(generator: object) -> None:
        raise AttributeError("no such part")

    session = Session(lambda event: None)
    monkeypatch.setattr(session, "_ready", lambda: None)
    monkeypatch.setattr("optimizers.worker.demand.count", broken)
    assert session._demand() is None


def test_a_quantized_checkpoint_shows_what_is_in_memory(tiny_llama: Path, tmp_path: Path) -> None:
    """Saved in 4 bits by one worker, loaded by another with bf16 ticked: the checkpoint's own quantization wins."""
    saved = tmp_path / "saved"
    with WorkerProcess(tmp_path / "log") as worker:
        worker.load(tiny_llama, "fp32", "sdpa", "bnb_nf4")
        before = worker.do(TakeCensus(), CensusTaken).census
        worker.do(Save(str(saved)), Saved)
    with WorkerProcess(tmp_path / "log2") as worker:
        worker.load(saved, "bf16", "sdpa")
        taken = worker.do(TakeCensus(), CensusTaken)
    assert facts(saved).quantization == "bitsandbytes"
    assert taken.census.quantization == "bitsandbytes"
    assert taken.census.bytes_by_dtype["uint8"] == before.bytes_by_dtype["uint8"]
    assert taken.census.modules_converted == 14
    assert taken.obstacle is not None
    assert "already quantized" in taken.obstacle.reason
    assert before.quantization is None
