"""Library default: what from_pretrained gives by itself, with nothing said about number format or attention.

transformers 5 then loads the weights in the format in which they are stored and picks the attention itself. Its proof
is the census; there is nothing that it could fail to apply.
"""

from __future__ import annotations

from optimizers.techniques.base import LoadContext, LoadOptions, Technique


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(dtype="auto")


TECHNIQUE = Technique(
    id="library_default",
    slot="precision",
    title="Library default",
    summary="What loading the model gives when nothing is chosen: weights as stored, attention as the library picks.",
    promises=(),
    also_fills=("attention",),
    options=_options,
)
