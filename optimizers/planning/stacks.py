"""Stacks of techniques: what was typed, completed from the baseline, and the key that names the result.

Covers words and slots. Whether a stack can run here is decided in `plans.py`; which checkpoint a name means, and what
such a variant is called, in `models.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optimizers.errors import ChoiceError
from optimizers.schema import SLOTS, Checkpoint, Slot
from optimizers.techniques import all_techniques
from optimizers.techniques.base import Technique

PLAIN_BASELINE = "fp32+sdpa"
PLAIN_WITHOUT_SDPA = "fp32+eager"
AS_STORED = "library_default"
STORED = "stored"
CHECKPOINT = "checkpoint"
THREADS = "threads"
MOST_DIGITS = 6
STORED_PRECISION = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True)
class Stack:
    """What one stack names: technique ids in slot order; where the model is to be another, its name as typed; where the
    thread count is, that."""

    techniques: tuple[str, ...]
    checkpoint: str | None = None
    threads: int | None = None


def read_stack(text: str) -> Stack:
    """What a stack such as "bf16+sdpa", "bf16+checkpoint=owner/name" or "bf16+threads=1" names.

    Raises ChoiceError when it is empty, names an unknown technique, fills one slot twice, or has a thread count that is
    no number above 0."""
    parts = [part.strip() for part in text.split("+")]
    if not all(parts):
        raise ChoiceError(
            f"The stack {shown(text)} is empty or has an empty part.",
            "Name techniques joined by plus signs, such as bf16+sdpa.",
        )
    models = [value for part in parts if (value := _value(part, CHECKPOINT)) is not None]
    if len(models) > 1 or "" in models:
        raise ChoiceError(
            f"The stack {shown(text)} names {'two checkpoints' if len(models) > 1 else 'no checkpoint after the ='}.",
            "Write one, such as checkpoint=smollm2-135m, checkpoint=owner/name or checkpoint=./folder.",
        )
    threads = _threads([value for part in parts if (value := _value(part, THREADS)) is not None], text)
    named = [part for part in parts if _value(part, CHECKPOINT) is None and _value(part, THREADS) is None]
    ids = [part.lower().replace("-", "_").replace(" ", "_") for part in named]
    found = [_technique(name, bool(models)) for name in dict.fromkeys(ids)]
    _one_per_slot(found, text)
    return Stack(in_slot_order(technique.id for technique in found), models[0] if models else None, threads)


def parse_stack(text: str) -> tuple[str, ...]:
    """The technique ids of a stack that is about the model itself, in slot order. Raises ChoiceError as `read_stack`
    does, and when another checkpoint or a thread count is named."""
    stack = read_stack(text)
    if stack.checkpoint is not None:
        raise ChoiceError(
            f"The stack {shown(text)} names another checkpoint, which only a variant can have.",
            "Pick that model as the one to compare on, or leave the checkpoint out of this stack.",
        )
    if stack.threads is not None:
        raise ChoiceError(
            f"The stack {shown(text)} names a thread count, which only a variant can have.",
            "Give the whole comparison that thread count, or leave it out of this stack.",
        )
    return stack.techniques


def _value(part: str, name: str) -> str | None:
    """What follows "checkpoint=" or "threads=", None for a part that is something else."""
    word, equals, value = part.partition("=")
    return value.strip() if equals and word.strip().lower() == name else None


def _threads(counts: Sequence[str], text: str) -> int | None:
    """The one thread count of a stack."""
    if not counts:
        return None
    (first, *more), remedy = counts, "Write one, such as threads=1."
    if more:
        raise ChoiceError(f"The stack {shown(text)} names two thread counts.", remedy)
    if not (first.isascii() and first.isdecimal() and len(first) <= MOST_DIGITS and int(first) > 0):
        raise ChoiceError(f"The stack {shown(text)} has no whole number above 0 after threads=.", remedy)
    return int(first)


def key_of(techniques: Sequence[str]) -> str:
    """The stable name of a completed stack: its ids in slot order, joined by plus signs, after "stored" where the
    precision is left as it is stored, which no id says."""
    named = in_slot_order(techniques)
    precise = any("precision" in slots_of(technique) for technique in known(named))
    return "+".join(named if precise else (STORED, *named))


def plain_baseline(checkpoint: Checkpoint) -> str:
    """The baseline where none is named and nothing stands against it."""
    return PLAIN_WITHOUT_SDPA if checkpoint.attentions and "sdpa" not in checkpoint.attentions else PLAIN_BASELINE


def filling(baseline: tuple[str, ...], checkpoint: Checkpoint) -> tuple[str, ...]:
    """What fills the slots that a stack does not name. The checkpoint as stored is spelt out, so that a stack which
    names only its attention still has a precision; where no technique stores as it does (quantized, float64) it keeps
    its own."""
    if AS_STORED not in baseline:
        return baseline
    _, attention = parse_stack(plain_baseline(checkpoint))
    precision = STORED_PRECISION.get(checkpoint.stored_dtype)
    if checkpoint.quantization is not None or precision is None:
        return (attention,)
    return parse_stack(f"{precision}+{attention}")


def completed(stack: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    """The stack with what its techniques bring along, and the baseline's technique in each slot still open."""
    stack = _with_brought(stack)
    taken = {slot for technique in known(stack) for slot in slots_of(technique)}
    added = [technique.id for technique in known(own) if not taken & set(slots_of(technique))]
    return in_slot_order((*stack, *added))


def _with_brought(stack: tuple[str, ...]) -> tuple[str, ...]:
    """The stack with the techniques that its own bring along wherever their slot is open."""
    registry = all_techniques()
    found = list(known(stack))
    for name in (name for technique in known(stack) for name in technique.brings):
        taken = {slot for technique in found for slot in slots_of(technique)}
        if name in registry and not taken & set(slots_of(registry[name])):
            found.append(registry[name])
    return in_slot_order(technique.id for technique in found)


def slots_of(technique: Technique) -> tuple[Slot, ...]:
    """The places in a stack that a technique takes."""
    return (technique.slot, *technique.also_fills)


def known(names: Iterable[str]) -> list[Technique]:
    registry = all_techniques()
    return [registry[name] for name in names]


def in_slot_order(names: Iterable[str]) -> tuple[str, ...]:
    ordered = sorted(known(names), key=lambda technique: (SLOTS.index(technique.slot), technique.id))
    return tuple(technique.id for technique in ordered)


def _technique(name: str, beside_checkpoint: bool = False) -> Technique:
    registry = all_techniques()
    if name in registry:
        return registry[name]
    near = difflib.get_close_matches(name, registry, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    if name == CHECKPOINT:
        hint = "Another model is written checkpoint=NAME. "
    elif name == THREADS:
        hint = "A thread count is written threads=NUMBER. "
    elif beside_checkpoint:
        hint = "The name of a checkpoint cannot hold a plus sign: rename its folder if it does. "
    raise ChoiceError(f"There is no technique named {shown(name)}.", f"{hint}The choices are {', '.join(registry)}.")


def _one_per_slot(techniques: list[Technique], text: str) -> None:
    holder: dict[Slot, str] = {}
    for technique in techniques:
        for slot in slots_of(technique):
            if slot in holder:
                raise ChoiceError(
                    f"The stack {shown(text)} names two techniques for {slot}: {holder[slot]} and {technique.id}.",
                    "Keep one of them, or put them in two stacks.",
                )
            holder[slot] = technique.id


def shown(text: str) -> str:
    """Typed text in a message: quoted, cut short, with control characters spelt out."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
