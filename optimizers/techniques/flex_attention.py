"""Flex attention: PyTorch compiles an attention kernel from a description of its mask and scores.

On a processor too it runs only compiled; a kernel is compiled for the first prompt length and once more for lengths in
general. It is made for unusual masks; for a plain causal one, sdpa does the same without compiling.
"""

from __future__ import annotations

from optimizers.schema import Checkpoint, Explanation, Machine, Obstacle, Promise
from optimizers.techniques.base import LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import attention_ran, lacks_attention
from optimizers.techniques.shared_decoding import compiler_errors, why_not_compiled


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(attention="flex_attention")


def _why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    if not machine.gpus and "avx2" not in machine.instruction_sets:
        return Obstacle(
            "On a processor flex attention needs the AVX2 instructions, and this one does not have them.",
            "Use sdpa, which is fused as well.",
        )
    return lacks_attention(checkpoint, "flex_attention") or why_not_compiled(machine, None)


def _warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    return (
        "Its kernels are compiled while the first requests run, for a minute or more; for a plain mask sdpa is enough."
    )


TECHNIQUE = Technique(
    id="flex_attention",
    slot="attention",
    title="Flex attention",
    summary="An attention kernel that PyTorch compiles from a description of which words see which.",
    about=Explanation(
        "A mask or a change of the scores is written as a small Python function, from which torch.compile makes one "
        "fused kernel. It exists for attention of unusual shape (sliding windows, documents packed together); on the "
        "usual one it hopes to match hand-written kernels, and compiling takes its time first.",
        "PyTorch documentation, torch.nn.attention.flex_attention",
    ),
    promises=(
        Promise(
            "Flexible masks at about the speed of hand-written kernels",
            "at least 0.9x the speed of fused attention",
            "PyTorch documentation, torch.nn.attention.flex_attention",
            "decode",
            0.9,
            None,
        ),
    ),
    why_not=_why_not,
    warn=_warn,
    options=_options,
    verify=attention_ran("flex_attention", "Flex attention"),
    slow_to_prepare=True,
    explain=compiler_errors,
)
