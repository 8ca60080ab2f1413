"""What a process of a variant will need, before anything is loaded: memory in bytes and time in seconds.

Both are rough models of the known parts, for deciding what fits and for telling a person roughly how long it will take;
nothing here is ever shown as a measurement. Time is refined from measured durations once the run is going.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizers.schema import Checkpoint, Workload
from optimizers.settings import TEXT_POSITIONS, TIMED_TEXT_POSITIONS
from optimizers.tasks.text_generation import WINDOW_POSITIONS
from optimizers.techniques.base import Technique

RUNTIME_BYTES = 450_000_000
STORED_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "float64": 8.0}
PROMPT_TOKENS = 64
START_S = 4.0
LOAD_S_PER_PARAMETER = 4e-9
DECODE_S_PER_PARAMETER = 4.8e-10
PREFILL_S_PER_PARAMETER = 2.1e-11
WEIGHTS_SLOWDOWN = 2.0
MOST_USEFUL_THREADS = 8
COMPILER_BYTES = 500_000_000
COMPILE_S_PER_LAYER = 3.0


def process_bytes(techniques: Sequence[Technique], checkpoint: Checkpoint, workload: Workload) -> int:
    """Peak bytes of one process: libraries, weights (and, under a quantizer, the unquantized ones that it starts from),
    the key-value cache of one request (as if no heads were shared), logits of one window with their softmax, and the
    compiler where there is one."""
    loaded, kept = _weights(techniques, checkpoint)
    element = _element_bytes(techniques, checkpoint)
    tokens = max(PROMPT_TOKENS + workload.max_new_tokens, WINDOW_POSITIONS)
    cache = 2 * checkpoint.layers * checkpoint.hidden_size * tokens * element
    logits = 2 * 4 * checkpoint.vocab_size * WINDOW_POSITIONS
    compiler = COMPILER_BYTES if _compiles(techniques) else 0
    return int(RUNTIME_BYTES + max(loaded, kept) + cache + logits + compiler)


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


def seconds(variants: Sequence[Sequence[Technique]], checkpoint: Checkpoint, workload: Workload, threads: int) -> float:
    """Seconds that a comparison will take, the baseline first in `variants` and once more at the end.

    A token costs each parameter one visit, shared by the threads up to 8 (then memory is the limit); a quantizer is
    taken to double that, and a layer takes 3 s to compile the first time. Each process starts, loads, scores the
    answers and the text, and takes its turns. A budget in seconds replaces the turns, after the first round. The
    constants are of a two-core server processor."""
    speed = min(threads, MOST_USEFUL_THREADS)
    tokens = workload.max_new_tokens
    per_token = checkpoint.parameters * DECODE_S_PER_PARAMETER / speed
    per_prompt_token = checkpoint.parameters * PREFILL_S_PER_PARAMETER / speed
    answers = len(workload.prompts) * tokens + TIMED_TEXT_POSITIONS
    preparing = turns = 0.0
    for techniques in (*variants, variants[0]):
        slower = WEIGHTS_SLOWDOWN if any(technique.slot == "weights" for technique in techniques) else 1.0
        load = START_S + checkpoint.parameters * LOAD_S_PER_PARAMETER
        load += checkpoint.layers * COMPILE_S_PER_LAYER if _compiles(techniques) else 0.0
        preparing += load + answers * per_token * slower + TEXT_POSITIONS * per_prompt_token
        turns += tokens * per_token * slower + PROMPT_TOKENS * per_prompt_token
    if workload.seconds is not None:
        return max(workload.seconds, preparing + turns)
    return preparing + workload.rounds * turns
