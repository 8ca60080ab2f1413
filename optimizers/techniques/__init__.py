"""The registry: one file per technique in this folder, found by looking; nothing else names them.

Covers finding them. What a technique is, is in `base.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from optimizers.schema import SLOTS
from optimizers.techniques.base import Technique


@lru_cache(maxsize=1)
def all_techniques() -> dict[str, Technique]:
    """Every technique by id, in slot order, then by id."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        technique = getattr(importlib.import_module(f"{__name__}.{module.name}"), "TECHNIQUE", None)
        if isinstance(technique, Technique):
            found.append(technique)
    found.sort(key=lambda technique: (SLOTS.index(technique.slot), technique.id))
    return {technique.id: technique for technique in found}
