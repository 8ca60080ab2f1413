"""What a graph is held against: PyTorch's figures (`python -m optimizers.techniques.graphs.reference CHECKPOINT GOAL`).

They are fp32 log-probabilities of two short texts, each alone, with the texts' token ids and those of a chat, kept
beside the graph. They always come from the program's own environment: a graph written in another one, whose libraries
may read the checkpoint otherwise, is held against what the baseline computes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from optimizers.techniques.graphs import child
from optimizers.techniques.graphs.names import REFERENCE

TEXTS = (
    "The harbor was quiet that morning, and the fishermen who had gone out before dawn were slowly coming home with "
    "their nets full of silver fish, singing an old song about the sea.",
    "Water boils at a lower temperature on a mountain, because the air there is thinner.",
)
_TEXT_TOKENS = (24, 10)


def write(folder: str, goal: Path) -> None:
    """Write the reference of the checkpoint in `folder` into the folder `goal`, in this process."""
    import torch
    from safetensors.numpy import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    sys.stdout.write("Reference\n")
    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(folder, **where)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, **where).eval()
    kept = {name: torch.tensor(ids).numpy() for name, ids in token_ids(tokenizer).items()}
    with torch.inference_mode():
        for index, count in enumerate(_TEXT_TOKENS):
            kept[f"ids_{index}"] = kept[f"text_{index}"][:count].copy()
            logits = model(torch.from_numpy(kept[f"ids_{index}"])[None]).logits[0]
            kept[f"logprobs_{index}"] = torch.log_softmax(logits.float(), -1).numpy()
    save_file(kept, goal / REFERENCE)


def token_ids(tokenizer: Any) -> dict[str, list[int]]:
    """The token ids of both texts, and of the first as a message where the tokenizer has a chat template."""
    found = {f"text_{index}": list(tokenizer(text)["input_ids"]) for index, text in enumerate(TEXTS)}
    if tokenizer.chat_template:
        said = [{"role": "user", "content": TEXTS[0]}]
        found["chat"] = list(
            tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=True)["input_ids"]
        )
    return found


if __name__ == "__main__":
    raise SystemExit(child.does(lambda: write(sys.argv[1], Path(sys.argv[2]))))
