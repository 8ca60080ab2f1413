"""Where the time goes: shares by hand, profiles that cannot be, and runs kept from before there was one."""

from __future__ import annotations

import json
from dataclasses import astuple, replace

import analysis_records as make
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import STEPS, result

from optimizers import protocol
from optimizers.analysis import Folding, compare
from optimizers.analysis.time_parts import outside_model, where_time_goes
from optimizers.profiles import TimeParts
from optimizers.protocol import LogLine
from optimizers.results import Run
from optimizers.schema import from_json, to_json


def test_shares_by_hand() -> None:
    found = where_time_goes(make.profile())
    assert found is not None
    assert astuple(found.shares) == (0.0625, 0.125, 0.5, 0.125, 0.125, 0.0625)
    assert found.seconds == TimeParts(0.125, 0.25, 1.0, 0.25, 0.25, 0.125)
    assert (found.total_s, found.prompt_tokens, found.new_tokens, found.passes) == (2.0, 20, 5, 5)
    assert outside_model(found.shares) == 0.375  # all but prompt and decoding


@pytest.mark.parametrize(
    ("parts", "total_s"),
    [
        ((0.125, 0.25, 1.0, 0.25, 0.25, 0.125), 3.0),  # a second is missing
        ((0.125, 0.25, 1.0, 0.25, -0.25, 0.125), 1.5),
        ((0.125, 0.25, float("nan"), 0.25, 0.25, 0.125), 2.0),
        ((0.125, 0.25, float("inf"), 0.25, 0.25, 0.125), float("inf")),
        ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0),
        ((0.125, 0.25, 1.0, 0.25, 0.25, 0.125), float("nan")),
    ],
)
def test_a_profile_that_cannot_be_gives_nothing(parts: tuple[float, ...], total_s: float) -> None:
    assert where_time_goes(make.profile(parts=TimeParts(*parts), total_s=total_s)) is None


def test_it_goes_from_the_log_to_the_result_and_touches_no_other_figure() -> None:
    folding = Folding()
    folding.add(LogLine(0.0, None, protocol.Planned("r1", "2026-11-30T00:00:00Z", make.plan())))
    folding.add(LogLine(1.0, BASE, protocol.CensusTaken(make.census())))
    folding.add(LogLine(2.0, BASE, protocol.SampleTaken(make.sample(BASE, 0, 0.5), make.output(0, (1, 2)))))
    before = result(compare(folding.record("running")), BASE)
    folding.add(LogLine(3.0, BASE, protocol.Profiled(make.profile())))
    folding.add(LogLine(4.0, BASE, protocol.Profiled(make.profile(total_s=9.0)), replica=True))  # of A': passed over
    after = result(compare(folding.record("running")), BASE)
    assert before.where_time_goes is None
    assert after.where_time_goes == where_time_goes(make.profile())
    assert replace(after, where_time_goes=None) == before


def test_a_pass_that_failed_leaves_the_variant_measured() -> None:
    folding = Folding()
    folding.add(LogLine(0.0, None, protocol.Planned("r1", "2026-11-30T00:00:00Z", make.plan())))
    folding.add(LogLine(1.0, BASE, protocol.CensusTaken(make.census())))
    folding.add(LogLine(2.0, BASE, protocol.SampleTaken(make.sample(BASE, 0, 0.5), make.output(0, (1, 2)))))
    folding.add(LogLine(3.0, BASE, protocol.Failed("profile", "It broke.", "Mend it.")))
    found = result(compare(folding.record()), BASE)
    assert (found.status, found.reason, found.where_time_goes) == ("measured", None, None)


def test_a_run_kept_from_before_loads() -> None:
    run = compare(make.record(make.measurement(BASE, STEPS), make.measurement("a", [0.25] * 6), replica=STEPS))
    data = json.loads(to_json(run))
    for variant in data["variants"]:
        assert variant.pop("where_time_goes") is not None
    kept = from_json(Run, json.dumps(data))
    assert all(variant.where_time_goes is None for variant in kept.variants)
    assert kept.variants[0].latency == run.variants[0].latency
