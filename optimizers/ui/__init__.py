"""The page. Covers what a person sees and presses; what can be done at all is in `optimizers.api`."""

from __future__ import annotations

from optimizers.ui.wiring import build, launch

__all__ = ["build", "launch"]
