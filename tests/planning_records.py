"""A machine, a checkpoint and a census with round numbers, for tests that plan or judge; each says what differs."""

from __future__ import annotations

from typing import Any

from optimizers.schema import Census, Checkpoint, Choice, Machine, Workload


def machine(**changes: Any) -> Machine:
    """Four cores with bf16 and VNNI, 10 GB free, every library."""
    packages = dict.fromkeys(("torch", "transformers", "torchao", "bitsandbytes", "accelerate"), "1.0")
    fields: dict[str, Any] = {
        "system": "Linux",
        "cpu": "test",
        "usable_cores": 4,
        "instruction_sets": ("avx2", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
        "memory_total_bytes": 16_000_000_000,
        "memory_available_bytes": 10_000_000_000,
        "cpp_compiler": "g++",
        "packages": packages,
    }
    return Machine(**(fields | changes))


def checkpoint(**changes: Any) -> Checkpoint:
    """100 million parameters, 80 million of them in linear layers."""
    fields: dict[str, Any] = {
        "id": "test-model",
        "source": "folder",
        "folder": "/nowhere",
        "revision": "r",
        "architecture": "LlamaForCausalLM",
        "model_type": "llama",
        "task": "text_generation",
        "parameters": 100_000_000,
        "linear_parameters": 80_000_000,
        "disk_bytes": 200_000_000,
        "stored_dtype": "bfloat16",
        "context_length": 2048,
        "vocab_size": 1000,
        "hidden_size": 100,
        "layers": 10,
        "tied_embeddings": True,
        "has_chat_template": True,
        "has_pad_token": True,
    }
    return Checkpoint(**(fields | changes))


def census(**changes: Any) -> Census:
    """A small fp32 model that nothing was done to."""
    fields: dict[str, Any] = {
        "bytes_by_dtype": {"float32": 1000},
        "modules_converted": 0,
        "modules_skipped": (),
        "attention": "sdpa",
        "attention_kernel": "flash_attention_for_cpu",
        "inference_mode": True,
        "module_kinds": {},
        "threads": 1,
    }
    return Census(**(fields | changes))


def choice(*stacks: str, baseline: str | None = None, **workload: Any) -> Choice:
    """These stacks on one prompt."""
    return Choice("test-model", stacks, Workload(**({"prompts": ("Hello",)} | workload)), baseline)
