"""Checks on a machine with a CUDA GPU: which techniques run there, what they really did, and that times and memory are
the device's. Prints a table and ends with code 1 when a check fails. Run by run.sh; not part of CI."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import tiny  # noqa: E402

from optimizers import api  # noqa: E402
from optimizers.results import Run, VariantResult  # noqa: E402

STACKS = (
    "bf16",
    "bf16+eager",
    "bf16+flash_attention_2",
    "bf16+torchao_int8_weight_only",
    "bf16+torchao_int4_weight_only",
    "bf16+torchao_float8_dynamic",
    "bf16+bnb_int8",
    "bf16+bnb_nf4",
    "bf16+compile",
)
MEMORY = {"weights": "weights_bytes", "peak": "run_peak_bytes", "process": "process_bytes", "others": "others_bytes"}
Check = tuple[str, bool]


def main() -> int:
    """Compare on a checkpoint made on the spot and hold the result against what must be so on a GPU."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("work", type=Path, help="a folder to work in")
    words.add_argument("-t", "--technique", action="append", help="stacks to check, instead of all")
    options = words.parse_args()
    console = Console(width=160)
    machine = api.techniques().machine
    if not machine.gpus:
        console.print("PyTorch sees no CUDA GPU here: nothing to check.")
        return 1
    folder = _wide_llama(options.work / "wide-llama")
    stacks = options.technique or STACKS
    run = api.compare(str(folder), stacks, rounds=5, max_new_tokens=64)
    console.print(_table(run, f"{machine.gpus[0].name}, PyTorch {machine.packages['torch']}"))
    checks = [check for variant in run.variants for check in _checks(variant)]
    if any(variant.key == "bf16+sdpa" for variant in run.variants):
        checks += [_halved(run)]
    for text, fine in checks:
        console.print(f"{'ok  ' if fine else 'FAIL'}  {text}", highlight=False)
    return 0 if all(fine for _, fine in checks) else 1


def _wide_llama(folder: Path) -> Path:
    """A random Llama of about 200 million parameters, whose widths every quantizer's groups divide."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tiny.VOCABULARY,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=16,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=0,
        pad_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tiny.make_tokenizer(folder, chat=True, pad=True)
    return folder


def _checks(variant: VariantResult) -> list[Check]:
    """What must hold for a variant on a GPU: that it was measured, unless a package that it needs is not here, and that
    the figures are the device's."""
    if variant.status == "skipped" and "not installed" in (variant.reason or ""):
        return []
    if variant.status != "measured":
        return [(f"{variant.key}: it runs on this GPU", False)]
    memory, latency, census = variant.memory, variant.latency, variant.census
    assert memory and latency and census and latency.stages and latency.ttft_s
    attention = next((name for name in ("eager", "flash_attention_2") if name in variant.techniques), "sdpa")
    rules: dict[str, Callable[[], bool]] = {
        "memory is the GPU's": lambda: memory.device == "cuda",
        "weights <= steady <= peak <= reserved": lambda: (
            memory.weights_bytes
            <= (memory.steady_bytes or 0)
            <= (memory.run_peak_bytes or 0)
            <= (memory.reserved_peak_bytes or 0)
        ),
        "the driver tells the energy of its tokens": lambda: (
            latency.joules_per_token is not None and 0 < latency.joules_per_token.median < 100
        ),
        f"attention is {attention}": lambda: census.attention == attention,
        "the prompt's time ends before the first token": lambda: 0 < latency.stages.prefill_s <= latency.ttft_s.median,
        "the prompt's time is most of that, so it was waited for": lambda: (
            latency.stages.prefill_s >= 0.3 * latency.ttft_s.median
        ),
    }
    return [(f"{variant.key}: {text}", rule()) for text, rule in rules.items()]


def _halved(run: Run) -> Check:
    half = next(variant.memory for variant in run.variants if variant.key == "bf16+sdpa")
    base = run.variants[0].memory
    fine = half is not None and base is not None and 0.45 < half.weights_bytes / base.weights_bytes < 0.55
    return "bf16 weights are half of fp32's", fine


def _table(run: Run, title: str) -> Table:
    table = Table(title=title)
    for head in (*("variant", "status", "attention", "tokens/s", "J/token", "first token, ms"), *MEMORY, "KL"):
        table.add_column(head)
    for variant in run.variants:
        memory, latency, census, quality = variant.memory, variant.latency, variant.census, variant.quality
        rate = latency.decode_tokens_per_s if latency else None
        energy = latency.joules_per_token if latency else None
        first = latency.ttft_s if latency else None
        kl = quality.kl_divergence if quality else None
        table.add_row(
            variant.key,
            variant.status if variant.status == "measured" else f"{variant.status}: {variant.reason}",
            census.attention_kernel if census else "",
            f"{rate.median:.0f}" if rate else "",
            f"{energy.median:.3g}" if energy else "",
            f"{first.median * 1e3:.1f}" if first else "",
            *(_megabytes(memory, name) for name in MEMORY.values()),
            f"{kl.mean:.5f}" if kl else "",
        )
    return table


def _megabytes(memory: object, name: str) -> str:
    value = getattr(memory, name, None)
    return "" if value is None else f"{value / 1e6:.0f} MB"


if __name__ == "__main__":
    raise SystemExit(main())
