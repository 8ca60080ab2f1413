"""The command line: words in, api calls, words out. `python -m optimizers` starts it."""

from optimizers.cli.commands import main

__all__ = ["main"]
