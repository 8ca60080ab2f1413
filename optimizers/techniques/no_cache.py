"""No key-value cache: every step reads the whole text again. It shows what the cache is worth."""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Promise
from optimizers.techniques.base import Effort, GenerationOptions, LoadContext, Technique
from optimizers.techniques.shared_decoding import cache_was


def _generation(context: LoadContext) -> GenerationOptions:
    return GenerationOptions(cache="none")


def _warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    return "Every token reads the whole text again: the work grows with the square of the length."


TECHNIQUE = Technique(
    id="no_cache",
    slot="cache",
    title="No key-value cache",
    summary="Keys and values of past tokens are computed anew at every step in place of being kept.",
    about=Explanation(
        "Without the key-value cache every new token computes keys and values of all tokens before it again, so the "
        "cost of a token grows with the length of the text and that of an answer with its square. It is here as a "
        "measured fact: this is what the cache, which is always on elsewhere, gives.",
        "transformers documentation, Cache strategies: huggingface.co/docs/transformers/kv_cache",
    ),
    promises=(
        Promise(
            "Without the cache, generation slows dramatically, except for the shortest outputs",
            "under 0.5x the speed",
            "transformers documentation, Cache strategies: huggingface.co/docs/transformers/kv_cache",
            "decode",
            None,
            0.5,
        ),
    ),
    warn=_warn,
    generation=_generation,
    verify=cache_was("none", "Decoding without a cache"),
    effort=Effort(rereads=True),
)
