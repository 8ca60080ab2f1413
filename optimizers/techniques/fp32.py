"""Full-precision weights (fp32): the reference that the other precisions are compared with."""

from __future__ import annotations

from optimizers.techniques.base import LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import stored_as


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(dtype="float32")


TECHNIQUE = Technique(
    id="fp32",
    slot="precision",
    title="Full-precision weights (fp32)",
    summary="Every number takes 4 bytes: the most exact and the largest; what the others are compared with.",
    promises=(),
    options=_options,
    verify=stored_as("float32"),
    element_bytes=4.0,
)
