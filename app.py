"""Builds the page and launches it: `python app.py`."""

from __future__ import annotations

import sys

from optimizers.errors import LeversError
from optimizers.settings import settings
from optimizers.ui import build, launch

demo = build()

if __name__ == "__main__":
    try:
        launch(demo, settings())
    except LeversError as error:
        sys.exit(str(error))
