"""The bare script that Levers' figures are held against: load with transformers, call generate(), look at the clock.

Reads prompts, one JSON string a line, from its input; for each prints {"ttft_s", "decode_tokens_per_s"}. Decode speed
comes from two calls, one of N tokens and one of 1, so that it shares no clockwork (streamer, hooks) with Levers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, GenerationConfig, TorchAoConfig


def load(folder: str, technique: str):
    options: dict[str, object] = {"dtype": torch.float32}
    if technique == "bf16":
        options = {"dtype": torch.bfloat16}
    elif technique == "torchao_int8_weight_only":
        from torchao.quantization import Int8WeightOnlyConfig

        options["quantization_config"] = TorchAoConfig(Int8WeightOnlyConfig())
    elif technique == "bnb_nf4":
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32
        )
    elif technique != "fp32":
        raise SystemExit(f"bare.py does not know {technique}")
    return AutoModelForCausalLM.from_pretrained(folder, **options).eval(), AutoTokenizer.from_pretrained(folder)


def seconds(model, inputs, tokens: int) -> float:
    config = GenerationConfig(max_new_tokens=tokens, do_sample=False, eos_token_id=None, pad_token_id=0)
    start = time.perf_counter()
    model.generate(**inputs, generation_config=config)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("technique")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with torch.inference_mode():
        model, tokenizer = load(options.folder, options.technique)
        for text in sys.stdin:
            start = time.perf_counter()
            inputs = tokenizer.apply_chat_template(
                [{"role": "user", "content": json.loads(text)}],
                add_generation_prompt=True,
                return_dict=True,
                return_tensors="pt",
            )
            tokenize_s = time.perf_counter() - start
            first, whole = seconds(model, inputs, 1), seconds(model, inputs, options.tokens)
            figures = {"ttft_s": tokenize_s + first, "decode_tokens_per_s": (options.tokens - 1) / (whole - first)}
            sys.stdout.write(json.dumps(figures) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
