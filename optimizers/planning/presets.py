"""Choices that a person can make with one press: what to tick, how it is put together, which stacks beside.

Covers the choices as data, so far as their techniques' files are there and the techniques can be used.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from optimizers.schema import PresetId, Way
from optimizers.techniques import all_techniques


@dataclass(frozen=True)
class Preset:
    """`ticked` are technique ids, put together in this way; `stacks` are added as they are written."""

    id: PresetId
    ways: Way
    ticked: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()


PRESETS = (
    Preset("cheap", "alone", ("bf16", "torchao_int8_weight_only")),
    Preset("small", "alone", ("bf16", "torchao_int8_weight_only", "bnb_nf4", "onnxruntime_int8", "onnxruntime_int4")),
    Preset(
        "fast",
        "alone",
        ("onnxruntime_int8", "onnxruntime_int4"),
        ("bf16+compile+static_cache", "bf16+torchao_int8_weight_only+compile+static_cache"),
    ),
    Preset("ladder", "ladder", ("bf16", "compile", "torchao_int8_weight_only")),
)


def preset(name: PresetId, available: Collection[str] | None = None) -> Preset:
    """The choice of that name. Left out of it is what has no file, and what is not in `available` where that is given.
    Raises KeyError for a name that there is not."""
    found = {one.id: one for one in PRESETS}[name]
    usable = set(all_techniques()) if available is None else set(available) & set(all_techniques())
    return replace(
        found,
        ticked=tuple(name for name in found.ticked if name in usable),
        stacks=tuple(stack for stack in found.stacks if usable.issuperset(stack.split("+"))),
    )
