"""The words of earlier comparisons: their list, opening and deleting, two of them side by side. Covers English."""

from __future__ import annotations

HISTORY = "Earlier comparisons"
NO_HISTORY = "None yet. Each comparison is kept and can be reopened here."
OPEN_RUN = "Open a run.json"
DELETE = "Delete this comparison"
DELETE_ASKED = "Delete this comparison and all its files for good?"

BETWEEN = "Compare with another run"
BETWEEN_PICK = "The other run"
BETWEEN_INFO = (
    "The same variants then and now, or here and on another machine. A run.json from elsewhere can be opened, too."
)
BETWEEN_NONE = "There is no other run yet. Make one, or open a run.json from elsewhere."
BETWEEN_ENTRY = "{at}, {model}, {variants}"
BETWEEN_GONE = "The other run cannot be read any more."
BETWEEN_GONE_REMEDY = "Pick another one."
BETWEEN_TITLE = "This run against that of {at}"
BETWEEN_COLUMNS = (
    "Variant",
    "Verdict",
    "Speed",
    "Tokens/s",
    "First token",
    "Against its own baseline",
    "Peak memory",
    "KL",
)
THEN = "{now} (then {then})"
DIFFERS = "Not the same in both"
DIFFERENCE_COLUMNS = ("What", "In this run", "In the other")
NOTHING_DIFFERS = "Model, machine, versions and prompts are the same in both."
ONLY_NOW = "Measured in this run only: {titles}."
ONLY_THEN = "Measured in the other only: {titles}."
NO_PAIR = "No variant was measured in both runs."
BETWEEN_FINE = (
    "Speed: times the tokens per second of the other run, with a 95 % interval from the intervals of both medians "
    "(square-and-add, Zou and Donner 2008). The two did not take turns, so all that changed from one to the other is "
    "in it; faster or slower is said only beyond the larger of both noise floors. Against its own baseline: what holds "
    "between machines."
)
