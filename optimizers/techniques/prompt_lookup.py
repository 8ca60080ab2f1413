"""Prompt lookup: the next words are guessed from the text so far and checked together in one step.

Greedy answers stay the same; it is faster where the answer repeats words of the prompt. Scoring looks at each token by
itself, so it decodes plainly there: the same model with the same numbers.
"""

from __future__ import annotations

from optimizers.schema import Census, Checkpoint, Explanation, Obstacle, Promise
from optimizers.techniques.base import GenerationOptions, LoadContext, Technique

GUESSED_TOKENS = 5
_CROPPED = "Wrong guesses are taken back out of the cache, which only the growing cache allows."
_LENGTHS = "Each step checks another number of guessed tokens, and a compiled step has one shape."


def _generation(context: LoadContext) -> GenerationOptions:
    return GenerationOptions(prompt_lookup_tokens=GUESSED_TOKENS)


def _verify(census: Census, checkpoint: Checkpoint) -> Obstacle | None:
    if census.decoding == "prompt_lookup":
        return None
    return Obstacle(
        f"Prompt lookup was asked for, and the model decoded by {census.decoding or 'a way that was not seen'}.",
        "Leave it out for this model.",
    )


TECHNIQUE = Technique(
    id="prompt_lookup",
    slot="decoding",
    title="Prompt lookup",
    summary="Guesses the next words from the text so far and checks them in one step; the answer stays the same.",
    about=Explanation(
        "When the last words occurred earlier in the text, the words that followed them there are taken as a guess "
        "and checked all at once: one pass of the model instead of several. Wrong guesses are dropped, so a greedy "
        "answer stays what it was. It shines where an answer quotes its prompt (summaries, edited code) and costs a "
        "little where nothing repeats.",
        "transformers documentation, Assisted decoding: huggingface.co/docs/transformers/assisted_decoding",
    ),
    promises=(
        Promise(
            "Faster where the answer repeats the prompt, with the same answer",
            "faster",
            "transformers documentation, Assisted decoding: huggingface.co/docs/transformers/assisted_decoding",
            "decode",
            1.0,
            None,
        ),
    ),
    generation=_generation,
    verify=_verify,
    conflicts={
        "static_cache": _CROPPED,
        "no_cache": _CROPPED,
        "compile": _LENGTHS,
        "compile_max_autotune": _LENGTHS,
    },
)
