"""Half-precision weights (fp16): 2 bytes a number, with more digits than bf16 and a much smaller range."""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Promise
from optimizers.techniques.base import LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import FP16_INSTRUCTIONS, has_any, stored_as

_SOURCE = "transformers documentation, Optimizing LLMs: huggingface.co/docs/transformers/llm_tutorial_optimization"


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(dtype="float16")


def _warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    if machine.gpus or has_any(machine, FP16_INSTRUCTIONS):
        return None
    return "This processor has no fp16 arithmetic: it saves memory, and is often slower than fp32."


TECHNIQUE = Technique(
    id="fp16",
    slot="precision",
    title="Half-precision weights (fp16)",
    summary="Every number takes 2 bytes instead of 4; more digits than bf16, but large values can overflow.",
    about=Explanation(
        "Half precision has 5 bits of exponent and 10 of fraction: three to four decimal digits, but nothing above "
        "65504. Sums inside a model trained in bf16 can pass that and turn into infinity, so look at the quality. "
        "GPUs have computed in it for long; on processors few have instructions for it, and the rest widen each "
        "number first.",
        _SOURCE,
    ),
    promises=(
        Promise("Half the memory of fp32", "0.5x the bytes", _SOURCE, "weights_bytes", None, 0.55),
        Promise("Faster where the hardware supports it", "faster than fp32", _SOURCE, "decode", 1.0, None),
    ),
    warn=_warn,
    options=_options,
    verify=stored_as("float16"),
    element_bytes=2.0,
)
