"""What a worker and its manager say to each other: JSON lines, one record each, on two pipes of their own.

Commands go to the worker, events come back. Every event is untrusted (a model's text is in it) and is checked field by
field on arrival by `schema.from_json`. The manager keeps the events, wrapped in LogLine with its own, as the run's log.
One command is answered by exactly one closing event (named in its docstring) or by `Failed`; `Stage` and `Tokens` may
come in between, at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

from pydantic import Field

from optimizers.limits import LimitsMeasured
from optimizers.profiles import RequestProfile
from optimizers.schema import (
    Census,
    Checkpoint,
    Cost,
    Device,
    Memory,
    Obstacle,
    Output,
    Plan,
    RunStatus,
    Sample,
    Timing,
    VariantStatus,
    to_json,
)
from optimizers.scores import KlTerms, PassageScores, StretchScore
from optimizers.scores import Passage as Passage
from optimizers.scores import Reference as Reference
from optimizers.scores import Stretch as Stretch
from optimizers.votes import Voted

PROTOCOL = 1
REFERENCE_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class Load:
    """Load one variant. `longest_tokens` is prompt plus answer of the longest request to come (sizes static caches),
    `device` is where the weights go ("cpu" or "cuda"). Closed by Loaded."""

    checkpoint: Checkpoint
    techniques: tuple[str, ...]
    threads: int
    seed: int
    longest_tokens: int
    instruction_sets: tuple[str, ...] = ()
    device: Device = "cpu"
    kind: Literal["load"] = "load"


@dataclass(frozen=True)
class WarmUp:
    """One untimed request. Closed by WarmedUp."""

    prompt: str
    max_new_tokens: int
    kind: Literal["warm_up"] = "warm_up"


@dataclass(frozen=True)
class RunRequest:
    """One request, streamed, to exactly `max_new_tokens`. With `record` its log-probabilities are written there (row =
    position) and its timing does not count. Closed by Answered."""

    request: int
    prompt: str
    max_new_tokens: int
    record: Reference | None = None
    kind: Literal["run"] = "run"


@dataclass(frozen=True)
class Tokenize:
    """Token ids of plain text, without special tokens. Closed by Tokenized."""

    text: str
    kind: Literal["tokenize"] = "tokenize"


@dataclass(frozen=True)
class Score:
    """Score passages against the reference, or write it (`mode` "write": one_pass passages and the timed ones alike).
    In write mode the scores compare the passage with itself (KL 0), except that "text_timed" is compared with the rows
    of "text:0" already written: the logit noise floor. Closed by Scored."""

    passages: tuple[Passage, ...]
    reference: Reference
    mode: Literal["write", "read"]
    kl_terms: KlTerms = "all"
    kind: Literal["score"] = "score"


@dataclass(frozen=True)
class ScoreText:
    """Score text by its bytes, which are the same for every tokenizer. A stretch that does not fit the model's context
    is left out. Closed by TextScored."""

    stretches: tuple[Stretch, ...]
    kind: Literal["score_text"] = "score_text"


@dataclass(frozen=True)
class TakeCensus:
    """Closed by CensusTaken."""

    kind: Literal["census"] = "census"


@dataclass(frozen=True)
class TakeMemory:
    """With `saved` the size of the model's saved file is measured, too. Closed by MemoryTaken."""

    saved: bool = False
    kind: Literal["memory"] = "memory"


@dataclass(frozen=True)
class Profile:
    """One request like a timed one, clocked part by part; it counts for nothing else. Closed by Profiled."""

    prompt: str
    max_new_tokens: int
    kind: Literal["profile"] = "profile"


@dataclass(frozen=True)
class Save:
    """Save the variant's checkpoint. Closed by Saved."""

    folder: str
    kind: Literal["save"] = "save"


@dataclass(frozen=True)
class Exit:
    """End the process; nothing closes it but the end of the pipe."""

    kind: Literal["exit"] = "exit"


Command = Annotated[
    Union[Load, WarmUp, RunRequest, Tokenize, Score, ScoreText, TakeCensus, TakeMemory, Profile, Save, Exit],
    Field(discriminator="kind"),
]


@dataclass(frozen=True)
class Ready:
    """First event of a worker, before any heavy import."""

    pid: int
    protocol: int
    kind: Literal["ready"] = "ready"


@dataclass(frozen=True)
class Stage:
    """What the worker is doing, in a few words for a person ("reading weights")."""

    text: str
    kind: Literal["stage"] = "stage"


@dataclass(frozen=True)
class Loaded:
    """`vocab_size` is the width of the logits; `notes` are sentences (no pad token, raw prompt, ...), each becomes a
    caveat; `cost.warm_up_s` is 0 until WarmedUp."""

    cost: Cost
    vocab_size: int
    notes: tuple[str, ...] = ()
    kind: Literal["loaded"] = "loaded"


@dataclass(frozen=True)
class WarmedUp:
    warm_up_s: float
    kind: Literal["warmed_up"] = "warmed_up"


@dataclass(frozen=True)
class Tokens:
    """The answer so far, at most a few times a second. Never kept in the log."""

    request: int
    text: str
    count: int
    kind: Literal["tokens"] = "tokens"


@dataclass(frozen=True)
class Answered:
    """`prompt_ids` are the ids given to the model; `scored_ids` are the natural answer's ids and its stop token, if one
    came: what the other variants will score."""

    request: int
    timing: Timing
    output: Output
    prompt_ids: tuple[int, ...] = ()
    scored_ids: tuple[int, ...] = ()
    kind: Literal["answered"] = "answered"


@dataclass(frozen=True)
class Tokenized:
    token_ids: tuple[int, ...]
    kind: Literal["tokenized"] = "tokenized"


@dataclass(frozen=True)
class Scored:
    scores: tuple[PassageScores, ...]
    kind: Literal["scored"] = "scored"


@dataclass(frozen=True)
class TextScored:
    scores: tuple[StretchScore, ...]
    kind: Literal["text_scored"] = "text_scored"


@dataclass(frozen=True)
class CensusTaken:
    """`obstacle` says why the techniques were not applied, None when they were."""

    census: Census
    obstacle: Obstacle | None = None
    kind: Literal["census_taken"] = "census_taken"


@dataclass(frozen=True)
class MemoryTaken:
    memory: Memory
    kind: Literal["memory_taken"] = "memory_taken"


@dataclass(frozen=True)
class Profiled:
    profile: RequestProfile
    kind: Literal["profiled"] = "profiled"


@dataclass(frozen=True)
class Saved:
    folder: str
    bytes: int
    kind: Literal["saved"] = "saved"


@dataclass(frozen=True)
class Failed:
    """A command failed; the worker is still there unless its pipe ends."""

    command: str
    reason: str
    remedy: str
    kind: Literal["failed"] = "failed"


WorkerEvent = Annotated[
    Union[
        Ready,
        Stage,
        Loaded,
        WarmedUp,
        Tokens,
        Answered,
        Tokenized,
        Scored,
        TextScored,
        CensusTaken,
        MemoryTaken,
        Profiled,
        Saved,
        Failed,
    ],
    Field(discriminator="kind"),
]


@dataclass(frozen=True)
class Planned:
    """First line of a log."""

    run_id: str
    created_at: str
    plan: Plan
    kind: Literal["planned"] = "planned"


@dataclass(frozen=True)
class StatusChanged:
    status: VariantStatus
    reason: str | None = None
    remedy: str | None = None
    log_tail: tuple[str, ...] = ()
    kind: Literal["status_changed"] = "status_changed"


@dataclass(frozen=True)
class SampleTaken:
    """`output` is the natural answer of the sample; the first one of each prompt is the variant's answer."""

    sample: Sample
    output: Output
    kind: Literal["sample_taken"] = "sample_taken"


@dataclass(frozen=True)
class Noted:
    """A sentence about this variant that the reader must see."""

    text: str
    kind: Literal["noted"] = "noted"


@dataclass(frozen=True)
class Ended:
    """Last line of a log but for votes, which may come later; a log without one was interrupted."""

    status: RunStatus
    reason: str | None = None
    kind: Literal["ended"] = "ended"


LogEvent = Annotated[
    Union[
        Planned,
        StatusChanged,
        SampleTaken,
        Noted,
        Ended,
        Loaded,
        WarmedUp,
        Scored,
        TextScored,
        CensusTaken,
        MemoryTaken,
        Profiled,
        LimitsMeasured,
        Voted,
        Failed,
    ],
    Field(discriminator="kind"),
]


@dataclass(frozen=True)
class LogLine:
    """`at` is seconds since the run began; `variant` is the key it is about (None: the run); `replica` marks A'."""

    at: float
    variant: str | None
    event: LogEvent
    replica: bool = False


def line(record: object, kind: Any = None) -> bytes:
    """One line of the pipe or the log: JSON with no raw newline, ended by one."""
    return to_json(record, kind).encode() + b"\n"
