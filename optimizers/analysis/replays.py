"""How each answer was written, for the race: of the requests for a prompt the middle one, as its clock told it.

Covers the choice and what of it is kept; drawing is the page's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optimizers.results import Replay
from optimizers.schema import Output, Sample

MOST_TOKENS = 4096  # of one answer: what comes later is not raced
DIGITS = 4  # a tenth of a millisecond


def replays(samples: Sequence[Sample], outputs: Iterable[Output]) -> tuple[Replay, ...]:
    """One for each prompt with an answer and a sample that counts: the sample with the (lower) median of the time to
    the last token of the answer. An answer without any token has none."""
    found = []
    for output in outputs:
        tokens = min(len(output.token_ids), MOST_TOKENS)
        times = [sample.timing.token_times_s[:tokens] for sample in samples if sample.prompt == output.prompt]
        whole = sorted((one for one in times if tokens and len(one) == tokens), key=lambda one: one[-1])
        if whole:
            middle = whole[(len(whole) - 1) // 2]
            found.append(Replay(output.prompt, tuple(round(time, DIGITS) for time in middle)))
    return tuple(found)
