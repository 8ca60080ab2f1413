"""The backend manager: starts workers, gives turns, times out, cancels, records events."""

from optimizers.manager.live import finished
from optimizers.manager.manager import Manager

__all__ = ["Manager", "finished"]
