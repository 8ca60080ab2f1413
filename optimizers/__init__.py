"""Levers: what every inference optimization gives and what it costs, side by side, on your own machine.

The public names are compare(), plan() and techniques(); importing them imports neither torch nor gradio. They are those
of `api.py`, found on first use.

    import optimizers
    run = optimizers.compare("smollm2-135m", ["bf16"])
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import optimizers.techniques as _folder

if TYPE_CHECKING:
    from optimizers.api import compare, plan

__all__ = ["compare", "plan", "techniques"]


class _CallableFolder(ModuleType):
    """The folder of techniques shares its name with the public function, so calling it is calling that."""

    def __call__(self, model: str | None = None) -> Any:
        """`api.techniques`: every technique as it stands on this machine, and for a model when one is named."""
        from optimizers import api

        return api.techniques(model)


_folder.__class__ = _CallableFolder


def __getattr__(name: str) -> Any:
    if name in ("compare", "plan"):
        from optimizers import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
