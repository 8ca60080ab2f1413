"""Builds the page and launches it: `python app.py`."""

from __future__ import annotations

from optimizers.settings import settings
from optimizers.ui import build, launch

demo = build()

if __name__ == "__main__":
    launch(demo, settings())
