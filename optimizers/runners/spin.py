"""`python -m optimizers.leash optimizers.runners.spin`: keep one processor core busy until the leash ends it.

Says so once it has begun. Computes nothing, reads nothing but its leash and touches little memory: what it takes from
others is the core alone. Which core that is, the system decides, as it does for any program.
"""

from __future__ import annotations

import os
import sys


def spin() -> None:
    """Never returns."""
    os.write(sys.stdout.fileno(), b"spinning\n")
    while True:
        pass


if __name__ == "__main__":
    spin()
