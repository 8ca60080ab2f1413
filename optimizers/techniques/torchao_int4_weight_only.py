"""4-bit weights (torchao): 16 levels for each group of weights in a row, turned back into numbers as they are used.

The output head stays as it was (transformers leaves it out). The group size is the largest of 128, 64 and 32 that
divides the width of every linear layer, since torchao passes over, without a word, each layer that it does not divide.
On a processor the layout is the one that torchao's prototype holds; its default layout is for GPUs.
"""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Obstacle, Promise
from optimizers.techniques.base import Effort, GenerationOptions, LoadContext, LoadOptions, Recipe, Technique
from optimizers.techniques.shared import LINEAR_ONLY, lacks_package, linears_converted, weights_need
from optimizers.techniques.shared_torchao import PACKAGES, torchao

GROUP_SIZES = (128, 64, 32)
_PROTOTYPE = "torchao.prototype.quantization.int4"
_SOURCE = "torchao documentation, Int4WeightOnlyConfig"
# Half a byte, and a scale and a zero point of 4 bytes each for a group of 64.
_LINEAR_BYTES = 0.5 + 8 / 64


def group_size(widths: tuple[int, ...]) -> int:
    """The largest group size that divides every width, else the one that divides the most; 32 where none is known."""
    known = widths or GROUP_SIZES[-1:]
    return max(GROUP_SIZES, key=lambda size: (sum(width % size == 0 for width in known), size))


def _options(context: LoadContext) -> LoadOptions:
    size = group_size(context.checkpoint.linear_widths)
    if context.device == "cuda":
        return torchao("Int4WeightOnlyConfig", group_size=size)
    return torchao("PrototypeInt4WeightOnlyConfig", _PROTOTYPE, group_size=size)


def _recipe(context: LoadContext, generation: GenerationOptions) -> Recipe:
    kernels = ("mslk",) if context.device == "cuda" else ()
    return Recipe(packages=(*PACKAGES, *kernels))


def _why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    obstacle = weights_need("torchao")(machine, checkpoint)
    if machine.gpus:  # the default layout's kernels are a package of their own
        obstacle = obstacle or lacks_package(machine, "mslk")
    widths = checkpoint.linear_widths if checkpoint else ()
    if obstacle or not widths or any(width % size == 0 for width in widths for size in GROUP_SIZES):
        return obstacle
    return Obstacle(
        f"No group size of torchao's 4-bit weights (128, 64, 32) divides the width of this model's layers "
        f"({', '.join(map(str, widths[:4]))}): every layer would be passed over.",
        "Use 8-bit weights for this model.",
    )


def _warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    if machine.gpus:
        return None
    return "On a processor torchao's 4-bit weights save memory and are very slow: about one token a second."


TECHNIQUE = Technique(
    id="torchao_int4_weight_only",
    slot="weights",
    title="4-bit weights (torchao)",
    summary="Linear layers stored in 4 bits with a scale for each group of weights, widened as they are used.",
    about=Explanation(
        "Each group of weights in a row shares a scale and a zero point, and every weight is one of 16 values "
        "between. An eighth of fp32's bytes are read for each token. Sixteen levels lose something, the more the "
        "smaller the model: look at the quality. The layers' width must be a multiple of the group, and the output "
        "head is left alone because its errors go straight into the answer.",
        _SOURCE,
    ),
    promises=(
        Promise("Over 4x less memory than fp32", "under 0.25x the bytes", _SOURCE, "weights_bytes", None, 0.25),
        Promise("Faster decoding: a quarter of the bytes are read", "faster", _SOURCE, "decode", 1.0, None),
    ),
    why_not=_why_not,
    warn=_warn,
    options=_options,
    recipe=_recipe,
    verify=linears_converted("torchao", LINEAR_ONLY),
    linear_bytes=_LINEAR_BYTES,
    effort=Effort(slowdown=30.0),
)
