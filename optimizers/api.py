"""The one door: what the page, the command line, notebooks and agents may ask for.

Covers choosing, planning, starting, watching, stopping and reading runs. It adds no rule of its own: rules are in the
rooms behind it. Importing it imports neither torch nor gradio; the first run starts the manager, the end of the program
ends it and every worker.

Every function raises errors of the LeversError tree only (`errors.py`), each with a reason and a remedy.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict, Unpack

from optimizers import checkpoints, machine, planning, takeaway
from optimizers import engines as environments
from optimizers.errors import LeversError, RunNotFound
from optimizers.manager import Manager, finished
from optimizers.results import Hit, LiveRun, ModelEntry, Run, RunSummary, TechniqueList, TechniqueRow
from optimizers.runners import forking
from optimizers.schema import Checkpoint, Choice, EngineState, Machine, Obstacle, Plan, PresetId, Way, Workload
from optimizers.scores import KlTerms, OwnText
from optimizers.settings import settings
from optimizers.store import Store
from optimizers.tasks import own_text as texts
from optimizers.tasks import text_generation
from optimizers.techniques import all_techniques
from optimizers.techniques.base import Technique
from optimizers.votes import Vote

DEFAULT_TOKENS = 48
DEFAULT_ROUNDS = 6
LOOK_EVERY_S = 1.0
SETTLE_S = 30.0

Progress = Callable[[str, float | None], None]
Stamp = tuple[tuple[str, int, int], ...]

_lock = threading.Lock()
_managers: dict[Path, Manager] = {}
_facts: dict[tuple[str, bool], tuple[Checkpoint, Stamp | None]] = {}


class Asked(TypedDict, total=False):
    """What `choose` may be told by name, for those who pass it on."""

    prompts: Iterable[str] | None
    max_new_tokens: int
    rounds: int
    seconds: float | None
    baseline: str | None
    seed: int
    threads: int | Sequence[int] | None
    ways: Way
    text: str | Path | OwnText | None
    kl_terms: KlTerms
    as_hosted: bool


def techniques(model: str | None = None) -> TechniqueList:
    """Every technique as it stands on this machine and, when a model is named, for that model, in slot order.

    A local folder is only looked at where the settings allow it. Raises CheckpointError."""
    here = machine.describe()
    checkpoint = None if model is None else prepare(model, folders=settings().allow_folders)
    return TechniqueList(here, tuple(_row(technique, here, checkpoint) for technique in all_techniques().values()))


def models() -> tuple[ModelEntry, ...]:
    """The models that can be picked without typing: packaged, and cached from the hub."""
    return tuple(checkpoints.known())


def default_model() -> tuple[str, str]:
    """The model to begin with, and the sentence that says which and why. Waits for the hub at most 2 s."""
    return checkpoints.default_model()


def search(text: str) -> tuple[Hit, ...]:
    """Models of the hub whose names hold `text`, at most eight; none for under three characters, which only tells
    whether the hub can be searched. Waits for it at most 2 s. Raises HubUnreachable."""
    limit = planning.memory_limit(machine.describe(), settings().memory_bytes)
    return tuple(planning.judged(hit, limit) for hit in checkpoints.search(text))


def prepare(model: str, progress: Progress | None = None, folders: bool = True) -> Checkpoint:
    """The checkpoint that `model` names, fetched and converted first where it must be, and its facts.

    What was prepared once is remembered for as long as the files in its folder stay as they are. `progress` gets words
    and a share between 0 and 1 (None: not known). With `folders` false a local folder is refused. Raises
    CheckpointError."""
    key = (model, folders)
    with _lock:
        known = _facts.get(key)
    if known is not None and known[1] is not None and known[1] == _stamp(known[0]):
        return known[0]
    checkpoint = checkpoints.resolve(model, progress, folders=folders)
    with _lock:
        _facts[key] = checkpoint, _stamp(checkpoint)
    return checkpoint


def engines() -> tuple[EngineState, ...]:
    """The engines that run in environments of their own, installed or not."""
    return environments.states(settings())


def install_engine(name: str, progress: Progress | None = None) -> None:
    """Install an engine's environment now instead of on its first use; nothing happens when it is here. `progress` as
    in `prepare`. Raises UsageError for an unknown name, EngineError."""
    environments.ready(name, progress or (lambda text, share: None))


def remove_engine(name: str) -> int:
    """Remove an engine's environments, outdated ones too; the bytes freed. Raises UsageError, EngineError."""
    return environments.remove(name)


def choose(
    model: str | None = None,
    techniques: Iterable[str] = (),
    *,
    prompts: Iterable[str] | None = None,
    max_new_tokens: int = DEFAULT_TOKENS,
    rounds: int = DEFAULT_ROUNDS,
    seconds: float | None = None,
    baseline: str | None = None,
    seed: int = 0,
    threads: int | Sequence[int] | None = None,
    ways: Way = "alone",
    text: str | Path | OwnText | None = None,
    kl_terms: KlTerms = "all",
    as_hosted: bool = False,
) -> Choice:
    """What is wanted, checked, with defaults where nothing is said.

    `techniques` are stacks ("bf16", "bf16+torchao_int8_weight_only", "checkpoint=owner/name" for another model);
    without any, half precision and 8-bit weights are compared. `seconds` is a budget for the whole comparison in place
    of `rounds`: they go on until every verdict on decoding speed is settled, at most so long. `threads` are what each
    variant computes with (all usable cores): of several, the first is the plan's and the baseline's, and everything is
    compared with each of the others too ("bf16+threads=1"). With `ways` "ladder" each step stands on top of the last,
    and stacks of several techniques stay as written (planning.ladder). `text` names a file (UTF-8) on which quality is
    measured in place of the packaged text, or is what `own_text` made of one; `kl_terms` "llama_cpp" leaves out of each
    KL divergence what llama.cpp's perplexity tool leaves out. With `as_hosted` the baseline and the three that write
    fastest are timed again while another program keeps one core busy. Raises ChoiceError; of its kinds TextError for
    the text, ThreadsError for `threads`."""
    counts = planning.thread_counts(threads)
    stacks = planning.given_texts(techniques, "techniques") or usual(ways)
    workload = Workload(
        prompts=text_generation.default_prompts() if prompts is None else planning.given_texts(prompts, "prompts"),
        max_new_tokens=max_new_tokens,
        rounds=rounds,
        seconds=seconds,
        seed=seed,
        threads=counts[0] if counts else None,
        text=texts.given(text),
        kl_terms=kl_terms,
        as_hosted=as_hosted,
    )
    here = machine.describe()
    planning.check(workload, here)
    if ways == "ladder":
        stacks = planning.ladder(stacks, lambda technique: technique.why_not(here, None) is None)
    stacks = planning.swept(stacks, counts, here)
    if baseline:
        planning.parse_stack(baseline)
    return Choice(default_model()[0] if model is None else model, stacks, workload, baseline or None, ways=ways)


def own_text(text: str) -> OwnText:
    """A text, given as it is, to be handed to `choose`. Raises TextError when it is empty, too long or not text."""
    return texts.typed(text)


def usual(ways: Way = "alone") -> tuple[str, ...]:
    """What is compared when nothing is named, as far as its files are in the folder of techniques."""
    return planning.preset("cheap" if ways == "alone" else "ladder").ticked


def preset(name: PresetId, model: str | None = None) -> planning.Preset:
    """What is ticked with one press, so far as it can be used on this machine and, when one is named, with that model.
    Raises CheckpointError, and KeyError for a name that there is not."""
    return planning.preset(name, {row.id for row in techniques(model).techniques if row.available})


def named_in(stack: str) -> tuple[str, ...]:
    """The ids of the techniques that a stack written by hand names, in slot order. Raises ChoiceError."""
    return planning.read_stack(stack).techniques


def named_checkpoints(stacks: Iterable[str]) -> tuple[str, ...]:
    """The names of other checkpoints in these stacks, as typed, each once. Raises ChoiceError."""
    read = (planning.read_stack(stack).checkpoint for stack in stacks)
    return tuple(dict.fromkeys(name for name in read if name is not None))


def plan(
    choice: Choice,
    folders: bool = True,
    progress: Progress | None = None,
    unusable: Mapping[str, LeversError] = MappingProxyType({}),
) -> Plan:
    """What would be done, what is left out and why, and roughly what it will take. Starts nothing; the files of the
    model, and of the checkpoints that stacks name, are fetched if they are not here (`progress` as in `prepare`).

    A named checkpoint that cannot be used is a skipped variant; those in `unusable` are not tried again. Raises
    ChoiceError, CheckpointError for the model itself."""
    checkpoint = prepare(choice.model, progress, folders)
    prompts = choice.workload.prompts
    found: dict[str, planning.Another | Obstacle] = {}
    for name in named_checkpoints(choice.stacks):
        try:
            if name in unusable:
                raise unusable[name]
            another = prepare(name, progress, folders)
            same = checkpoints.same_tokenizer(checkpoint, another)
            found[name] = planning.Another(another, checkpoints.lengths(another, prompts), same)
        except LeversError as error:
            found[name] = Obstacle(error.reason, error.remedy)
    here = machine.describe()
    limit = planning.memory_limit(here, settings().memory_bytes)
    text = choice.workload.text
    text_lengths = checkpoints.lengths(checkpoint, (text.head,)) if text else None
    return planning.plan(
        choice,
        here,
        checkpoint,
        limit,
        checkpoints.lengths(checkpoint, prompts),
        found,
        text_lengths[0] if text_lengths else None,
    )


def get_ready(plan: Plan) -> None:
    """Begin, ahead of `start`, what the plan's workers would begin with: the libraries are imported in a process that
    goes by itself when it is not used for minutes. Nothing happens while a run goes on."""
    if plan.device == "cpu" and running() is None:
        forking.start_ahead(plan.threads)


def start(plan: Plan) -> str:
    """Begin a comparison, or put it in line behind the one that goes on; its id, at once."""
    return _manager().start(plan)


def watch(run_id: str) -> LiveRun:
    """The run as it is right now, also a finished one. Cheap while it goes on. Raises RunNotFound."""
    try:
        return _manager().snapshot(run_id)
    except RunNotFound:
        return finished(load(run_id))


def stop(run_id: str) -> None:
    """End a run now; what was measured is kept. A run that is over stays as it is. Raises RunNotFound."""
    try:
        _manager().stop(run_id)
    except RunNotFound:
        _store().folder(run_id)


def compare(
    model: str | None = None,
    techniques: Iterable[str] = (),
    *,
    on_change: Callable[[LiveRun], None] | None = None,
    **asked: Unpack[Asked],
) -> Run:
    """Compare techniques on a model and wait for the result; arguments as `choose`, all of them.

    `on_change` sees the run as it goes on, at most once a second, so that watching does not disturb what is measured.
    An interrupt stops the workers and keeps what was measured. Raises ChoiceError, CheckpointError."""
    return follow(start(plan(choose(model, techniques, **asked))), on_change)


def follow(run_id: str, on_change: Callable[[LiveRun], None] | None = None) -> Run:
    """Wait for a run of this program and return it; `on_change` as in `compare`. An interrupt stops it."""
    manager = _manager()
    try:
        live = manager.snapshot(run_id)
        while live.status == "running":
            if on_change is not None:
                on_change(live)
            live = manager.wait(run_id, LOOK_EVERY_S)
    except BaseException:
        manager.stop(run_id)
        manager.wait(run_id, SETTLE_S)  # for what was measured to be on disk
        raise
    if on_change is not None:
        on_change(live)
    return live.run if live.run is not None else load(run_id)


def runs() -> tuple[RunSummary, ...]:
    """The history, newest first."""
    return _store().runs()


def load(run_id: str) -> Run:
    """A kept run, as far as it came. Raises RunNotFound."""
    return _store().load(run_id)


def recipe(run_id: str, variant: str) -> str:
    """A measured variant of a run as a script that runs without this program. Raises RunNotFound, TakeawayError."""
    return takeaway.recipe(load(run_id), variant)


def folder(run_id: str) -> Path:
    """Where a run is kept: run.json, samples.jsonl, events.jsonl and logs. Raises RunNotFound."""
    return _store().folder(run_id)


def keep(raw: bytes) -> str:
    """Put a run.json from elsewhere among the kept runs; its id here. Raises RunUnreadable."""
    return _store().keep(raw)


def delete(run_id: str) -> None:
    """Remove a kept run and all its files. Raises RunNotFound, and LeversError while it goes on."""
    _manager().delete(run_id)


def votable(run_id: str) -> None:
    """Raises RunNotFound, and UsageError, which says why, for a run that takes no votes."""
    _store().votable(run_id)


def vote(run_id: str, vote: Vote) -> None:
    """Put a reader's vote on two answers (`analysis.votes`) into the log of a run, going on or over; `Run.votes` holds
    it from then on. Raises RunNotFound, UsageError for one that cannot count, LeversError when it cannot be kept."""
    _manager().vote(run_id, vote)


def running() -> str | None:
    """The id of the run that goes on in this program, None when none does."""
    with _lock:
        managers = list(_managers.values())
    return next((run_id for manager in managers if (run_id := manager.running())), None)


def shutdown() -> None:
    """End every run and every worker of this program. Called by itself when the program ends."""
    with _lock:
        managers = list(_managers.values())
        _managers.clear()
    for manager in managers:
        manager.close()


def _store() -> Store:
    return Store(settings().runs)


def _manager() -> Manager:
    """The manager of the folder that the settings name, made on first use."""
    with _lock:
        if not _managers:
            atexit.register(shutdown)
        root = settings().runs
        if root not in _managers:
            _managers[root] = Manager(Store(root))
        return _managers[root]


def _row(technique: Technique, here: Machine, checkpoint: Checkpoint | None) -> TechniqueRow:
    obstacle = technique.why_not(here, checkpoint)
    promises = [f"{promise.claim} ({promise.promised})" for promise in technique.promises]
    return TechniqueRow(
        id=technique.id,
        slot=technique.slot,
        title=technique.title,
        summary=technique.summary,
        promise="; ".join(promises),
        about=technique.about,
        available=obstacle is None,
        reason=obstacle.reason if obstacle else None,
        remedy=obstacle.remedy if obstacle else None,
        warning=technique.warn(here, checkpoint) if obstacle is None else None,
    )


def _stamp(checkpoint: Checkpoint) -> Stamp | None:
    """Name, time and size of each file of a checkpoint; None when the folder is gone."""
    try:
        files = [(path.name, path.stat()) for path in Path(checkpoint.folder).iterdir()]
    except OSError:
        return None
    return tuple(sorted((name, found.st_mtime_ns, found.st_size) for name, found in files))
