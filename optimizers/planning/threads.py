"""Thread counts: a sweep over several as stacks, and a variant that has another count than the plan's.

Covers names, numbers and what such a variant is judged against. Giving a process its threads is the worker's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from optimizers import settings
from optimizers.errors import ThreadsError
from optimizers.planning.stacks import THREADS, read_stack
from optimizers.schema import Machine, Obstacle, Variant


def counted(threads: int | Sequence[int] | None) -> tuple[int, ...]:
    """The counts asked for, the plan's first; none where all usable cores are meant. Raises ThreadsError for what is no
    whole number, and for one that is named twice."""
    given = () if threads is None else tuple(threads) if isinstance(threads, Iterable) else (threads,)
    if any(isinstance(count, bool) or not isinstance(count, int) for count in given):
        raise ThreadsError("The thread counts are not all whole numbers.", "Give numbers, such as 2, 1.")
    for count in given:
        if given.count(count) > 1:
            raise ThreadsError(f"The thread count {count} is named twice.", "Name each count once.")
    return given


def check_count(count: int, machine: Machine) -> None:
    """Raise ThreadsError when so many threads cannot be had."""
    obstacle = too_many(count, machine)
    if obstacle is not None:
        raise ThreadsError(obstacle.reason, obstacle.remedy)


def too_many(count: int, machine: Machine) -> Obstacle | None:
    """Why so many threads cannot be had, None when they can."""
    if 1 <= count <= machine.usable_cores:
        return None
    return Obstacle(
        f"{count} threads were asked for, and {machine.usable_cores} processor cores can be used here.",
        f"Use 1 to {machine.usable_cores} threads, or leave the number out.",
    )


def swept(stacks: Sequence[str], counts: Sequence[int], machine: Machine) -> tuple[str, ...]:
    """The stacks, and for each count after the first the baseline and all of them again with that count. A stack that
    names a count of its own is not swept.

    Raises ThreadsError for a count that cannot be had and where that makes more stacks than are compared at a time,
    ChoiceError for what is no stack."""
    for count in counts:
        check_count(count, machine)
    plain = [stack for stack in stacks if read_stack(stack).threads is None]
    more: list[str] = []
    for count in counts[1:]:
        more += [f"{THREADS}={count}", *(stack + part_of_key(count) for stack in plain)]
    total = len(stacks) + len(more)
    if more and total > settings.MAX_STACKS:
        raise ThreadsError(
            f"{len(stacks)} stacks, timed with {len(counts)} thread counts, are {total} variants.",
            f"Compare at most {settings.MAX_STACKS} at a time: name fewer thread counts or fewer stacks.",
        )
    return (*stacks, *more)


def part_of_key(count: int) -> str:
    """The last part of such a variant's key."""
    return f"+{THREADS}={count}"


def with_count(variant: Variant, count: int, baseline: str) -> Variant:
    """The variant with so many threads. What it promises is judged against the same stack, or the baseline, with as
    many; where that does not run nothing is judged."""
    part = part_of_key(count)
    promises = (replace(promise, against=(promise.against or baseline) + part) for promise in variant.promises)
    return replace(
        variant,
        key=variant.key + part,
        title=f"{variant.title}, {count} thread{'' if count == 1 else 's'}",
        promises=tuple(promises),
        threads=count,
    )
