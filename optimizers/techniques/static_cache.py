"""Static cache: the memory of past tokens gets its full length at once, so that every step has the same shapes.

By itself it saves little; a compiled step needs it. The length is that of the longest request of the comparison.
"""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Obstacle, Promise
from optimizers.techniques.base import GenerationOptions, LoadContext, Technique
from optimizers.techniques.shared_decoding import cache_was, no_static_cache


def _generation(context: LoadContext) -> GenerationOptions:
    return GenerationOptions(cache="static")


def _why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    return no_static_cache(checkpoint)


def _warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    return "Every step looks over the whole cache, the empty part too: it pays only together with a compiled step."


TECHNIQUE = Technique(
    id="static_cache",
    slot="cache",
    title="Static cache",
    summary="Room for the keys and values of the longest request is set aside at once and never grows.",
    about=Explanation(
        "The key-value cache holds what attention needs of earlier tokens. The usual one grows by a token at each "
        "step, which gives every step another shape; this one is as large as the longest request from the start, and "
        "the unused part is masked. By itself it does a little more work; it is what a compiled step and recorded GPU "
        "graphs need.",
        "transformers documentation, Cache strategies: huggingface.co/docs/transformers/kv_cache",
    ),
    promises=(
        Promise(
            "Makes a compiled step possible; by itself no faster",
            "no faster alone",
            "transformers documentation, Cache strategies: huggingface.co/docs/transformers/kv_cache",
        ),
    ),
    why_not=_why_not,
    warn=_warn,
    generation=_generation,
    verify=cache_was("static", "A static cache"),
)
