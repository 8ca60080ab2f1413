"""Library default: what from_pretrained gives by itself, with nothing said about number format or attention.

transformers 5 then loads the weights in the format in which they are stored and picks the attention itself. Its proof
is the census; there is nothing that it could fail to apply.
"""

from __future__ import annotations

from optimizers.schema import Explanation
from optimizers.techniques.base import LoadContext, LoadOptions, Technique


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(dtype="auto")


TECHNIQUE = Technique(
    id="library_default",
    slot="precision",
    title="Library default",
    summary="What loading the model gives when nothing is chosen: weights as stored, attention as the library picks.",
    about=Explanation(
        "What from_pretrained() gives when it is told nothing but the name: since transformers 5 the weights stay in "
        "the type in which they are stored, and the library picks the attention. Many people measure against this "
        "without knowing what it is; here the row says what it came to be.",
        "transformers documentation, Loading models: huggingface.co/docs/transformers/models",
    ),
    promises=(),
    also_fills=("attention",),
    options=_options,
)
