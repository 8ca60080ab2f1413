"""Is what was chosen usable at all: prompts, a text, numbers, and whether they fit the model's context.

Covers workload settings; stacks are judged in `stacks.py` and `plans.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, get_args

from optimizers import settings
from optimizers.errors import ChoiceError, TextError
from optimizers.planning.threads import check_count
from optimizers.schema import Checkpoint, Machine, Workload
from optimizers.scores import KlTerms

LONGEST_BUDGET_S = 86_400.0
LARGEST_SEED = 2**31 - 1
LEAST_TEXT_TOKENS = 2


def given_texts(values: Iterable[str], name: str) -> tuple[str, ...]:
    """The texts given; a single text, which would fall apart into letters, is one of them. Raises ChoiceError."""
    listed = isinstance(values, Iterable) and not isinstance(values, str)
    found: tuple[Any, ...] = tuple(values) if listed else (values,)
    if not all(isinstance(value, str) for value in found):
        raise ChoiceError(f"The {name} hold something that is not text.", "Give a list of strings.")
    return found


def check(workload: Workload, machine: Machine) -> None:
    """Raise ChoiceError when a prompt list or a workload setting cannot be used, whatever the model."""
    _check_kinds(workload)
    _check_prompts(workload.prompts)
    _check_rounds(workload)
    if workload.max_new_tokens < 1:
        raise ChoiceError(f"The number of new tokens is {workload.max_new_tokens}.", "Ask for at least 1 new token.")
    if workload.batch_size != 1:
        raise ChoiceError(f"The batch size is {workload.batch_size}.", "Requests run one at a time: use 1.")
    if not 0 <= workload.seed <= LARGEST_SEED:
        raise ChoiceError(f"The seed is {workload.seed}.", f"Use a whole number from 0 to {LARGEST_SEED}.")
    if workload.threads is not None:
        check_count(workload.threads, machine)
    if workload.kl_terms not in get_args(KlTerms):
        raise ChoiceError(
            f"A KL divergence cannot be summed over {str(workload.kl_terms)[:60]!r}.",
            f"Use one of {', '.join(get_args(KlTerms))}.",
        )


def _check_kinds(workload: Workload) -> None:
    """What a program calls this with may be anything."""
    for name in ("max_new_tokens", "batch_size", "rounds", "seed"):
        value = getattr(workload, name)
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ChoiceError(f"{name} is {value!r:.60}, which is no whole number.", "Give a number, such as 5.")
    seconds: object = workload.seconds
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, Real)):
        raise ChoiceError(f"seconds is {seconds!r:.60}, which is no number.", "Give a number, such as 60.")


def _check_prompts(prompts: tuple[str, ...]) -> None:
    if not prompts:
        raise ChoiceError("There is no prompt.", "Write at least one prompt.")
    if len(prompts) > settings.MAX_PROMPTS:
        raise ChoiceError(f"There are {len(prompts)} prompts.", f"Use at most {settings.MAX_PROMPTS}.")
    for number, prompt in enumerate(prompts, 1):
        if not prompt.strip():
            raise ChoiceError(f"Prompt {number} is blank.", "Write something in it, or remove it.")
        if len(prompt) > settings.MAX_PROMPT_CHARACTERS:
            raise ChoiceError(
                f"Prompt {number} has {len(prompt)} characters.",
                f"Shorten it to at most {settings.MAX_PROMPT_CHARACTERS}.",
            )


def _check_rounds(workload: Workload) -> None:
    if not 1 <= workload.rounds <= settings.MAX_ROUNDS:
        raise ChoiceError(
            f"The number of rounds is {workload.rounds}.", f"Use 1 to {settings.MAX_ROUNDS}; a verdict needs 5."
        )
    seconds = workload.seconds
    if seconds is not None and not (math.isfinite(seconds) and 0 < seconds <= LONGEST_BUDGET_S):
        raise ChoiceError(
            f"The time budget is {seconds:g} seconds.", f"Use more than 0 and at most {LONGEST_BUDGET_S:.0f} seconds."
        )


def check_text(workload: Workload, tokens: int | None) -> None:
    """Raise TextError when the text of the person's own has too few `tokens` (of its beginning; None: not known)."""
    if workload.text is not None and tokens is not None and tokens < LEAST_TEXT_TOKENS:
        raise TextError(
            f"This model makes {tokens} token{'' if tokens == 1 else 's'} of {workload.text.called}, and scoring takes "
            f"{LEAST_TEXT_TOKENS}.",
            "Give some sentences, or leave it out: then the packaged text is used.",
        )


def check_context(workload: Workload, checkpoint: Checkpoint, prompt_tokens: Sequence[int] | None) -> None:
    context = checkpoint.context_length
    asked = workload.max_new_tokens
    if context and asked >= context:
        raise ChoiceError(
            f"{asked} new tokens do not fit: the context of {checkpoint.id} is {context} tokens, prompt included.",
            f"Ask for fewer than {context}.",
        )
    if asked > settings.MAX_NEW_TOKENS:
        raise ChoiceError(f"{asked} new tokens were asked for.", f"Ask for at most {settings.MAX_NEW_TOKENS}.")
    for number, length in enumerate(prompt_tokens or (), 1):
        if context and length + asked > context:
            raise ChoiceError(
                f"Prompt {number} has {length} tokens; with {asked} new ones it is longer than the context of "
                f"{checkpoint.id}, {context} tokens.",
                "Shorten the prompt or ask for fewer new tokens.",
            )
