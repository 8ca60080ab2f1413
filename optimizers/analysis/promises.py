"""What a technique's documentation promises against what was measured, and why when it did not come true.

The reasons come from evidence in the run (the processor's instruction sets, the census, the checkpoint's shape), by
the rules listed in `_SPEED`, `_BYTES` and `_QUALITY`; none is a guess from the name of a model. A promise is kept when
the figure lies in the promised range. A speed whose interval reaches into the range from outside is not judged, nor is
a promise of more speed by a difference that is within the noise, nor one of a technique in a stack unless the same
stack without it was measured too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from optimizers.analysis import decoding_causes
from optimizers.results import PromiseResult, Ratio, VariantResult, VersusBaseline
from optimizers.schema import Plan, Promise

SMALL_HIDDEN_SIZE = 1024
MOST_REASONS = 3
UNEXPLAINED = "Nothing in the evidence of this run explains it."

_SPEEDS = {"decode": "decode speed", "ttft": "speed to the first token", "prefill": "prefill speed"}
_SIZES = {"weights_bytes": "bytes of weights", "run_peak_bytes": "peak memory", "saved_bytes": "saved file"}
_NATIVE_INT8 = ("vnni", "amx_int8", "asimddp", "i8mm")
_NATIVE_FP16 = ("avx512_fp16", "amx_fp16", "fphp", "asimdhp")


@dataclass(frozen=True)
class _Case:
    """One variant, what it is judged against (None: that was not measured), and the plan it belongs to."""

    result: VariantResult
    plan: Plan
    versus: VersusBaseline | None
    whose: str = "the baseline's"

    def has(self, *words: str) -> bool:
        """Whether a technique's id contains one of the words."""
        return any(word in technique for technique in self.result.techniques for word in words)

    def processor_has(self, *words: str) -> bool:
        return any(word in name for name in self.plan.machine.instruction_sets for word in words)


def judge(
    promises: Sequence[Promise], result: VariantResult, plan: Plan, apart: Mapping[str, VersusBaseline]
) -> tuple[PromiseResult, ...]:
    """Each promise with what was measured of it. `result` is a measured variant with its ratios, `apart` its ratios
    against other variants. On a step of a ladder only what that step added is judged."""
    found = []
    for promise in promises:
        if promise.against is None:
            found.append(_judge(promise, _Case(result, plan, result.versus_baseline)))
        elif promise.against in apart:
            found.append(_judge(promise, _Case(result, plan, apart[promise.against], f"{promise.against}'s")))
        elif result.step is None:
            found.append(
                _judged(promise, None, None, f"Judging it alone takes {promise.against} measured beside this.")
            )
    return tuple(found)


def _judge(promise: Promise, case: _Case) -> PromiseResult:
    if promise.metric in _SPEEDS:
        return _judged(promise, *_speed(promise, case))
    if promise.metric in _SIZES:
        return _judged(promise, *_bytes(promise, case))
    if promise.metric == "kl_divergence" and promise.against is not None:
        return _judged(promise, None, None, "Quality is measured against the baseline, for the whole stack.")
    if promise.metric == "kl_divergence":
        return _judged(promise, *_quality(promise, case))
    return _judged(promise, None, None, "This program does not measure it.")


def _judged(promise: Promise, measured: str | None, kept: bool | None, why: str | None) -> PromiseResult:
    return PromiseResult(promise.claim, promise.promised, measured, kept, why, promise.source)


_Judged = tuple[str | None, bool | None, str | None]


def _speed(promise: Promise, case: _Case) -> _Judged:
    ratio: Ratio | None = getattr(case.versus, promise.metric or "", None)
    if ratio is None:
        return None, None, "The two have no round in common that carries this figure."
    measured = f"{ratio.ratio:.2f}x {case.whose} {_SPEEDS[promise.metric or '']}"
    if ratio.verdict == "too few rounds":
        return measured, None, "There are too few rounds for a verdict on speed."
    if _within(promise, ratio.ratio):
        if ratio.verdict == "within noise" and promise.low is not None and promise.low >= 1:
            return measured, None, "The difference is within the noise, so it cannot be called faster."
        if ratio.verdict == "within noise" and promise.high is not None and promise.high <= 1:
            return measured, None, "The difference is within the noise, so it cannot be called slower."
        return measured, True, None
    if ratio.low is not None and ratio.high is not None and _overlaps(promise, ratio.low, ratio.high):
        return measured, None, "The interval reaches into the promised range; more rounds would decide."
    return measured, False, _why(_SPEED, case)


def _bytes(promise: Promise, case: _Case) -> _Judged:
    value: float | None = getattr(case.versus, promise.metric or "", None)
    if value is None:
        return None, None, "The figure was not measured here."
    what = _SIZES[promise.metric or ""]
    kept = _within(promise, value)
    return f"{value:.2f}x {case.whose} {what}", kept, None if kept else _why(_BYTES, case)


def _quality(promise: Promise, case: _Case) -> _Judged:
    quality = case.result.quality
    if quality is None or quality.kl_divergence is None:
        return None, None, "The answers were not scored."
    value = quality.kl_divergence.mean
    kept = _within(promise, value)
    return f"mean KL divergence {value:.2g} nats", kept, None if kept else _why(_QUALITY, case)


def _within(promise: Promise, value: float) -> bool:
    return _overlaps(promise, value, value)


def _overlaps(promise: Promise, low: float, high: float) -> bool:
    return (promise.low is None or high >= promise.low) and (promise.high is None or low <= promise.high)


_Rule = Callable[[_Case], str | None]


def _why(rules: Sequence[_Rule], case: _Case) -> str:
    reasons = [reason for rule in rules if (reason := rule(case))]
    return " ".join(reasons[:MOST_REASONS]) or UNEXPLAINED


def _other_baseline(case: _Case) -> str | None:
    if case.plan.baseline.split("+")[0] == "fp32":
        return None
    return f"The promise is made against full precision; the baseline here is {case.plan.baseline}."


def _no_native_bf16(case: _Case) -> str | None:
    if not case.has("bf16") or case.plan.machine.gpus or case.processor_has("bf16"):
        return None
    return "This processor has no native bf16 instructions, so values are widened before each product."


def _no_native_fp16(case: _Case) -> str | None:
    if not case.has("fp16") or case.plan.machine.gpus or case.processor_has(*_NATIVE_FP16):
        return None
    return "This processor has no native fp16 arithmetic, so values are widened before each product."


def _no_native_int8(case: _Case) -> str | None:
    computes = case.has("int8", "onnxruntime_int4") and not case.has("weight_only")
    if not computes or case.plan.machine.gpus or case.processor_has(*_NATIVE_INT8):
        return None
    return "This processor has no instructions for int8 products (VNNI, AMX or their like)."


def _gpu_kernels(case: _Case) -> str | None:
    if not case.has("bnb_") or case.plan.machine.gpus:
        return None
    return "bitsandbytes is written for GPUs; there is none here, and its processor path is slower."


def _not_compiled(case: _Case) -> str | None:
    census = case.result.census
    if not case.has("torchao_") or census is None or census.compile is not None:
        return None
    return "Nothing is compiled here, so packed weights are unpacked in steps of their own for each product."


def _one_request(case: _Case) -> str | None:
    if not case.has("dynamic") or case.plan.choice.workload.batch_size > 1:
        return None
    return "One request at a time leaves each step a single row, too little work to repay quantizing it first."


def _small_matrices(case: _Case) -> str | None:
    hidden = case.plan.checkpoint.hidden_size
    if not 0 < hidden < SMALL_HIDDEN_SIZE:
        return None
    return f"The model's matrices are small ({hidden} wide), so the work around each product outweighs what it saves."


def _embeddings(case: _Case) -> str | None:
    checkpoint, census = case.plan.checkpoint, case.result.census
    if not checkpoint.parameters or census is None or not census.modules_converted:
        return None
    if "GatherBlockQuantized" in census.operators:  # a graph whose embedding is quantized as well
        return None
    share = 1 - checkpoint.linear_parameters / checkpoint.parameters
    if share < 0.1:
        return None
    return f"{share:.0%} of the parameters are outside the linear layers (embeddings, mostly) and stay as they were."


def _skipped_modules(case: _Case) -> str | None:
    census = case.result.census
    if census is None or not census.modules_skipped:
        return None
    most = max(census.modules_skipped, key=lambda skipped: skipped.count)
    total = sum(skipped.count for skipped in census.modules_skipped)
    return f"{total} modules were left as they were, such as {most.name}: {most.why.rstrip('.')}."


def _program_itself(case: _Case) -> str | None:
    memory = case.result.memory
    if memory is None or not memory.run_peak_bytes:
        return None
    share = memory.runtime_bytes / memory.run_peak_bytes
    if share < 0.2:
        return None
    return f"{share:.0%} of the peak is the program with its libraries, which no technique makes smaller."


def _grid(case: _Case) -> str | None:
    return case.plan.checkpoint.low_bit_grid


def _of_decoding(cause: decoding_causes.Cause) -> _Rule:
    return lambda case: cause(case.result, case.plan)


_SPEED: tuple[_Rule, ...] = (
    _other_baseline,
    _no_native_bf16,
    _no_native_fp16,
    _no_native_int8,
    _gpu_kernels,
    _not_compiled,
    _one_request,
    *(_of_decoding(cause) for cause in decoding_causes.SPEED),
    _small_matrices,
)
_BYTES: tuple[_Rule, ...] = (_other_baseline, _embeddings, _skipped_modules, _program_itself)
_QUALITY: tuple[_Rule, ...] = (_grid, _other_baseline)
