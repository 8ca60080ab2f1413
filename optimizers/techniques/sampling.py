"""Sampling: the next token is drawn by chance from the likely ones (nucleus sampling), from a fixed seed.

Its answers are never compared word by word with greedy ones; its quality is read from the model's own scores, before
temperature and nucleus change them.
"""

from __future__ import annotations

from optimizers.schema import Census, Checkpoint, Explanation, Obstacle, Promise
from optimizers.techniques.base import GenerationOptions, LoadContext, Sampling, Technique

TEMPERATURE = 0.7
TOP_P = 0.9


def _generation(context: LoadContext) -> GenerationOptions:
    return GenerationOptions(sampling=Sampling(context.seed, TEMPERATURE, TOP_P))


def _verify(census: Census, checkpoint: Checkpoint) -> Obstacle | None:
    if census.decoding == "sampling":
        return None
    return Obstacle(
        f"Sampling was asked for, and the model decoded by {census.decoding or 'a way that was not seen'}.",
        "Leave it out for this model.",
    )


TECHNIQUE = Technique(
    id="sampling",
    slot="decoding",
    title="Sampling",
    summary=f"Draws each token by chance among the likely ones (top-p {TOP_P}, temperature {TEMPERATURE}), seeded.",
    about=Explanation(
        "Greedy decoding always takes the most likely token. Sampling draws: the scores are divided by the "
        "temperature (under 1 sharpens them), only the most likely tokens that together hold the top-p share are "
        "kept, and one of them is drawn by its probability. Texts get livelier and differ from run to run, here held "
        "still by a seed. Sorting the vocabulary costs a little at each token.",
        "transformers documentation, Generation strategies: huggingface.co/docs/transformers/generation_strategies",
    ),
    promises=(
        Promise(
            "Greedy decoding is faster than top-k or nucleus sampling",
            "slower than greedy",
            "transformers documentation, Generation strategies: huggingface.co/docs/transformers/generation_strategies",
            "decode",
            None,
            1.0,
        ),
    ),
    generation=_generation,
    verify=_verify,
)
