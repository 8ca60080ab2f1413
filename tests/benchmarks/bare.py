"""The bare script that Levers' figures are held against: load with transformers, call generate(), look at the clock.

Reads prompts, one JSON string a line, from its input; for each prints {"ttft_s", "decode_tokens_per_s"}. The clock is
looked at where generate() asks whether to stop, so that no clockwork (streamer, hooks) is shared with Levers, and in
one call: a second one would find the processor's caches warm. An ONNX graph is Levers' own, behind generate(): there
only the measuring is another's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    GenerationConfig,
    StoppingCriteria,
    StoppingCriteriaList,
    TorchAoConfig,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def graph(folder: str, technique: str, threads: int):
    from optimizers import api
    from optimizers.techniques import all_techniques
    from optimizers.techniques.base import LoadContext

    sets = api.techniques().machine.instruction_sets
    context = LoadContext(api.prepare(folder), "float32", threads, 512, sets)
    return all_techniques()[technique].load(context, lambda stage: None)


def load(folder: str, technique: str, threads: int):
    if technique.startswith("onnxruntime"):
        return graph(folder, technique, threads), AutoTokenizer.from_pretrained(folder)
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
    elif technique == "eager":
        options["attn_implementation"] = "eager"
    elif technique != "fp32":
        raise SystemExit(f"bare.py does not know {technique}")
    return AutoModelForCausalLM.from_pretrained(folder, **options).eval(), AutoTokenizer.from_pretrained(folder)


class Clock(StoppingCriteria):
    """Looks at the clock after each token and never stops."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, input_ids, scores, **more):
        self.times.append(time.perf_counter())
        return torch.zeros(len(input_ids), dtype=torch.bool)


def token_times(model, inputs, tokens: int) -> list[float]:
    config = GenerationConfig(max_new_tokens=tokens, do_sample=False, eos_token_id=None, pad_token_id=0)
    clock = Clock()
    model.generate(**inputs, generation_config=config, stopping_criteria=StoppingCriteriaList([clock]))
    return clock.times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("technique")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with torch.inference_mode():
        model, tokenizer = load(options.folder, options.technique, options.threads)
        for text in sys.stdin:
            start = time.perf_counter()
            inputs = tokenizer.apply_chat_template(
                [{"role": "user", "content": json.loads(text)}],
                add_generation_prompt=True,
                return_dict=True,
                return_tensors="pt",
            )
            times = token_times(model, inputs, options.tokens)
            speed = (options.tokens - 1) / (times[-1] - times[0])
            figures = {"ttft_s": times[0] - start, "decode_tokens_per_s": speed}
            sys.stdout.write(json.dumps(figures) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
