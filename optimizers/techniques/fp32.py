"""Full-precision weights (fp32): the reference that the other precisions are compared with."""

from __future__ import annotations

from optimizers.schema import Explanation
from optimizers.techniques.base import LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import stored_as


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(dtype="float32")


TECHNIQUE = Technique(
    id="fp32",
    slot="precision",
    title="Full-precision weights (fp32)",
    summary="Every number takes 4 bytes: the most exact and the largest; what the others are compared with.",
    about=Explanation(
        "Each weight is a 32-bit floating-point number (1 bit of sign, 8 of exponent, 23 of fraction): about seven "
        "decimal digits. Models are mostly trained and published in 16 bits, so nothing is won over those in quality "
        "that was not there before, but every sum is exact enough to be what the others are held against. A model "
        "takes 4 bytes for each of its parameters: 7 billion are 28 GB.",
        "transformers documentation, Optimizing LLMs: huggingface.co/docs/transformers/llm_tutorial_optimization",
    ),
    promises=(),
    options=_options,
    verify=stored_as("float32"),
    element_bytes=4.0,
)
