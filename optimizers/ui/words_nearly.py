"""What the page says of the tokens that each side nearly said where an answer leaves the baseline's. Covers English."""

from __future__ import annotations

LIKELIEST = "At the mark: what each said, and what it nearly said instead"
COLUMNS = ("Place", "Baseline", "This variant")
NEAR_TIE = "A near tie: to the baseline, what the two said lies less than {points} percentage points apart."
NEAR_TIE_NOISE = (
    "A near tie: to the baseline, what the two said lies less than {points} percentage points apart, which the noise "
    "of its numerics can move."
)
ENDS = "end of the answer"
FRAGMENT = "part of a character"
NO_TEXT = "no text"
CODE_POINT = "U+{code:04X}"
SIGNS = {" ": "␣", "\n": "⏎", "\t": "⇥"}
UNDER_LEAST = "< 0.1 %"
