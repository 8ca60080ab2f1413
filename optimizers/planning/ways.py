"""Three ways from ticked techniques to stacks: each alone, the ladder, and stacks written by hand (as they are).

Covers the ladder's order, what it carries upward, and which step is below another. Whether a rung can run here is
decided in `plans.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from optimizers.planning.stacks import Stack, completed, in_slot_order, known, read_stack
from optimizers.schema import Slot
from optimizers.techniques.base import Technique

# The order in which the guides teach: numbers first, then what is fused and compiled, then smaller weights.
TAUGHT: tuple[Slot, ...] = ("precision", "attention", "cache", "compile", "weights", "decoding", "runtime")


def ladder(stacks: Iterable[str], available: Callable[[Technique], bool]) -> tuple[str, ...]:
    """Stacks in which each step stands on top of the last, in the order that the guides teach.

    Every single technique in `stacks` gets one step; what names several, another checkpoint or a thread count stays as
    it is written, after the steps. Of several for one slot each gets a step on the same height, and the first is
    carried upward. What is not available, or does not go with what is below it, gets its step, which the plan then
    explains, and is not carried. Raises ChoiceError for what is no stack."""
    read = {text: read_stack(text) for text in stacks}
    plain = {text: stack for text, stack in read.items() if stack == Stack(stack.techniques)}
    single = {text: stack for text, stack in plain.items() if len(stack.techniques) == 1}
    named = dict.fromkeys(stack.techniques[0] for stack in single.values())
    steps: list[str] = []
    carried: tuple[str, ...] = ()
    for technique in sorted(known(named), key=lambda technique: TAUGHT.index(technique.slot)):
        below = tuple(other.id for other in known(carried) if not _share_a_slot(other, technique))
        stack = in_slot_order((*below, technique.id))
        steps.append("+".join(stack))
        if len(below) == len(carried) and available(technique) and not _conflicts(completed(stack, ())):
            carried = stack
    written = (
        "+".join(stack.techniques) if text in plain else text for text, stack in read.items() if text not in single
    )
    return tuple(dict.fromkeys((*steps, *written)))


def below(stack: tuple[str, ...]) -> tuple[str, ...]:
    """The stack without the technique that the taught order puts last: what its step stands on."""
    top = max(known(stack), key=lambda technique: TAUGHT.index(technique.slot))
    return tuple(name for name in stack if name != top.id)


def _share_a_slot(one: Technique, other: Technique) -> bool:
    return bool({one.slot, *one.also_fills} & {other.slot, *other.also_fills})


def _conflicts(stack: tuple[str, ...]) -> bool:
    return any(other in technique.conflicts for technique in known(stack) for other in stack)
