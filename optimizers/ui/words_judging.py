"""Every word of the section "Judge by reading". Covers English."""

from __future__ import annotations

from typing import Literal

HEADING = "Judge by reading"
HINT = (
    "Two answers to the same prompt without their names, one of them the baseline's: say which reads better. Which is "
    "on which side is left to chance, and the other answers on this page are covered meanwhile."
)
START = "Show me a pair"
SIDES: dict[Literal["left", "right", "same", "skip"], str] = {
    "left": "Left is better",
    "right": "Right is better",
    "same": "No difference",
    "skip": "Skip",
}
SHOW_TALLY = "Show the tally"

PAIR = "Pair {number} of {pairs}"
PROMPT = "Prompt"
LEFT = "Left"
RIGHT = "Right"
EMPTY_ANSWER = "This answer is empty."
ALIKE = "{pairs} word for word the same and not asked."
ALIKE_PAIRS = ("1 pair is", "{amount:,} pairs are")

NO_ANSWERS = "There is no pair yet: it takes answers of the baseline and a measured variant to the same prompt."
NOTHING_DIFFERENT = "There is nothing to judge."
ALL_JUDGED = "You have judged every pair."
SO_FAR = "That is every pair so far; more come as the comparison goes on."
OPEN = ("1 pair is left without a vote of yours.", "{amount:,} pairs are left without a vote of yours.")
NO_READER = "This page did not say who votes."
NO_READER_REMEDY = "Reload it and vote again."
NO_PAIR = "The pair that was judged is not known here any more."
NO_PAIR_REMEDY = "Ask for another."

TALLY = "What readers said"
NO_VOTES = "Nobody has voted yet."
COLUMNS = ("Variant", "Reads better", "No difference", "Reads worse", "Sign test")
IT = "it"
PREFERRED = "{better} of {decided} preferred {it}: {word} ({p})"
VOTES = ("vote", "votes")
WORDS: dict[Literal["better", "worse", "open"], str] = {
    "better": "it reads better",
    "worse": "the baseline reads better",
    "open": "too few to tell",
}
P = "p = {p}"
P_SMALL = "p under 0.0001"
UNDECIDED = "no vote on {it} has a preference"
READ_BLIND = "Read blind"
FINE = (
    "Sign test: exact and two-sided, votes without a difference left out; p is the chance of a split at least as "
    "uneven if both read equally well, and under {certain} counts{corrected}. It takes votes for independent: many by "
    "one person or on few prompts are no sample of readers or of questions. These are of {voters} on {prompts}. The "
    "baseline's answer comes back with each variant, so that a reader may get to know it."
)
CORRECTED = ", after Holm's correction for {tests} variants"
READERS = ("reader", "readers")
