"""Another checkpoint as a variant: what it is called, what it is promised to be, and whether the requests fit it.

Covers names and facts. Finding and fetching a checkpoint is the business of `checkpoints`; a variant that names one is
planned like any other, in `plans.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from optimizers.errors import ChoiceError
from optimizers.planning.checks import check_context
from optimizers.planning.stacks import CHECKPOINT
from optimizers.schema import Checkpoint, Obstacle, Promise, Workload

LONGEST_LABEL = 48
SMALLER = Promise(
    "A smaller model is the biggest win of all",
    "faster than the larger one",
    "Guides to inference optimization: a smaller or distilled checkpoint, fine-tuned for the task",
    "decode",
    1.0,
    None,
)


@dataclass(frozen=True)
class Another:
    """A checkpoint that a stack names, as it was found. `prompt_tokens` are the lengths of the prompts in its own
    tokens, where they are known; `same_tokenizer` compares it with the plan's checkpoint."""

    checkpoint: Checkpoint
    prompt_tokens: Sequence[int] | None
    same_tokenizer: bool


Found = Mapping[str, Another | Obstacle]


def part_of_key(label: str) -> str:
    """The last part of such a variant's key."""
    return f"+{CHECKPOINT}={label}"


def labels(found: Found) -> dict[str, str]:
    """What each named checkpoint is called in keys and titles, by the name that was typed: the last part of its folder,
    and as many of those before it as tell it from the others; the id of any other. Two names of one folder share a
    label; long ones are cut."""
    ways = {name: _ways_to_say(name, one) for name, one in found.items()}
    depth = dict.fromkeys(ways, 0)
    while True:
        said = {name: ways[name][depth[name]] for name in ways}
        same = [name for name in ways if any(_clash(ways, said, name, other) for other in ways)]
        deeper = [name for name in same if depth[name] + 1 < len(ways[name])]
        if not deeper:
            return {name: _cut(label) for name, label in said.items()}
        for name in deeper:
            depth[name] += 1


def _ways_to_say(name: str, one: Another | Obstacle) -> list[str]:
    """From the shortest to the whole."""
    if isinstance(one, Obstacle):
        return [_clean(name)]
    if one.checkpoint.source != "folder":
        return [_clean(one.checkpoint.id)]
    parts = PurePath(one.checkpoint.folder).parts
    return [_clean(str(PurePath(*parts[-count:]))) for count in range(1, len(parts) + 1)]


def _clash(ways: Mapping[str, list[str]], said: Mapping[str, str], one: str, other: str) -> bool:
    return said[one] == said[other] and ways[one] != ways[other]


def _clean(text: str) -> str:
    return "".join(letter if letter.isprintable() and letter != "+" else "_" for letter in text)


def _cut(label: str) -> str:
    if len(label) <= LONGEST_LABEL:
        return label
    return f"{label[: LONGEST_LABEL - 9]}~{hashlib.sha256(label.encode()).hexdigest()[:8]}"


def in_words(label: str, checkpoint: Checkpoint) -> str:
    """Such a variant in a title: "SmolLM2-360M in place of smollm2-135m"."""
    usual = checkpoint.id if checkpoint.source != "folder" else PurePath(checkpoint.folder).name
    short, theirs = PurePath(label).name, PurePath(usual).name
    return f"{short} in place of {theirs}" if short != theirs else f"{label} in place of {checkpoint.id}"


def promises(another: Checkpoint, checkpoint: Checkpoint) -> tuple[Promise, ...]:
    """What guides say of a smaller model, where it is one. What techniques promise is of one model with and without
    them, which such a variant does not compare."""
    return (SMALLER,) if 0 < another.parameters < checkpoint.parameters else ()


def too_small(another: Another, workload: Workload) -> Obstacle | None:
    """Why the requests do not fit into its context, None when they do."""
    try:
        check_context(workload, another.checkpoint, another.prompt_tokens)
    except ChoiceError as error:
        return Obstacle(error.reason, error.remedy)
    return None
