"""The words of the section with recipes. Covers English."""

from __future__ import annotations

RECIPE = "Recipe: the code to copy"
PICK = "Variant"
PICK_INFO = "A whole script that does what this variant did, on the first prompt, without Levers."
CODE = "Recipe of {key}"
COPY = "Copy the code"
COPIED = "Copied."
MARKED = "The code is selected: copy it with Ctrl+C, on a Mac with Cmd+C."
