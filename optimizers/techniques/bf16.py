"""Half-precision weights (bf16): 2 bytes a number, with the range of fp32 and fewer digits."""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Promise
from optimizers.techniques.base import LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import BF16_INSTRUCTIONS, has_any, stored_as

_SOURCE = "transformers documentation, Optimizing LLMs: huggingface.co/docs/transformers/llm_tutorial_optimization"


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(dtype="bfloat16")


def _warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    if machine.gpus or has_any(machine, BF16_INSTRUCTIONS):
        return None
    return "This processor has no bf16 instructions: it saves memory, and is often slower than fp32."


TECHNIQUE = Technique(
    id="bf16",
    slot="precision",
    title="Half-precision weights (bf16)",
    summary="Every number takes 2 bytes instead of 4, with the same range and fewer digits.",
    about=Explanation(
        "bfloat16 keeps the 8 bits of exponent that fp32 has and only 7 of its 23 bits of fraction: the same range, "
        "two to three decimal digits. Most models of today are trained in it, so loading them in it loses nothing. "
        "Half the bytes have to be read for each token, which is what writing text one token at a time waits for; but "
        "it is only faster where the processor multiplies bf16 itself (AVX512-BF16 or AMX, GPUs from Ampere on), else "
        "each number is widened first.",
        _SOURCE,
    ),
    promises=(
        Promise("Half the memory of fp32", "0.5x the bytes", _SOURCE, "weights_bytes", None, 0.55),
        Promise("Faster where the hardware supports it", "faster than fp32", _SOURCE, "decode", 1.0, None),
    ),
    warn=_warn,
    options=_options,
    verify=stored_as("bfloat16"),
    element_bytes=2.0,
)
