"""How close to the limit: both bounds by hand, what cannot be said, and runs kept from before there were any."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import analysis_records as make
import planning_records as records
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import STEPS, caveat_ids, result

from optimizers import protocol
from optimizers.analysis import Folding, compare
from optimizers.analysis.limits import bytes_of_pass, near_limit, operations_of_prompt, sound
from optimizers.limits import Demand, LimitsMeasured, MachineLimits
from optimizers.protocol import LogLine
from optimizers.results import Latency, Run, Stat
from optimizers.schema import from_json, to_json

LIMITS = MachineLimits("cpu", 2, 2450.0, 10**9, 9800.0, 500, 1000, {"float32": 1e6, "bfloat16": 2e6})
DEMAND = Demand(1000, 10, "float32")


def latency(step_s: float | None = 1.0, prefill: float | None = 80.0, tokens_per_step: float | None = 1.0) -> Latency:
    """A token a second and 80 tokens of prompt a second."""
    step = None if step_s is None else Stat(step_s, None, None, 6)
    read = None if prefill is None else Stat(prefill, None, None, 6)
    return Latency(None, step, None, read, None, None, tokens_per_step)


def near(limits: MachineLimits | None = LIMITS, demand: Demand | None = DEMAND, **changes: Any):
    return near_limit(limits, demand, make.CHECKPOINT, latency(**changes), 20, 5)


def test_a_decode_pass_by_hand() -> None:
    # 1000 bytes of weights and 10 for each of 20 + 2.5 tokens: half a second at 2450 bytes a second.
    assert bytes_of_pass(DEMAND, 20, 5) == 1225
    found = near()
    assert found is not None
    assert found.decode is not None
    assert (found.decode.bytes_read, found.decode.source, found.decode.bytes_per_s) == (1225, "memory", 2450.0)
    assert (found.decode.least_s, found.decode.measured_s, found.decode.share) == (0.5, 1.0, 0.5)


def test_what_fits_the_last_level_cache_is_held_against_the_caches_bandwidth() -> None:
    found = near(replace(LIMITS, last_level_bytes=1225))
    assert found is not None
    assert found.decode is not None
    assert (found.decode.source, found.decode.least_s) == ("cache", 0.125)
    for unknown in (None, 1224):
        found = near(replace(LIMITS, last_level_bytes=unknown))
        assert found is not None
        assert found.decode is not None
        assert found.decode.source == "memory"


def test_a_pass_that_gives_several_tokens_is_held_against_all_their_time() -> None:
    found = near(tokens_per_step=2.5)
    assert found is not None
    assert found.decode is not None
    assert (found.decode.measured_s, found.decode.share) == (2.5, 0.2)


def test_a_prompt_by_hand() -> None:
    """The head, 384 x 64 = 24576, is the embedding and counts once; without being tied it is among the 790's place."""
    assert operations_of_prompt(make.CHECKPOINT, 20) == 2 * (790 * 20 + 24576) == 80752
    apart = replace(make.CHECKPOINT, tied_embeddings=False, linear_parameters=30_000)
    assert operations_of_prompt(apart, 20) == 2 * (5424 * 20 + 24576)
    found = near()
    assert found is not None
    assert found.prompt is not None
    assert (found.prompt.operations, found.prompt.operations_per_s) == (80752, 1e6)
    assert found.prompt.measured_s == 0.25
    assert found.prompt.share == pytest.approx(0.323008)
    half = near(demand=replace(DEMAND, computes_in="bfloat16"))
    assert half is not None
    assert half.prompt is not None
    assert half.prompt.share == pytest.approx(0.161504)


def test_what_is_not_known_is_not_said() -> None:
    assert near(None) is None
    assert near(demand=None) is None
    assert near_limit(LIMITS, DEMAND, make.CHECKPOINT, None, 20, 5) is None
    unmeasured = near(demand=replace(DEMAND, computes_in="float8"))
    assert unmeasured is not None
    assert unmeasured.prompt is None
    for wrong in (Demand(0, 10, "float32"), Demand(10**400, 10, "float32"), Demand(1000, -1, "float32")):
        assert near(demand=wrong) is None
    assert near_limit(LIMITS, DEMAND, make.CHECKPOINT, latency(), 10**400, 5) is None
    one_token = near(step_s=None)
    assert one_token is not None
    assert one_token.decode is None
    assert near(step_s=None, prefill=None) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_bytes_per_s": 0.0},
        {"cache_bytes_per_s": float("nan")},
        {"operations_per_s": {"float32": float("inf")}},
        {"threads": 0},
    ],
)
def test_limits_that_no_machine_has_are_not_believed(wrong: dict[str, Any]) -> None:
    assert sound(LIMITS)
    limits = replace(LIMITS, **wrong)
    assert not sound(limits)
    assert near(limits) is None
    assert compare(replace(make.two(STEPS), limits=limits)).limits is None


def one_run(limits: MachineLimits = LIMITS) -> Run:
    """The baseline at half a second a token, a variant at a quarter; both read 1000 bytes and 10 a token."""
    census = replace(make.census(), demand=DEMAND)
    record = make.record(
        make.measurement(BASE, STEPS, census=census), make.measurement("a", [0.25] * 6, census=census), replica=STEPS
    )
    return compare(replace(record, limits=limits))


def test_a_run_holds_each_variant_against_the_machine_and_says_where_a_share_cannot_be() -> None:
    run = one_run()
    base, fast = result(run, BASE).near_limit, result(run, "a").near_limit
    assert base and base.decode and base.decode.share == 1.0
    assert fast and fast.decode and fast.decode.share == 2.0
    assert run.limits == LIMITS
    (caveat,) = [caveat for caveat in run.caveats if caveat.id == "over_the_limit"]
    assert caveat.variant == "a"
    assert "decode passes 2.00 of the bound" in caveat.text
    assert "over_the_limit" not in caveat_ids(one_run(replace(LIMITS, memory_bytes_per_s=4900.0)))


def test_a_variant_of_other_threads_than_the_machine_was_measured_with_is_not_held_against_it() -> None:
    census = replace(make.census(), demand=DEMAND)
    record = make.record(
        make.measurement(BASE, STEPS, census=census), make.measurement("a", [0.25] * 6, census=census), replica=STEPS
    )
    variants = (record.plan.variants[0], replace(record.plan.variants[1], threads=1))
    run = compare(replace(record, limits=LIMITS, plan=replace(record.plan, variants=variants)))
    assert [variant.threads for variant in run.variants] == [2, 1]
    assert run.variants[0].near_limit is not None
    assert run.variants[1].near_limit is None


def test_they_come_from_the_log() -> None:
    folding = Folding()
    folding.add(LogLine(0.0, None, protocol.Planned("r1", "2026-11-30T00:00:00Z", make.plan())))
    assert folding.record("running").limits is None
    folding.add(LogLine(1.0, None, LimitsMeasured(LIMITS)))
    assert folding.record("running").limits == LIMITS


def test_a_run_kept_from_before_loads() -> None:
    run = one_run()
    assert from_json(Run, to_json(run)) == run
    data = json.loads(to_json(run))
    del data["limits"]
    for variant in data["variants"]:
        del variant["near_limit"], variant["threads"], variant["census"]["demand"]
    kept = from_json(Run, json.dumps(data))
    assert kept.limits is None
    assert [variant.threads for variant in kept.variants] == [None, None]
    assert [variant.near_limit for variant in kept.variants] == [None, None]
    assert kept.variants[0].latency == run.variants[0].latency
    assert records.census().demand is None
