"""A record becomes the finished comparison: `compare(record)` gives the `results.Run` that run.json holds.

Covers putting the pieces together; each figure's rule is in the module that computes it. Only a variant that was
measured carries latency, memory, ratios, quality and points: one that was not applied keeps its census, reason and
remedy and is never shown as if it had been applied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizers.analysis import quality, verdicts
from optimizers.analysis.caveats import caveats
from optimizers.analysis.hosted import changed_order, hosted
from optimizers.analysis.latency import latency, point
from optimizers.analysis.limits import near_limit, sound
from optimizers.analysis.payback import payback
from optimizers.analysis.promises import judge
from optimizers.analysis.recommendation import recommend
from optimizers.analysis.replays import replays
from optimizers.analysis.requests import counted
from optimizers.analysis.time_parts import where_time_goes
from optimizers.limits import MachineLimits, NearLimit
from optimizers.results import ModelFacts, NoiseFloor, Run, Step, VariantResult
from optimizers.schema import Checkpoint, Measurement, Plan, Record, Sample, Variant, Workload

REPEATED_TEXT_BYTES = 2048


@dataclass(frozen=True)
class _Base:
    """What every variant is held against; `again` are the rounds of the baseline's second process. `measurement` is
    None when the baseline was not measured."""

    measurement: Measurement | None
    rounds: dict[int, Sample]
    again: dict[int, Sample]
    floor: NoiseFloor


def compare(record: Record) -> Run:
    """The comparison that a run's record supports, so far as it goes. Pure; the same record gives the same run."""
    base = _base(record)
    plan = record.plan
    planned = {variant.key: variant for variant in plan.variants}
    results = [_result(item, base, record, planned.get(item.variant)) for item in record.measurements]
    foot = next((result for result in results if result.key == plan.baseline), None)
    asked = plan.choice.workload.max_new_tokens
    variants = tuple(replace(result, payback=payback(result, foot, asked)) for result in results)
    return Run(
        id=record.id,
        created_at=record.created_at,
        status=record.status,
        machine=plan.machine,
        model=_facts(plan.checkpoint),
        workload=_without_long_text(plan.choice.workload),
        baseline=plan.baseline,
        noise_floor=base.floor,
        variants=variants,
        recommendation=recommend(variants, plan.baseline, plan.checkpoint.low_bit_grid),
        caveats=caveats(record, variants, base.floor),
        notes=tuple(dict.fromkeys((*plan.notes, *record.notes, *changed_order(record, variants)))),
        reason=record.reason,
        limits=record.limits if record.limits and sound(record.limits) else None,
        votes=record.votes,
    )


def _without_long_text(workload: Workload) -> Workload:
    """The workload as run.json holds it: a long text of the person's own is named there and not repeated."""
    text = workload.text
    if text is None or len(text.head.encode()) <= REPEATED_TEXT_BYTES:
        return workload
    return replace(workload, text=replace(text, head=""))


def _base(record: Record) -> _Base:
    measured = [item for item in record.measurements if item.variant == record.plan.baseline]
    measurement = measured[0] if measured and measured[0].status == "measured" else None
    rounds = counted(measurement.samples) if measurement else {}
    noise = quality.logit_noise(measurement) if measurement else None
    again = counted(record.replica_samples)
    return _Base(measurement, rounds, again, verdicts.noise_floor(again, rounds, noise))


def _result(item: Measurement, base: _Base, record: Record, planned: Variant | None) -> VariantResult:
    result = VariantResult(
        key=item.variant,
        title=item.title,
        techniques=item.techniques,
        status=item.status,
        reason=item.reason,
        remedy=item.remedy,
        census=item.census,
        cost=item.cost,
        outputs=item.outputs,
        log_tail=item.log_tail,
        model=_facts(planned.checkpoint) if planned and planned.checkpoint else None,
        four_bit=planned is not None and planned.four_bit,
        threads=(planned.threads if planned else None) or record.plan.threads,
    )
    if item.status != "measured" or planned is None:
        return result
    return _measured(result, item, base, record, planned)


def _measured(result: VariantResult, item: Measurement, base: _Base, record: Record, planned: Variant) -> VariantResult:
    rounds = counted(item.samples)
    samples = list(rounds.values())
    workload = record.plan.choice.workload
    figures = latency(samples)
    is_baseline = item.variant == record.plan.baseline
    judged_against = None if is_baseline else base.measurement
    versus = None
    if is_baseline:
        versus = verdicts.baseline_row(rounds)
    elif base.measurement is not None:
        versus = verdicts.versus_baseline(
            rounds, base.rounds, item.memory, base.measurement.memory, base.floor, base.again
        )
    measured = replace(
        result,
        points=(point(samples, figures, workload.batch_size),) if figures else (),
        latency=figures,
        memory=item.memory,
        quality=quality.quality(item, judged_against, workload.seed, planned.same_tokenizer)
        if judged_against
        else None,
        versus_baseline=versus,
        step=_step(item, record, base, planned.below),
        where_time_goes=where_time_goes(item.profile) if item.profile else None,
        replays=replays(samples, item.outputs),
    )
    own = replace(record.plan, checkpoint=planned.checkpoint or record.plan.checkpoint)
    near = _near_limit(measured, record.limits, own)
    measured = replace(measured, near_limit=near, as_hosted=hosted(item, record, measured))
    if judged_against is None:
        return measured
    others = {promise.against for promise in planned.promises}
    steps = [step for key in others if (step := _step(item, record, base, key)) is not None]
    return replace(
        measured, promises=judge(planned.promises, measured, own, {step.below: step.versus for step in steps})
    )


def _near_limit(result: VariantResult, limits: MachineLimits | None, plan: Plan) -> NearLimit | None:
    """How near it comes to the machine's limits; `plan` holds the checkpoint that it ran. Nothing is said of a variant
    with another thread count than that with which the machine was measured."""
    demand = result.census.demand if result.census else None
    if not result.points or limits is None or limits.threads != result.threads:
        return None
    tokens = result.points[0].prompt_tokens, plan.choice.workload.max_new_tokens
    return near_limit(limits, demand, plan.checkpoint, result.latency, *tokens)


def _step(item: Measurement, record: Record, base: _Base, below: str | None) -> Step | None:
    """What the variant added to the one below it; None where there is none or it was not measured."""
    under = next((other for other in record.measurements if other.variant == below), None)
    if under is None or under.status != "measured":
        return None
    rounds = counted(item.samples), counted(under.samples)
    again = base.again if under is base.measurement else {}
    return Step(under.variant, verdicts.versus_baseline(*rounds, item.memory, under.memory, base.floor, again))


def _facts(checkpoint: Checkpoint) -> ModelFacts:
    return ModelFacts(
        id=checkpoint.id,
        source=checkpoint.source,
        revision=checkpoint.revision,
        task=checkpoint.task,
        parameters=checkpoint.parameters,
        architecture=checkpoint.architecture,
        stored_dtype=checkpoint.stored_dtype,
        disk_bytes=checkpoint.disk_bytes,
        context_length=checkpoint.context_length,
        quantization=checkpoint.quantization,
        low_bit_grid=checkpoint.low_bit_grid,
        linear_widths=checkpoint.linear_widths,
    )
