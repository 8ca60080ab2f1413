"""The same three variants (fp32 sdpa, fp32 eager, bf16) by Levers and by optimum-benchmark: wall time, and how far each
one's decode figure is from a bare script's.

    python -m venv PEER && PEER/bin/pip install optimum-benchmark==0.6.0 "transformers<5" "torch>=2.11,<2.14"
    python tests/benchmarks/peers.py optimum-benchmark PEER/bin/python [--tokens 64]

optimum-benchmark cannot live beside transformers 5, hence its environment. It runs as it comes (a process for each
variant, ten warm-ups, ten timed requests and at least ten seconds), on prompts of the length of Levers' default ones,
and measures speed and memory. Levers runs its default comparison, which measures quality too. The bare script
(bare.py) is asked before and after both, alone on the machine. Run it with nothing else on the machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = "smollm2-135m"
VARIANTS = {
    "fp32+sdpa": ("fp32", "sdpa", "float32"),
    "fp32+eager": ("eager", "eager", "float32"),
    "bf16+sdpa": ("bf16", "sdpa", "bfloat16"),
}


def peer(folder: str, attention: str, dtype: str, prompt_tokens: int, tokens: int) -> None:
    """optimum-benchmark on one variant, in its own environment; prints its decode speed and peak memory."""
    from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, ProcessConfig, PyTorchConfig

    config = BenchmarkConfig(
        name=f"{dtype}-{attention}",
        launcher=ProcessConfig(),
        backend=PyTorchConfig(
            model=folder,
            device="cpu",
            task="text-generation",
            library="transformers",
            torch_dtype=dtype,
            attn_implementation=attention,
            no_weights=False,
        ),
        scenario=InferenceConfig(
            latency=True,
            memory=True,
            input_shapes={"batch_size": 1, "sequence_length": prompt_tokens},
            generate_kwargs={"max_new_tokens": tokens, "min_new_tokens": tokens},
        ),
    )
    decode = Benchmark.launch(config).decode
    print(json.dumps({"decode_tokens_per_s": decode.throughput.value, "ram_mb": decode.memory.max_ram}))


def readable(folder: str, into: Path) -> str:
    """The checkpoint with its tokenizer named as transformers 4 knows it."""
    shutil.copytree(folder, into, dirs_exist_ok=True)
    path = into / "tokenizer_config.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "tokenizer_class": "PreTrainedTokenizerFast"}))
    return str(into)


def theirs(python: str, folder: str, prompt_tokens: int, tokens: int) -> tuple[float, dict[str, float]]:
    """Wall seconds of all three, and each one's decode tokens/s."""
    speeds, began = {}, time.perf_counter()
    for key, (_, attention, dtype) in VARIANTS.items():
        asked = [python, __file__, "--serve", folder, attention, dtype, str(prompt_tokens), "--tokens", str(tokens)]
        done = subprocess.run(asked, capture_output=True, text=True, cwd=tempfile.mkdtemp())
        if done.returncode:
            raise SystemExit(f"optimum-benchmark failed:\n{done.stderr[-2000:]}")
        speeds[key] = json.loads(done.stdout.splitlines()[-1])["decode_tokens_per_s"]
    return time.perf_counter() - began, speeds


def ours(tokens: int) -> tuple[float, dict[str, float], float]:
    """Wall seconds of the whole command, each variant's decode tokens/s, and the mean tokens of a prompt."""
    asked = ["-m", "optimizers", "compare", MODEL, "-t", "eager", "-t", "bf16", "--max-new-tokens", str(tokens)]
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *asked, "--json"], cwd=ROOT, capture_output=True, text=True)
    took = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"Levers failed:\n{done.stderr[-2000:]}")
    run = json.loads(done.stdout)
    speeds = {item["key"]: item["latency"]["decode_tokens_per_s"]["median"] for item in run["variants"]}
    return took, speeds, run["variants"][0]["points"][0]["prompt_tokens"]


def bare(folder: str, prompts: tuple[str, ...], tokens: int) -> dict[str, list[float]]:
    """Decode tokens/s of the bare script, one process for each variant, each prompt asked twice after a warm-up."""
    from fidelity import Script

    found = {}
    for key, (technique, _, _) in VARIANTS.items():
        script = Script(str(Path(__file__).with_name("bare.py")), folder, technique, "--tokens", str(tokens))
        asked = [script.ask(prompt)["decode_tokens_per_s"] for prompt in (prompts[0], *prompts, *prompts)]
        script.close()
        found[key] = asked[1:]
    return found


def main(asked: Sequence[str] | None = None) -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("asked", nargs="+", metavar="PYTHON", help="the interpreter of optimum-benchmark's environment")
    words.add_argument("--tokens", type=int, default=64)
    words.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = words.parse_args(asked)
    if options.serve:
        folder, attention, dtype, prompt_tokens = options.asked
        return peer(folder, attention, dtype, int(prompt_tokens), options.tokens)
    sys.path.insert(0, str(ROOT))
    from optimizers import api

    folder, prompts = api.prepare(MODEL).folder, api.choose(MODEL).workload.prompts
    before = bare(folder, prompts, options.tokens)
    our_s, our_speeds, prompt_tokens = ours(options.tokens)
    copied = readable(folder, Path(tempfile.mkdtemp()) / "model")
    their_s, their_speeds = theirs(options.asked[0], copied, round(prompt_tokens), options.tokens)
    after = bare(folder, prompts, options.tokens)
    print(
        f"wall time: Levers {our_s:.0f} s with quality, optimum-benchmark {their_s:.0f} s, ratio {our_s / their_s:.2f}"
    )
    for key in VARIANTS:
        truth = statistics.median(before[key] + after[key])
        drift = statistics.median(after[key]) / statistics.median(before[key])
        print(
            f"{key:12} bare {truth:6.1f} tokens/s (after/before {drift:.3f})  Levers {our_speeds[key]:6.1f} "
            f"({our_speeds[key] / truth - 1:+.1%})  optimum-benchmark {their_speeds[key]:6.1f} "
            f"({their_speeds[key] / truth - 1:+.1%})"
        )
    return None


if __name__ == "__main__":
    main()
