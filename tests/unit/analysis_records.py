"""Records made by hand for the analysis tests. Times are chosen so that the figures can be worked out on paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import planning_records as records

from optimizers.profiles import RequestProfile, TimeParts
from optimizers.results import Run, VariantResult
from optimizers.schema import (
    Census,
    Checkpoint,
    Choice,
    Cost,
    Measurement,
    Memory,
    Obstacle,
    Output,
    Plan,
    Promise,
    Record,
    Sample,
    Skipped,
    Timing,
    Variant,
    Workload,
)
from optimizers.scores import PassageScores

MIB = 1 << 20
BASELINE = "fp32+sdpa"
STEPS = [0.5] * 6

MACHINE = records.machine(usable_cores=2, instruction_sets=("avx2", "avx512f"), packages={})
CHECKPOINT = records.checkpoint(
    id="tiny",
    parameters=1000,
    linear_parameters=790,
    disk_bytes=4000,
    stored_dtype="float32",
    context_length=256,
    vocab_size=384,
    hidden_size=64,
    layers=2,
)


def timing(step_s: float, *, tokens: int = 5, ttft_s: float = 0.5, prompt_tokens: int = 20) -> Timing:
    """A request whose tokens come `step_s` apart: tokenize 0.125, prefill 0.25, detokenize 0.0625 s, and 0.125 s of
    overhead before the first token when it comes at 0.5 s."""
    times = tuple(ttft_s + step_s * index for index in range(tokens))
    return Timing(
        prompt_tokens=prompt_tokens,
        tokenize_s=0.125,
        prefill_s=0.25,
        ttft_s=ttft_s,
        detokenize_s=0.0625,
        total_s=times[-1] + 0.0625,
        token_times_s=times,
        processor_s=1.0,
    )


def sample(variant: str, number: int, step_s: float, **changes: Any) -> Sample:
    """Round `number` of a variant on prompt `number` modulo 3."""
    made = Sample(
        variant=variant,
        replica=False,
        round=number,
        prompt=number % 3,
        attempt=0,
        timing=timing(step_s),
        processor_share=1.0,
        disturbed=False,
    )
    return replace(made, **changes)


def loaded(variant: str, steps: Sequence[float]) -> tuple[Sample, ...]:
    """The same with one core busy."""
    return tuple(sample(variant, number, step, load="one_busy_core") for number, step in enumerate(steps))


def samples(variant: str, steps: Sequence[float], *, replica: bool = False) -> tuple[Sample, ...]:
    return tuple(sample(variant, number, step, replica=replica) for number, step in enumerate(steps))


def census(dtype: str = "float32", **changes: Any) -> Census:
    fields: dict[str, Any] = {
        "bytes_by_dtype": {dtype: 4000},
        "attention_kernel": "aten::_scaled_dot_product_flash_attention_for_cpu",
        "module_kinds": {"Linear": 15},
        "threads": 2,
    }
    return records.census(**(fields | changes))


def memory(weights_bytes: int) -> Memory:
    return Memory(
        weights_bytes=weights_bytes,
        disk_bytes=weights_bytes,
        runtime_bytes=100 * MIB,
        load_peak_bytes=weights_bytes + 300 * MIB,
        steady_bytes=weights_bytes + 150 * MIB,
        steady_file_bytes=weights_bytes // 2,
        run_peak_bytes=weights_bytes + 200 * MIB,
        run_peak_file_bytes=weights_bytes // 2,
    )


def profile(**changes: Any) -> RequestProfile:
    """A request of two seconds: half of it decoding, an eighth each for prompt, sampling and Python, a sixteenth each
    for tokenization and detokenization, in seconds 0.125, 0.25, 1, 0.25, 0.25, 0.125."""
    made = RequestProfile(20, 5, 5, 2.0, TimeParts(0.125, 0.25, 1.0, 0.25, 0.25, 0.125))
    return replace(made, **changes)


def output(prompt: int, token_ids: Sequence[int], *, stopped: bool = True) -> Output:
    return Output(prompt, " ".join(map(str, token_ids)), tuple(token_ids), stopped, len(token_ids))


def passage(name: str, kl: Sequence[float], **changes: Any) -> PassageScores:
    """A passage of these KL divergences whose tokens the baseline gives 0.5 (ln -0.6931) and the variant 0.25."""
    made = PassageScores(
        name=name,
        path="one_pass" if name.startswith("text:") else "timed",
        kl_divergence=tuple(kl),
        same_top=tuple(x < 0.1 for x in kl),
        baseline_logprob=(-0.6931471805599453,) * len(kl),
        variant_logprob=(-1.3862943611198906,) * len(kl),
    )
    return replace(made, **changes)


def measurement(variant: str, steps: Sequence[float], **changes: Any) -> Measurement:
    made = Measurement(
        variant=variant,
        title=variant.upper(),
        techniques=tuple(variant.split("+")),
        status="measured",
        census=census(),
        cost=Cost(1.0, 0.5, 0.25),
        memory=memory(512 * MIB),
        samples=samples(variant, steps),
        outputs=tuple(output(prompt, (1, 2, 3, 4)) for prompt in range(3)),
        profile=profile(),
    )
    return replace(made, **changes)


def plan(*keys: str, checkpoint: Checkpoint = CHECKPOINT, **changes: Any) -> Plan:
    """A plan of these variants, the baseline first."""
    workload = Workload(prompts=("one", "two", "three"), max_new_tokens=5)
    made = Plan(
        choice=Choice(model="tiny", stacks=keys, workload=workload),
        machine=MACHINE,
        checkpoint=checkpoint,
        baseline=BASELINE,
        variants=tuple(Variant(key, key.upper(), tuple(key.split("+")), 1000) for key in (BASELINE, *keys)),
        skipped=(),
        resident=True,
        predicted_bytes=2000,
        estimate_s=10.0,
        threads=2,
    )
    return replace(made, **changes)


def skipped(key: str) -> Skipped:
    return Skipped(key, key.upper(), tuple(key.split("+")), Obstacle("It is not installed.", "Install it."))


def record(*measurements: Measurement, replica: Sequence[float] = (), **changes: Any) -> Record:
    """A finished run of the baseline (the first measurement) and others; `replica` are the steps of A'."""
    made = Record(
        id="r1",
        created_at="2026-11-30T00:00:00Z",
        status="done",
        plan=plan(*[item.variant for item in measurements[1:]]),
        measurements=measurements,
        replica_samples=samples(BASELINE, replica, replica=True),
    )
    return replace(made, **changes)


def promised(metric: str | None, low: float | None, high: float | None) -> Promise:
    return Promise("A claim.", "what it says", "a page", metric, low, high)


def result(run: Run, key: str) -> VariantResult:
    return next(item for item in run.variants if item.key == key)


def caveat_ids(run: Run) -> set[str]:
    return {caveat.id for caveat in run.caveats}


def two(steps: Sequence[float], **changes: Any) -> Record:
    """The baseline at half a second a token against a variant, in six rounds."""
    return record(measurement(BASELINE, STEPS), measurement("a", steps, **changes), replica=STEPS)
