"""The frozen records that travel between rooms, up to the finished run, and their JSON form.

Covers what is chosen (Choice, Workload), what will be done (Variant, Plan), what was measured (Timing, Sample, Memory,
Census, Measurement, Record). What is known of machine and checkpoint is in `facts.py`; the finished run (run.json) in
`results.py`; what a worker and its manager say to each other in `protocol.py`. Holds no logic; the JSON form's is in
`jsonform.py`.

Units: seconds in `*_s`, bytes in `*_bytes`, shares between 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from optimizers.busy import Load as Load
from optimizers.facts import Checkpoint as Checkpoint
from optimizers.facts import EngineState as EngineState
from optimizers.facts import Gpu as Gpu
from optimizers.facts import Machine as Machine
from optimizers.facts import Source as Source
from optimizers.facts import Task as Task
from optimizers.jsonform import from_json as from_json
from optimizers.jsonform import to_json as to_json
from optimizers.limits import Demand, MachineLimits
from optimizers.profiles import RequestProfile
from optimizers.scores import KlTerms, OwnText, PassageScores, StretchScore
from optimizers.votes import Vote

Slot = Literal["precision", "attention", "weights", "compile", "cache", "decoding", "runtime", "checkpoint"]
Device = Literal["cpu", "cuda"]
Way = Literal["alone", "ladder"]
PresetId = Literal["cheap", "small", "fast", "ladder"]
VariantStatus = Literal["waiting", "loading", "ready", "measured", "skipped", "not_applied", "failed", "cancelled"]
RunStatus = Literal["running", "done", "cancelled", "interrupted", "failed"]

SLOTS: tuple[Slot, ...] = (
    "precision",
    "attention",
    "weights",
    "compile",
    "cache",
    "decoding",
    "runtime",
    "checkpoint",
)
FINAL_STATUSES: tuple[VariantStatus, ...] = ("measured", "skipped", "not_applied", "failed", "cancelled")


@dataclass(frozen=True)
class Workload:
    """What every variant is asked to do. `seconds`, when set, is a budget for the comparison in place of `rounds`.
    `text` is what quality is measured on beside the answers, None for the packaged text. `as_hosted`: the leading
    variants are timed again with one core busy."""

    prompts: tuple[str, ...]
    max_new_tokens: int = 48
    rounds: int = 6
    seconds: float | None = None
    batch_size: int = 1
    seed: int = 0
    threads: int | None = None
    text: OwnText | None = None
    kl_terms: KlTerms = "all"
    as_hosted: bool = False


@dataclass(frozen=True)
class Choice:
    """What the person ticked, nothing derived. A stack is technique ids joined by plus signs, "checkpoint=NAME" where
    another model is meant and "threads=N" where another thread count than the workload's is; with `ways` "ladder" each
    is a step that stands on top of another."""

    model: str
    stacks: tuple[str, ...]
    workload: Workload
    baseline: str | None = None
    task: Task = "text_generation"
    ways: Way = "alone"


@dataclass(frozen=True)
class Obstacle:
    """Why something is not possible, and what would make it so. Both are whole sentences for a person."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class Explanation:
    """One paragraph about a technique, a figure or a term, and where to read on."""

    text: str
    source: str


@dataclass(frozen=True)
class Promise:
    """What a technique's documentation claims, as data. `metric` names the figure of VersusBaseline that judges it
    ("decode", "ttft", "prefill": speed ratio; "weights_bytes", "run_peak_bytes", "saved_bytes": bytes ratio) or
    "kl_divergence", or None where this program does not measure it; the promise is kept when the figure lies in [low,
    high]. In a plan `against` is the key of the variant that lacks this technique and no other; None where that is the
    baseline."""

    claim: str
    promised: str
    source: str
    metric: str | None = None
    low: float | None = None
    high: float | None = None
    against: str | None = None


@dataclass(frozen=True)
class Variant:
    """One checkpoint with at most one technique per slot. `key` is stable across machines ("bf16+sdpa"); `techniques`
    lists the ids in slot order; `predicted_bytes` is the memory the process is expected to need at its peak; `below` is
    the key of the step that it stands on in a ladder, None elsewhere. `checkpoint` is another than the plan's, None
    where it is that; without `same_tokenizer` its tokens are others than the baseline's, so neither probabilities nor
    answers can be compared token by token. `four_bit`: a technique stores weights in about 4 bits. `threads` is a
    thread count other than the plan's, None where it is that."""

    key: str
    title: str
    techniques: tuple[str, ...]
    predicted_bytes: int
    warnings: tuple[str, ...] = ()
    promises: tuple[Promise, ...] = ()
    below: str | None = None
    checkpoint: Checkpoint | None = None
    same_tokenizer: bool = True
    four_bit: bool = False
    threads: int | None = None


@dataclass(frozen=True)
class Skipped:
    """A variant that was asked for and will not run."""

    key: str
    title: str
    techniques: tuple[str, ...]
    obstacle: Obstacle


@dataclass(frozen=True)
class Plan:
    """What will be done: `variants` in order, the baseline first. `resident` says whether all are kept loaded at once.
    `notes` are whole sentences that the reader must see (which baseline and why, which model and why). `device` is
    where every variant runs: a GPU where there is one."""

    choice: Choice
    machine: Machine
    checkpoint: Checkpoint
    baseline: str
    variants: tuple[Variant, ...]
    skipped: tuple[Skipped, ...]
    resident: bool
    predicted_bytes: int
    estimate_s: float
    threads: int
    notes: tuple[str, ...] = ()
    device: Device = "cpu"

    @property
    def warnings(self) -> dict[str, str]:
        """Each warning of the variants once, with the title of the first one that it is about."""
        first: dict[str, str] = {}
        for variant in self.variants:
            for warning in variant.warnings:
                first.setdefault(warning, variant.title)
        return first


@dataclass(frozen=True)
class Timing:
    """One request as its worker clocked it, by time.perf_counter from the call with a text prompt.

    `token_times_s` has one entry per new token; `prefill_s` is the forward time of the prompt; `ttft_s` is the first
    entry of `token_times_s` (tokenization included, and also apart in `tokenize_s`). `processor_s` is the worker's own
    processor time, `waited_s` the time its threads were ready to run and did not (None where the system does not
    tell), `others_s` the processor time of everything else, stolen time included.
    `steps` counts the passes through the model that gave the tokens: fewer where some are guessed ahead. `joules` is
    the energy of the whole graphics card meanwhile, by the driver's counter; None on a processor."""

    prompt_tokens: int
    tokenize_s: float
    prefill_s: float
    ttft_s: float
    detokenize_s: float
    total_s: float
    token_times_s: tuple[float, ...]
    processor_s: float
    waited_s: float | None = None
    others_s: float | None = None
    threads: int = 1
    steps: int | None = None
    joules: float | None = None


@dataclass(frozen=True)
class Sample:
    """One timed request. `replica` is True for A', the baseline again in a process of its own. `processor_share` is
    the part of its threads that the request got (1.0 = undisturbed). `disturbed` samples are kept and flagged; of the
    attempts of one turn only the last counts (`superseded` is True on the earlier ones). Those with a `load` were timed
    while another program kept a core busy, are neither repeated nor flagged, and count among their like only."""

    variant: str
    replica: bool
    round: int
    prompt: int
    attempt: int
    timing: Timing
    processor_share: float
    disturbed: bool
    superseded: bool = False
    load: Load = "none"


@dataclass(frozen=True)
class Output:
    """A natural answer: the tokens before the first stop token. `stopped` says whether a stop token came; `generated`
    counts the tokens produced, stop tokens and what follows included. `text_ends` holds for each token how many
    characters of the text are there when it has come; empty in runs that did not keep it."""

    prompt: int
    text: str
    token_ids: tuple[int, ...]
    stopped: bool
    generated: int
    text_ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class Memory:
    """Memory of one worker, of the kind that holds its weights. `device` "cpu": resident memory; `*_file_bytes` is the
    file-backed part of the figure before it (mapped weights), the rest is anonymous; peaks are the kernel's high-water
    mark, reset between phases; None where it cannot be read. "cuda": bytes allocated by PyTorch on the GPU; then
    `reserved_peak_bytes` is the most that its allocator held, `process_bytes` all that the driver counts for the
    process (NVML), its CUDA context included, and `others_bytes` what it counts for programs other than this one.
    `saved_bytes` is the file that torch.save writes of the model's state, None of a graph or if not asked for."""

    weights_bytes: int
    disk_bytes: int
    runtime_bytes: int
    load_peak_bytes: int | None = None
    steady_bytes: int | None = None
    steady_file_bytes: int | None = None
    run_peak_bytes: int | None = None
    run_peak_file_bytes: int | None = None
    device: Device = "cpu"
    reserved_peak_bytes: int | None = None
    process_bytes: int | None = None
    saved_bytes: int | None = None
    others_bytes: int | None = None


@dataclass(frozen=True)
class SkippedModule:
    """A kind of skip: an example module's `name`, `why`, and how many modules share that cause."""

    name: str
    why: str
    count: int = 1


@dataclass(frozen=True)
class CompileCensus:
    """What the compiler counted. `late_graphs` were compiled after the variant was prepared; `from_cache` says whether
    the code came from an earlier run's (None: nothing was looked up)."""

    graphs: int
    graph_breaks: int
    recompiles: int
    late_graphs: int = 0
    from_cache: bool | None = None


@dataclass(frozen=True)
class Census:
    """What is really in memory and what really ran, read from the loaded model, never from the request.

    `bytes_by_dtype` is by storage, packed tensors as stored, tied ones once. `attention` is "sdpa" or "eager" as the
    profiler saw it dispatched, with the kernel in `attention_kernel`. `quantization` is the checkpoint's own. `cache`
    ("dynamic", "static", "none", "own": a state that the model keeps) and `decoding` ("greedy", "sampling",
    "prompt_lookup") are what generate() really made and did; empty where it was not seen.

    For a graph, `operators` counts its nodes by kind (so does `module_kinds`), `providers` are those of its session,
    and `checked` is a sentence that says how it compared with PyTorch when it was loaded. `demand` is what a pass over
    one token reads at the least, None where that differs from token to token. `prompt_logits` says for how many
    positions of a prompt the pass over it computed logits, of which one is needed; empty where it was not seen."""

    bytes_by_dtype: dict[str, int]
    modules_converted: int
    modules_skipped: tuple[SkippedModule, ...]
    attention: str
    attention_kernel: str
    inference_mode: bool
    module_kinds: dict[str, int]
    threads: int
    compile: CompileCensus | None = None
    providers: tuple[str, ...] = ()
    quantization: str | None = None
    cache: str = ""
    decoding: str = ""
    operators: dict[str, int] = field(default_factory=dict)
    checked: str = ""
    demand: Demand | None = None
    prompt_logits: Literal["", "last", "all"] = ""


@dataclass(frozen=True)
class Cost:
    """Seconds spent once: reading weights, preparing (quantizing, compiling, exporting), the first request."""

    load_s: float
    prepare_s: float
    warm_up_s: float


@dataclass(frozen=True)
class Measurement:
    """Everything measured of one variant, raw. `loaded_samples` are those with one core busy, `samples` all others."""

    variant: str
    title: str
    techniques: tuple[str, ...]
    status: VariantStatus
    reason: str | None = None
    remedy: str | None = None
    census: Census | None = None
    cost: Cost | None = None
    memory: Memory | None = None
    samples: tuple[Sample, ...] = ()
    outputs: tuple[Output, ...] = ()
    scores: tuple[PassageScores, ...] = ()
    notes: tuple[str, ...] = ()
    log_tail: tuple[str, ...] = ()
    stretches: tuple[StretchScore, ...] = ()
    profile: RequestProfile | None = None
    loaded_samples: tuple[Sample, ...] = ()


@dataclass(frozen=True)
class Record:
    """A run as its log tells it: the plan and each variant's measurement in plan order, the skipped ones after them.
    `replica_samples` are those of A', `loaded_replica_samples` its with one core busy. `baseline_scores` are the
    baseline's own (its text in one pass against itself step by step: the logit noise floor). `notes` are sentences
    about the run as a whole that came up while it ran."""

    id: str
    created_at: str
    status: RunStatus
    plan: Plan
    measurements: tuple[Measurement, ...]
    replica_samples: tuple[Sample, ...] = ()
    reason: str | None = None
    notes: tuple[str, ...] = ()
    limits: MachineLimits | None = None
    loaded_replica_samples: tuple[Sample, ...] = ()
    votes: tuple[Vote, ...] = ()
