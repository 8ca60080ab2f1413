"""Environments for engines whose dependencies clash with the program's: one requirements file each, made on first use.

    NAME.txt           the engine NAME: exact versions, and in its first lines a title and the size on disk
    files.py           reads them
    environments.py    makes, finds and removes their environments

A second engine is one more file. An environment holds only what clashes; everything else, PyTorch first of all, comes
from the program's own, so that variants compute with the same build. What runs in it is the same worker.
"""

from optimizers.engines.environments import installed, program_python, ready, remove, states
from optimizers.engines.files import all_engines

__all__ = ["all_engines", "installed", "program_python", "ready", "remove", "states"]
