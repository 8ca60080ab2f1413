"""The words of the search of the hub, beside those in `words.py`. Covers English."""

from __future__ import annotations

from optimizers.results import Fit

LABEL = "Search Hugging Face"
INFO = "Type three letters of a name or more. What you take goes into the field above; searching fetches no model."
SEARCHING = "Searching"
FOUND = "{models} found, the most downloaded first. The arrow keys go through them, Enter takes one."
NOTHING = "No language model on the hub has “{text}” in its name."
FAILED = "The search got no answer. Type on to try again."
TAKEN = "{model} is in the field above; its facts stand below."
FOUND_LABEL = "Models found"
PARAMETERS = "{count} parameters"
ON_DISK = "{size} on disk"
SIZE_UNKNOWN = "size unknown"
LICENSE = "license {name}"
NO_LICENSE = "license not told"
FITS: dict[Fit, str] = {
    "fits": "should fit here",
    "as stored": "should fit here as stored, not in 32 bits",
    "too large": "does not fit here",
    "unknown": "",
}
GATED = "Gated"
GATED_REMEDY = (
    "Accept its license on its page on the hub, then log in with hf auth login on the machine that runs Levers."
)
REFUSED = "Will be refused"
