"""What a process of a variant will need, before anything is loaded: memory in bytes and time in seconds.

Both are rough models of the known parts, for deciding what fits and for telling a person roughly how long it will take;
nothing here is ever shown as a measurement. Time is refined from measured durations once the run is going.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizers.busy import LEADERS, LOADED_ROUNDS
from optimizers.schema import Checkpoint, Device, Workload
from optimizers.settings import MAX_ROUNDS, OWN_TEXT_POSITIONS, TEXT_POSITIONS, TIMED_TEXT_POSITIONS
from optimizers.tasks.text_generation import LOGIT_BYTES, WINDOW_POSITIONS, own_window
from optimizers.techniques.base import Technique

RUNTIME_BYTES = 450_000_000
STORED_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "float64": 8.0}
PROMPT_TOKENS = 64
TEXT_BYTES_PER_TOKEN = 4
START_S = 4.0
LIMITS_S = 8.0
LOAD_S_PER_PARAMETER = 4e-9
DECODE_S_PER_PARAMETER = 4.8e-10
PREFILL_S_PER_PARAMETER = 2.1e-11
MOST_USEFUL_THREADS = 8
LOADED_SLOWDOWN = 2.0
COMPILER_BYTES = 500_000_000
PACKED_BYTES = 2
SCORE_BYTES = 4
LEAST_HEAD_WIDTH = 64


def process_bytes(techniques: Sequence[Technique], checkpoint: Checkpoint, workload: Workload) -> int:
    """Peak bytes of one process: libraries, weights (and, under a quantizer, the unquantized ones that it starts from),
    the key-value cache of one request (as if no heads were shared), logits of one window with their softmax, the scores
    of attention where they are not computed piece by piece, and the compiler where there is one, with the weights of 16
    bits again that it packs into its code."""
    loaded, kept = _weights(techniques, checkpoint)
    element = _element_bytes(techniques, checkpoint)
    window = _window(checkpoint, workload)
    tokens = max(PROMPT_TOKENS + workload.max_new_tokens, window)
    cache = 2 * checkpoint.layers * checkpoint.hidden_size * tokens * element
    logits = 2 * LOGIT_BYTES * checkpoint.vocab_size * window
    compiler = COMPILER_BYTES + (kept if element == PACKED_BYTES else 0) if _compiles(techniques) else 0
    scores = _score_bytes(checkpoint, window) if any(technique.holds_scores for technique in techniques) else 0
    return int(RUNTIME_BYTES + max(loaded, kept) + cache + logits + scores + compiler)


def _score_bytes(checkpoint: Checkpoint, window: int) -> int:
    """Bytes of one layer's scores of each position for each, in all heads, and of their softmax; heads are taken to be
    64 wide, as few are narrower."""
    heads = max(1, checkpoint.hidden_size // LEAST_HEAD_WIDTH)
    return 2 * heads * window * window * SCORE_BYTES


def _window(checkpoint: Checkpoint, workload: Workload) -> int:
    """Tokens of the longest window of text; a byte is one token at the most."""
    if workload.text is None:
        return WINDOW_POSITIONS
    return min(own_window(checkpoint.context_length, checkpoint.vocab_size), len(workload.text.head.encode()))


def _text_positions(workload: Workload) -> int:
    """About how many positions of the text are scored."""
    if workload.text is None:
        return TEXT_POSITIONS
    return min(OWN_TEXT_POSITIONS, workload.text.bytes // TEXT_BYTES_PER_TOKEN)


def _compiles(techniques: Sequence[Technique]) -> bool:
    return any(technique.slot == "compile" for technique in techniques)


def _weights(techniques: Sequence[Technique], checkpoint: Checkpoint) -> tuple[float, float]:
    """Bytes while loading and bytes afterwards."""
    if checkpoint.quantization is not None:
        return float(checkpoint.disk_bytes), float(checkpoint.disk_bytes)
    element = _element_bytes(techniques, checkpoint)
    whole = checkpoint.parameters * element
    quantized = next((technique.linear_bytes for technique in techniques if technique.linear_bytes is not None), None)
    if quantized is None:
        return whole, whole
    packed = checkpoint.linear_parameters * quantized
    return whole + packed, packed + (checkpoint.parameters - checkpoint.linear_parameters) * element


def _element_bytes(techniques: Sequence[Technique], checkpoint: Checkpoint) -> float:
    named = (technique.element_bytes for technique in techniques if technique.element_bytes is not None)
    return next(named, STORED_BYTES.get(checkpoint.stored_dtype, 4.0))


def seconds(
    variants: Sequence[tuple[Sequence[Technique], Checkpoint, int]],
    workload: Workload,
    device: Device = "cpu",
    resident: bool = True,
) -> float:
    """Seconds that a comparison will take, the baseline first in `variants` and once more at the end. Each has its
    techniques, its checkpoint and its thread count.

    A token costs each parameter one visit, shared by the threads up to 8 (then memory is the limit), times what the
    techniques say of themselves (`Effort`). Each process starts, loads, prepares as if nothing were cached, scores the
    answers and the text, and takes its turns; each variant answers once more to show where its time goes, and the
    machine's limits are measured, as if they were not kept. The constants are of a two-core server processor, too slow
    for a GPU.

    A budget in seconds replaces the rounds: it is the most that they take, at most MAX_ROUNDS of them, but the first is
    played whatever it takes. How early the verdicts will be settled is not foreseen. What is timed again with one core
    busy is taken to be the baseline twice and the fastest others, all of them where they are not `resident` together,
    LOADED_SLOWDOWN times as slow."""
    tokens = workload.max_new_tokens
    answers, text = len(workload.prompts) * tokens + TIMED_TEXT_POSITIONS, _text_positions(workload)
    preparing = turns = turn = 0.0
    each: list[float] = []
    for techniques, checkpoint, threads in (*variants, variants[0]):
        speed = min(threads, MOST_USEFUL_THREADS)
        per_prompt_token = checkpoint.parameters * PREFILL_S_PER_PARAMETER / speed
        plain = checkpoint.parameters * DECODE_S_PER_PARAMETER / speed
        per_token = plain * _slowdown(techniques, device) + _rereading(techniques, tokens) * per_prompt_token
        preparing += _once(techniques, checkpoint) + answers * per_token + text * per_prompt_token
        turn = tokens * per_token + PROMPT_TOKENS * per_prompt_token
        turns += turn
        each.append(turn)
    apart = preparing + (turns - turn) + LIMITS_S  # the baseline's second process, the last, is not profiled
    if workload.as_hosted:
        leaders = sorted(each[1:-1])[: LEADERS if resident else None]
        apart += LOADED_ROUNDS * LOADED_SLOWDOWN * (each[0] + each[-1] + sum(leaders))
    if workload.seconds is not None:
        return max(apart + turns, min(workload.seconds, apart + MAX_ROUNDS * turns))
    return apart + workload.rounds * turns


def _once(techniques: Sequence[Technique], checkpoint: Checkpoint) -> float:
    """Seconds until a process can answer: start, load, prepare."""
    parameters = sum(technique.effort.once_s_per_parameter for technique in techniques)
    layers = sum(technique.effort.once_s_per_layer for technique in techniques)
    own = sum(technique.effort.once_s(checkpoint) for technique in techniques)
    return START_S + checkpoint.parameters * (LOAD_S_PER_PARAMETER + parameters) + checkpoint.layers * layers + own


def _slowdown(techniques: Sequence[Technique], device: Device) -> float:
    """Seconds of a token over those of plain PyTorch. What a quantizer adds to every call, compiling takes away."""
    factor = 1.0
    for technique in techniques:
        own = technique.effort.slowdown if device == "cpu" else technique.effort.gpu_slowdown
        factor *= min(own, 1.0) if technique.slot == "weights" and _compiles(techniques) else own
    return factor


def _rereading(techniques: Sequence[Technique], tokens: int) -> float:
    """How many past tokens a new one reads again, on the mean of an answer of `tokens`: none where they are kept."""
    rereads = any(technique.effort.rereads for technique in techniques)
    return PROMPT_TOKENS + tokens / 2 if rereads else 0.0
