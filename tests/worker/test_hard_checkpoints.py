"""Whole comparisons of checkpoints and requests at the edge of what can be run, by real workers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import manager_help as help_
import tiny

from optimizers.manager import Manager
from optimizers.results import Run
from optimizers.store import Store


def finished(manager: Manager, store: Store, folder: Path, *stacks: str, **workload: Any) -> Run:
    plan = help_.plan_for(folder, *stacks, **({"rounds": 1, "max_new_tokens": 2, "prompts": ["Alice"]} | workload))
    run_id = manager.start(plan)
    live = manager.wait(run_id, 2 * help_.PATIENCE_S)
    assert live.status != "running", live
    return store.load(run_id)


def statuses(run: Run) -> dict[str, str]:
    return {variant.key: variant.status for variant in run.variants}


def test_a_request_that_fills_the_context_to_its_last_token(manager: Manager, store: Store, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    folder = tiny.make_llama(tmp_path / "llama", chat=False, pad=False)
    prompt = "Alice was beginning"
    length = len(Tokenizer.from_file(str(folder / "tokenizer.json")).encode(prompt).ids)
    tiny.edit_config(folder, max_position_embeddings=length + 1)
    run = finished(manager, store, folder, "eager", prompts=[prompt], max_new_tokens=1)
    assert (run.status, run.reason) == ("done", None)
    assert statuses(run) == {"fp32+sdpa": "measured", "fp32+eager": "measured"}
    assert run.variants[0].latency is not None
    assert run.variants[0].latency.decode_tokens_per_s is None  # one token has no time between tokens


def test_a_checkpoint_with_transformers_code_runs_transformers_own(
    manager: Manager, store: Store, tiny_llama: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_llama, tmp_path / "llama")
    ran = tmp_path / "ran"
    for name in ("modeling_llama", "configuration_llama"):
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    own = {"AutoConfig": "configuration_llama.LlamaConfig", "AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM"}
    tiny.edit_config(folder, auto_map=own)
    run = finished(manager, store, folder, "fp32")
    assert statuses(run) == {"fp32+sdpa": "measured"}
    assert not ran.exists()
    assert any("program code of its own" in caveat.text for caveat in run.caveats)


def test_a_model_without_fused_attention_is_measured(manager: Manager, store: Store, tmp_path: Path) -> None:
    from transformers import BloomConfig, BloomForCausalLM

    folder = tmp_path / "bloom"
    BloomForCausalLM(BloomConfig(vocab_size=tiny.VOCABULARY, hidden_size=32, n_layer=1, n_head=2)).save_pretrained(
        folder
    )
    tiny.make_tokenizer(folder, chat=False, pad=True)
    run = finished(manager, store, folder, "bf16", "sdpa")
    assert statuses(run) == {"fp32+eager": "measured", "bf16+eager": "measured", "fp32+sdpa": "skipped"}
    assert any("no fused attention" in note for note in run.notes)


def test_a_quantized_checkpoint_is_measured_as_it_is(
    manager: Manager, store: Store, tiny_llama: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    folder = shutil.copytree(tiny_llama, tmp_path / "nf4")
    (folder / "model.safetensors").unlink()
    how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
    AutoModelForCausalLM.from_pretrained(tiny_llama, quantization_config=how).save_pretrained(folder)
    run = finished(manager, store, folder, "bf16", "eager", "bnb_nf4")
    assert statuses(run) == {
        "library_default": "measured",
        "bf16+sdpa": "not_applied",
        "stored+eager": "measured",
        "stored+sdpa+bnb_nf4": "skipped",
    }
    assert run.baseline == "library_default"
    assert "quantized already" in run.notes[0]
    census = run.variants[0].census
    assert census is not None
    assert census.quantization == "bitsandbytes"
    assert census.bytes_by_dtype["uint8"] > 0


def test_a_baseline_that_was_not_applied_ends_the_run_with_its_reason(
    manager: Manager, store: Store, tiny_gpt2: Path
) -> None:
    run = finished(manager, store, tiny_gpt2, "eager", baseline="int8_dynamic")
    assert run.status == "failed"
    assert run.reason is not None
    assert run.reason.startswith("The baseline failed. ")
    assert "Conv1D" in run.reason
    assert statuses(run) == {"fp32+sdpa+int8_dynamic": "failed", "fp32+eager+int8_dynamic": "cancelled"}
    assert all(variant.latency is None for variant in run.variants)
