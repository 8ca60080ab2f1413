"""From what was chosen to what will be done: pure functions of the choice, the machine and the checkpoint's facts.

Covers the baseline, order, what is left out and why. Reads no file and starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from optimizers import settings
from optimizers.errors import ChoiceError
from optimizers.planning import models, predictions, threads
from optimizers.planning.checks import check, check_context, check_text
from optimizers.planning.stacks import (
    AS_STORED,
    PLAIN_BASELINE,
    Stack,
    completed,
    filling,
    in_slot_order,
    key_of,
    known,
    parse_stack,
    plain_baseline,
    read_stack,
    slots_of,
)
from optimizers.planning.ways import below
from optimizers.schema import Checkpoint, Choice, Device, Machine, Obstacle, Plan, Promise, Skipped, Variant, Workload
from optimizers.techniques.base import Technique

SHARE_OF_FREE_MEMORY = 0.8
FOUR_BIT_BYTES = 0.75


@dataclass(frozen=True)
class _Setting:
    """What completing and judging a stack needs to know. `own` holds the techniques that the baseline brings."""

    machine: Machine
    checkpoint: Checkpoint
    workload: Workload
    limit_bytes: int
    own: tuple[str, ...]


def memory_limit(machine: Machine, override: int | None) -> int:
    """Bytes that a run may use: what the settings say, else 80 % of what is free, or of the GPU where there is one."""
    if override is not None:
        return override
    whole = machine.gpus[0].memory_bytes if machine.gpus else machine.memory_available_bytes
    return int(whole * SHARE_OF_FREE_MEMORY)


def plan(
    choice: Choice,
    machine: Machine,
    checkpoint: Checkpoint,
    limit_bytes: int,
    prompt_tokens: Sequence[int] | None = None,
    found: models.Found = MappingProxyType({}),
    text_tokens: int | None = None,
) -> Plan:
    """What will be done for this choice within `limit_bytes` of memory.

    `prompt_tokens` are the lengths of the prompts where they are known, `text_tokens` that of the beginning of a text
    of the person's own; `found` is each checkpoint that a stack names,
    or why there is none. Raises ChoiceError when the choice, or its baseline, cannot be used; a variant that cannot run
    is skipped with its reason instead."""
    check(choice.workload, machine)
    check_context(choice.workload, checkpoint, prompt_tokens)
    check_text(choice.workload, text_tokens)
    count = choice.workload.threads or machine.usable_cores
    stacks = [_without_the_plans(stack, checkpoint, found, count) for stack in _stacks(choice)]
    baseline, notes = _baseline(choice, machine, checkpoint, limit_bytes)
    own = filling(baseline, checkpoint)
    setting = _Setting(machine, checkpoint, choice.workload, limit_bytes, own)
    first = _variant(baseline, (), setting)
    plain = [stack for stack in stacks if stack.checkpoint is None]
    if any(stack.threads is None and key_of(completed(stack.techniques, own)) == first.key for stack in plain):
        notes.append(f"{first.key} is the baseline itself, so it has one row, not two.")
    variants, skipped = _sorted_out(stacks, first, setting, found)
    if choice.ways == "ladder":
        variants = _on_steps(plain, variants, own)
    return _assembled(choice, setting, (first, *variants), skipped, notes)


def _assembled(
    choice: Choice, setting: _Setting, variants: tuple[Variant, ...], skipped: tuple[Skipped, ...], notes: list[str]
) -> Plan:
    """The plan, with what its variants need together: all of them and the baseline's second process."""
    together = sum(variant.predicted_bytes for variant in variants) + variants[0].predicted_bytes
    resident = together <= setting.limit_bytes
    count = choice.workload.threads or setting.machine.usable_cores
    device: Device = "cuda" if setting.machine.gpus else "cpu"
    if not resident:
        notes.append(
            f"All variants together would need about {gigabytes(together)} of memory, and "
            f"{gigabytes(setting.limit_bytes)} may be used: they run one after another, the baseline first and last."
        )
    return Plan(
        choice=choice,
        machine=setting.machine,
        checkpoint=setting.checkpoint,
        baseline=variants[0].key,
        variants=variants,
        skipped=skipped,
        resident=resident,
        predicted_bytes=together if resident else max(variant.predicted_bytes for variant in variants),
        estimate_s=predictions.seconds(
            [
                (known(variant.techniques), variant.checkpoint or setting.checkpoint, variant.threads or count)
                for variant in variants
            ],
            choice.workload,
            device,
            resident,
        ),
        threads=count,
        notes=tuple(notes),
        device=device,
    )


def _stacks(choice: Choice) -> list[Stack]:
    if len(choice.stacks) > settings.MAX_STACKS:
        raise ChoiceError(
            f"{len(choice.stacks)} stacks were asked for.", f"Compare at most {settings.MAX_STACKS} at a time."
        )
    return [read_stack(text) for text in choice.stacks]


def _without_the_plans(stack: Stack, checkpoint: Checkpoint, found: models.Found, count: int) -> Stack:
    """A stack that names the plan's own checkpoint, or its own thread count, is one that names none."""
    another = found[stack.checkpoint] if stack.checkpoint is not None else None
    if isinstance(another, models.Another) and another.checkpoint.folder == checkpoint.folder:
        stack = replace(stack, checkpoint=None)
    return replace(stack, threads=None) if stack.threads == count else stack


def _sorted_out(
    stacks: list[Stack], first: Variant, setting: _Setting, found: models.Found
) -> tuple[list[Variant], tuple[Skipped, ...]]:
    """Each stack once, as a variant or as skipped; what is slow to prepare goes last so that it holds up nobody."""
    variants: dict[str, Variant] = {}
    skipped: dict[str, Skipped] = {}
    labels = models.labels(found)
    for stack in stacks:
        if stack.checkpoint is None:
            variant, obstacle = _of_techniques(stack, first, setting)
        else:
            another, label = found[stack.checkpoint], labels[stack.checkpoint]
            variant, obstacle = _of_another(stack, first, setting, another, label)
        if stack.threads is not None:
            variant = threads.with_count(variant, stack.threads, first.key)
            obstacle = obstacle or threads.too_many(stack.threads, setting.machine)
        key = variant.key
        if key == first.key or key in variants or key in skipped:
            continue
        if obstacle is None:
            variants[key] = variant
        else:
            skipped[key] = Skipped(key, variant.title, variant.techniques, obstacle)
    ordered = sorted(variants.values(), key=lambda v: any(t.slow_to_prepare for t in known(v.techniques)))
    return ordered, tuple(skipped.values())


def _on_steps(stacks: list[Stack], variants: list[Variant], own: tuple[str, ...]) -> list[Variant]:
    """The variants of a ladder, each with the nearest step below it that will run with as many threads; at the foot
    stands the baseline."""
    running = {variant.key for variant in variants}
    under: dict[str, str] = {}
    for stack in (stack for stack in stacks if stack.techniques):
        part = "" if stack.threads is None else threads.part_of_key(stack.threads)
        lower = below(stack.techniques)
        while lower and key_of(completed(lower, own)) + part not in running:
            lower = below(lower)
        under.setdefault(key_of(completed(stack.techniques, own)) + part, key_of(completed(lower, own)) + part)
    return [replace(variant, below=under.get(variant.key)) for variant in variants]


def _of_techniques(stack: Stack, first: Variant, setting: _Setting) -> tuple[Variant, Obstacle | None]:
    """The variant that a stack asks for, and why it cannot run, if so. One that names no technique (but a thread
    count) is the baseline's."""
    as_first = stack.checkpoint is None and not stack.techniques
    techniques = first.techniques if as_first else completed(stack.techniques, setting.own)
    variant = _variant(techniques, first.techniques, setting)
    return variant, _obstacle(variant, setting)


def _of_another(
    stack: Stack, first: Variant, setting: _Setting, another: models.Another | Obstacle, label: str
) -> tuple[Variant, Obstacle | None]:
    """The same of another checkpoint, judged by its own facts; nothing is known of one that was not found."""
    there, obstacle = setting, another if isinstance(another, Obstacle) else None
    if isinstance(another, models.Another):
        own = first.techniques if another.checkpoint.quantization is None else parse_stack(AS_STORED)
        there = replace(setting, checkpoint=another.checkpoint, own=filling(own, another.checkpoint))
        obstacle = models.too_small(another, setting.workload)
    plain, unfit = _of_techniques(stack, first, there)
    changed = [
        technique.title for technique in known(name for name in plain.techniques if name not in first.techniques)
    ]
    variant = replace(
        plain,
        key=plain.key + models.part_of_key(label),
        title=" + ".join([models.in_words(label, setting.checkpoint), *changed]),
        promises=models.promises(there.checkpoint, setting.checkpoint),
        checkpoint=there.checkpoint,
        same_tokenizer=isinstance(another, models.Another) and another.same_tokenizer,
    )
    return variant, obstacle or unfit


def _variant(techniques: tuple[str, ...], baseline: tuple[str, ...], setting: _Setting) -> Variant:
    """The variant of these techniques; title, warnings and promises are of those that the baseline does not have."""
    named = known(name for name in techniques if name not in baseline) or known(techniques)
    return Variant(
        key=key_of(techniques),
        title=" + ".join(technique.title for technique in named),
        techniques=in_slot_order(techniques),
        predicted_bytes=predictions.process_bytes(known(techniques), setting.checkpoint, setting.workload),
        warnings=tuple(_warnings(named, setting)),
        promises=tuple(_promises(named, techniques, baseline, setting.own)) if baseline else (),
        four_bit=any((technique.linear_bytes or 1.0) < FOUR_BIT_BYTES for technique in known(techniques)),
    )


def _warnings(named: Iterable[Technique], setting: _Setting) -> Iterator[str]:
    """What is known to disappoint here, on this machine or for what is asked."""
    tokens = setting.workload.max_new_tokens
    for technique in named:
        if (warning := technique.warn(setting.machine, setting.checkpoint)) is not None:
            yield warning
        if tokens < technique.least_tokens:
            yield (
                f"Answers of {tokens} new token{'s' if tokens > 1 else ''} are too short to show what "
                f"{technique.title} gives: ask for {technique.least_tokens} or more."
            )


def _promises(
    named: Iterable[Technique], techniques: tuple[str, ...], baseline: tuple[str, ...], own: tuple[str, ...]
) -> Iterator[Promise]:
    """What the techniques of a stack promise, each to be judged against the same stack without it. What another brings
    along cannot be left out, so nothing is judged of it; nor where the baseline would put more in its place than it
    leaves open (another runtime under a technique of PyTorch's)."""
    for technique in named:
        rest = tuple(name for name in techniques if name not in (technique.id, *technique.brings))
        without = completed(rest, own)
        opened = {slot for gone in known(set(techniques) - set(rest)) for slot in slots_of(gone)}
        filled = {slot for new in known(set(without) - set(techniques)) for slot in slots_of(new)}
        if key_of(without) != key_of(techniques) and filled <= opened:
            against = None if key_of(without) == key_of(baseline) else key_of(without)
            yield from (replace(promise, against=against) for promise in technique.promises)


def _obstacle(variant: Variant, setting: _Setting) -> Obstacle | None:
    """Why the variant cannot run here: a technique is unavailable, two conflict, or memory is short."""
    techniques = known(variant.techniques)
    for technique in techniques:
        obstacle = technique.why_not(setting.machine, setting.checkpoint) or _conflict(technique, variant.techniques)
        if obstacle is not None:
            return obstacle
    if variant.predicted_bytes > setting.limit_bytes:
        return Obstacle(
            f"It would need about {gigabytes(variant.predicted_bytes)} of memory, and "
            f"{gigabytes(setting.limit_bytes)} may be used.",
            "Close other programs, choose a smaller precision or model, or raise LEVERS_MEMORY_BYTES.",
        )
    return None


def _conflict(technique: Technique, others: Sequence[str]) -> Obstacle | None:
    for other in others:
        if other in technique.conflicts:
            return Obstacle(technique.conflicts[other], f"Leave out {technique.id} or {other}.")
    return None


def _baseline(
    choice: Choice, machine: Machine, checkpoint: Checkpoint, limit_bytes: int
) -> tuple[tuple[str, ...], list[str]]:
    """The baseline's techniques, and the sentences that say why it is another than the usual one."""
    if choice.baseline is not None:
        given = completed(parse_stack(choice.baseline), filling(parse_stack(plain_baseline(checkpoint)), checkpoint))
        _must_run(given, _Setting(machine, checkpoint, choice.workload, limit_bytes, ()))
        return given, []
    plain = plain_baseline(checkpoint)
    usual = parse_stack(plain)
    setting = _Setting(machine, checkpoint, choice.workload, limit_bytes, ())
    if checkpoint.quantization is not None:
        note = f"The checkpoint is quantized already ({checkpoint.quantization}), so the baseline is it as stored."
        return _as_stored(setting), [note]
    obstacle = _obstacle(_variant(usual, (), setting), setting)
    if obstacle is not None:
        return _as_stored(setting), [f"The baseline is the checkpoint as stored, not {plain}: {obstacle.reason}"]
    if plain == PLAIN_BASELINE:
        return usual, []
    note = f"The baseline is {plain}: transformers has no fused attention (sdpa) for {checkpoint.architecture}."
    return usual, [note]


def _as_stored(setting: _Setting) -> tuple[str, ...]:
    techniques = parse_stack(AS_STORED)
    _must_run(techniques, setting)
    return techniques


def _must_run(techniques: tuple[str, ...], setting: _Setting) -> None:
    obstacle = _obstacle(_variant(techniques, (), setting), setting)
    if obstacle is not None:
        raise ChoiceError(f"The baseline {key_of(techniques)} cannot run here. {obstacle.reason}", obstacle.remedy)


def gigabytes(count: int) -> str:
    """Bytes in words, decimal units: "2.1 GB", "350 MB"."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
