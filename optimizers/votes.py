"""A reader's vote on two answers that were shown without names, and the line of a run's log that holds it.

Covers shapes and bounds. Which pairs there are and what votes say is `analysis/votes.py`'s business; `store.py` and
`manager/` keep them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

Preference = Literal["better", "same", "worse"]

MOST_VOTES = 10_000  # of one run, replaced ones included
VOTER = "[0-9a-f]{16}"


@dataclass(frozen=True)
class Vote:
    """`preference` is what the reader thought of the variant's answer to a prompt beside the baseline's; `voter` is the
    random id of one reader's sitting. Of the votes of one voter on one pair the last counts."""

    variant: str
    prompt: int
    preference: Preference
    voter: Annotated[str, Field(pattern=f"^{VOTER}$")]


@dataclass(frozen=True)
class Voted:
    """The line of a run's log that holds a vote; the only kind that may come after its end."""

    vote: Vote
    kind: Literal["voted"] = "voted"
