"""What a technique is. Each file beside this one holds one, as a module-level `TECHNIQUE`; the folder is the registry.

Covers the record and its defaults. Heavy libraries are imported inside a technique's functions, which a worker calls;
`why_not`, `warn`, `verify` and the data are read everywhere and import nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from optimizers.schema import Census, Checkpoint, Explanation, Machine, Obstacle, Promise, Slot
from optimizers.techniques.shared_calls import Call


@dataclass(frozen=True)
class LoadOptions:
    """What from_pretrained is told; a field left None is not said. `dtype` is a torch dtype's name or "auto";
    `quantization` makes one of transformers' quantization configs."""

    dtype: str | None = None
    attention: str | None = None
    quantization: Call | None = None


@dataclass(frozen=True)
class Sampling:
    """Drawing the next token by chance; `seed` makes it repeatable."""

    seed: int
    temperature: float
    top_p: float


@dataclass(frozen=True)
class GenerationOptions:
    """What generate() is told; a field left None is not said. `cache` "none" computes every key and value anew each
    step; `compile_mode` is torch.compile's mode for the decoding step; `prompt_lookup_tokens` is how many tokens are
    guessed from the prompt at a time."""

    cache: Literal["static", "none"] | None = None
    compile_mode: str | None = None
    sampling: Sampling | None = None
    prompt_lookup_tokens: int | None = None


@dataclass(frozen=True)
class Recipe:
    """What a script needs to have a technique without this program, beside the keywords that `options` and `generation`
    declare already. Everything is lines of Python.

    imports: what the other lines need.
    change: statements that change `model` once it is loaded.
    load: statements in place of from_pretrained. They leave `tokenizer` and, unless there is an `answer`, `model`; they
        find the checkpoint's folder in MODEL, and THREADS.
    answer: statements in place of generate(). They leave `new`, the ids of the answer, and `stops`, the ids that end
        one; they find the prompt's ids, (1, tokens), in `ids`, and NEW_TOKENS and SEED.
    packages: distributions to install, beside torch and transformers.
    engine: the engine (`engines/`) whose exact versions the script needs, in an environment of its own.
    notes: sentences for the reader: above all where the script is not the path that was measured."""

    imports: tuple[str, ...] = ()
    change: tuple[str, ...] = ()
    load: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    engine: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadContext:
    """What a technique may know while its variant loads. `precision` is the torch dtype's name that the stack names,
    `device` where the weights will be ("cpu" or "cuda")."""

    checkpoint: Checkpoint
    precision: str
    threads: int
    longest_tokens: int
    instruction_sets: tuple[str, ...]
    seed: int = 0
    device: str = "cpu"


def _available(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    return None


def _no_warning(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    return None


def _no_options(context: LoadContext) -> LoadOptions:
    return LoadOptions()


def _no_generation_options(context: LoadContext) -> GenerationOptions:
    return GenerationOptions()


def _declared(context: LoadContext, generation: GenerationOptions) -> Recipe:
    return Recipe()


def _unexplained(message: str) -> Obstacle | None:
    return None


def _applied(census: Census, checkpoint: Checkpoint) -> Obstacle | None:
    return None


def _no_time(checkpoint: Checkpoint) -> float:
    return 0.0


@dataclass(frozen=True)
class Effort:
    """Roughly what a technique takes in time, for the estimate before a run; never shown as a measurement.

    slowdown, gpu_slowdown: seconds of a token on a processor or on a GPU, over those of plain PyTorch in fp32.
    rereads: every token reads the whole text before it again.
    once_s_per_parameter, once_s_per_layer: seconds of preparing, the first time, before anything is cached.
    once_s: further seconds of preparing, which depend on the kind of checkpoint."""

    slowdown: float = 1.0
    gpu_slowdown: float = 1.0
    rereads: bool = False
    once_s_per_parameter: float = 0.0
    once_s_per_layer: float = 0.0
    once_s: Callable[[Checkpoint], float] = _no_time


@dataclass(frozen=True)
class Technique:
    """One lever.

    slot: its place in a stack; `also_fills` are further slots it takes.
    title, summary: plain words for a person who writes no code; one short line each.
    about: how it works and what to expect of it, in one paragraph.
    promises: what its documentation claims.
    why_not: the obstacle on this machine (and, when given, for this checkpoint), None when available. Pure.
    warn: a sentence to show before the run when it is known to disappoint here, else None. Pure.
    least_tokens: shorter answers than so many new tokens cannot show what it gives; said before the run.
    brings: ids that come with it wherever the stack leaves their slots open (compile brings a static cache).
    options: what to tell from_pretrained. Light, but for a technique that has its own `load`: there it runs in the
        worker and imports what loading will need.
    generation: what to tell generate(). Pure.
    load: a loader of its own in place of from_pretrained (another runtime): gives a PreTrainedModel that generate() can
        drive. Runs in the worker; the second argument tells what it is doing, in a few words.
    transform: changes the loaded model in place or returns another (None: nothing to do). Runs in the worker.
    verify: from the census, why the technique was not applied; None when it was. Pure.
    explain: what an error message of its library means, None when it is not one that it knows. Pure.
    linear_bytes: predicted bytes per weight of a linear layer, None where the precision decides; `element_bytes` is
        what a precision stores per value.
    holds_scores: attention's scores of every position for every other are in memory at once.
    slow_to_prepare: goes to the end of a plan so that it holds up nobody.
    engine: the engine (`engines/`) in whose environment its worker runs, None for the program's own.
    conflicts: technique id to the sentence that says why the two do not go together.
    effort: roughly what it takes in time.
    recipe: what a script needs beside the declared keywords; the second argument is what the whole stack tells
        generate(). Pure.
    """

    id: str
    slot: Slot
    title: str
    summary: str
    about: Explanation
    promises: tuple[Promise, ...]
    also_fills: tuple[Slot, ...] = ()
    why_not: Callable[[Machine, Checkpoint | None], Obstacle | None] = _available
    warn: Callable[[Machine, Checkpoint | None], str | None] = _no_warning
    options: Callable[[LoadContext], LoadOptions] = _no_options
    transform: Callable[[Any, LoadContext], Any | None] | None = None
    least_tokens: int = 1
    brings: tuple[str, ...] = ()
    generation: Callable[[LoadContext], GenerationOptions] = _no_generation_options
    load: Callable[[LoadContext, Callable[[str], None]], Any] | None = None
    verify: Callable[[Census, Checkpoint], Obstacle | None] = _applied
    linear_bytes: float | None = None
    element_bytes: float | None = None
    holds_scores: bool = False
    slow_to_prepare: bool = False
    engine: str | None = None
    conflicts: Mapping[str, str] = field(default_factory=dict)
    explain: Callable[[str], Obstacle | None] = _unexplained
    effort: Effort = Effort()
    recipe: Callable[[LoadContext, GenerationOptions], Recipe] = _declared
