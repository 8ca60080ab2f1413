"""8-bit weights (bitsandbytes LLM.int8): 8-bit matrices, outlying inputs kept apart in 16 bits.

The output head stays as it was (transformers leaves it out). Converts GPT-2's Conv1D layers too. A base of fp32 is
computed in fp16 inside.
"""

from __future__ import annotations

from optimizers.schema import Explanation, Promise
from optimizers.techniques.base import Effort, LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import linears_converted, made_for_gpus, weights_need
from optimizers.techniques.shared_bitsandbytes import bitsandbytes_recipe
from optimizers.techniques.shared_calls import Call

_SOURCE = "transformers documentation, Bitsandbytes: huggingface.co/docs/transformers/quantization/bitsandbytes"


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(quantization=Call("transformers", "BitsAndBytesConfig", named={"load_in_8bit": True}))


TECHNIQUE = Technique(
    id="bnb_int8",
    slot="weights",
    title="8-bit weights (bitsandbytes)",
    summary="Linear layers stored in 8 bits; the few large inputs are computed apart so that quality holds.",
    about=Explanation(
        "LLM.int8(): each row of the weights and each token's inputs are rounded to 8 bits, but the few input "
        "features with large values (6 and more) are kept out and multiplied in 16 bits, because rounding those is "
        "what spoils large models. It was made to fit big models on one GPU, not for speed: finding and parting the "
        "features takes time at every step.",
        _SOURCE,
    ),
    promises=(
        Promise("4x less memory than fp32 (2x less than fp16)", "0.25x the bytes", _SOURCE, "weights_bytes", None, 0.3),
        Promise("A minor drop in accuracy", "minor", _SOURCE),
    ),
    why_not=weights_need("bitsandbytes"),
    warn=made_for_gpus,
    options=_options,
    recipe=bitsandbytes_recipe,
    verify=linears_converted("bitsandbytes", "Leave it out for this model."),
    linear_bytes=1.0,
    effort=Effort(slowdown=2.0, gpu_slowdown=3.0),
)
