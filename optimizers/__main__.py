"""`python -m optimizers`: the command line (`cli/`)."""

import sys

from optimizers.cli import main

if __name__ == "__main__":
    sys.exit(main())
