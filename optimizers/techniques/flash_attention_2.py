"""FlashAttention-2: fused attention for NVIDIA GPUs, from the flash-attn package or a kernel build of the hub.

Never replaced by another attention: where it cannot run it is not available, and the census tells what ran.
"""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Obstacle, Promise
from optimizers.techniques.base import GenerationOptions, LoadContext, LoadOptions, Recipe, Technique
from optimizers.techniques.shared import attention_ran, lacks_attention, lacks_gpu

LEAST_CAPABILITY = (8, 0)
HUB_BUILD = "kernels-community/flash-attn2"
_REMEDY = "Run it on such a GPU; here use sdpa, which is fused as well."


def _options(context: LoadContext) -> LoadOptions:
    import importlib.util

    own = importlib.util.find_spec("flash_attn") is not None
    return LoadOptions(attention="flash_attention_2" if own else HUB_BUILD)


def _recipe(context: LoadContext, generation: GenerationOptions) -> Recipe:
    return Recipe(packages=("kernels",) if _options(context).attention == HUB_BUILD else ("flash-attn",))


def _why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    obstacle = lacks_gpu(machine, "FlashAttention-2", LEAST_CAPABILITY, _REMEDY)
    if obstacle is not None:
        return obstacle
    if machine.packages.get("flash-attn") is None and machine.packages.get("kernels") is None:
        return Obstacle(
            "Neither the Python package flash-attn nor kernels, which fetches a build from the hub, is installed.",
            "Install one: pip install kernels",
        )
    return lacks_attention(checkpoint, "flash_attention_2")


TECHNIQUE = Technique(
    id="flash_attention_2",
    slot="attention",
    title="FlashAttention-2",
    summary="Attention in one kernel that never writes the table of scores to memory; for NVIDIA GPUs.",
    about=Explanation(
        "A kernel for NVIDIA GPUs by the authors of flash attention: it keeps blocks of keys and values in the GPU's "
        "fast memory and never writes the table of scores. Its second version divides the work better among the GPU's "
        "units. It computes in 16 bits, needs a GPU of the Ampere generation or later, and gains most on long "
        "prompts.",
        "Dao, FlashAttention-2, 2023: arxiv.org/abs/2307.08691",
    ),
    promises=(
        Promise(
            "Faster than plain attention, the more so on long prompts",
            "faster prompt reading",
            "flash-attn documentation, github.com/Dao-AILab/flash-attention",
            "prefill",
            1.0,
            None,
        ),
    ),
    why_not=_why_not,
    options=_options,
    recipe=_recipe,
    verify=attention_ran("flash_attention_2", "FlashAttention-2"),
    conflicts={"fp32": "FlashAttention-2 computes in 16 bits only: write bf16+flash_attention_2."},
)
