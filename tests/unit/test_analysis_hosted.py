"""With one core busy: what counts where, every figure by hand, who leads, and runs kept from before there was any."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace

import analysis_records as make
import planning_records as records
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import STEPS, caveat_ids, result
from rich.console import Console

from optimizers import api, planning, protocol
from optimizers.analysis import Folding, compare
from optimizers.analysis.hosted import leading
from optimizers.cli import tables
from optimizers.planning import predictions
from optimizers.planning.stacks import known
from optimizers.protocol import LogLine
from optimizers.results import Run
from optimizers.schema import Measurement, Record, Sample, Workload, from_json, to_json


def timed(variant: str, quiet: float, busy: Sequence[float]) -> Measurement:
    return make.measurement(variant, [quiet] * 6, loaded_samples=make.loaded(variant, busy))


def hosted_record(b_busy: Sequence[float] = (0.4,) * 5) -> Record:
    """The baseline takes half a second a token, a whole one with a core busy. "a" leads without: 0.25 s, then 2 s."""
    record = make.record(
        timed(BASE, 0.5, [1.0] * 5),
        timed("a", 0.25, [2.0] * 5),
        timed("b", 0.4, b_busy),
        make.measurement("c", [0.45] * 6),
        replica=STEPS,
    )
    return replace(record, loaded_replica_samples=make.loaded(BASE, [1.0] * 5))


def test_the_figures_by_hand() -> None:
    run = compare(hosted_record())
    base, a, b, c = (result(run, key).as_hosted for key in (BASE, "a", "b", "c"))
    assert base and a and b and c is None
    assert base.decode_tokens_per_s and base.decode_tokens_per_s.median == 1.0 and base.decode_tokens_per_s.n == 5
    assert (base.slowdown, a.slowdown, b.slowdown) == (2.0, 8.0, 1.0)
    assert base.versus_baseline and base.versus_baseline.verdict == "baseline"
    assert a.versus_baseline and (a.versus_baseline.ratio, a.versus_baseline.verdict) == (0.5, "slower")
    assert b.versus_baseline and b.versus_baseline.ratio == pytest.approx(2.5)
    assert b.versus_baseline.verdict == "faster"
    assert a.ttft_s and a.ttft_s.median == make.timing(2.0).ttft_s


def test_the_floor_is_that_of_the_baselines_two_processes_under_load() -> None:
    """A' takes 4 s a token where A takes one: the baseline is at their geometric mean, 2 s, B five times as fast, the
    floor is 4 - 1 = 3. At 36 s: 6 s, 15 times, and a floor of 35, which swallows it. Without load it is as it was."""
    for seconds, ratio, said in ((4.0, 5.0, "faster"), (36.0, 15.0, "within noise")):
        wide = replace(hosted_record(), loaded_replica_samples=make.loaded(BASE, [seconds] * 5))
        run = compare(wide)
        versus = result(run, "b").as_hosted.versus_baseline
        assert (pytest.approx(ratio), said) == (versus.ratio, versus.verdict)
    assert run.noise_floor == compare(hosted_record()).noise_floor


def test_a_new_leader_is_named_only_where_it_is_faster_by_the_rule() -> None:
    sentence = "With one core busy B leads, not A: it decodes 5.00x as fast there."
    assert compare(hosted_record()).notes == (sentence,)
    assert compare(hosted_record([2.0] * 5)).notes == (
        "With one core busy FP32+SDPA leads, not A: it decodes 2.00x as fast there.",
    )
    assert compare(hosted_record([0.1, 5.0, 0.1, 5.0, 0.1])).notes == ()  # too uncertain to be said of B
    few = hosted_record([0.4] * 4)
    assert compare(few).notes == ()
    assert compare(make.two([0.25] * 6)).notes == ()


def test_no_ordinary_figure_changes() -> None:
    record = hosted_record()
    bare = replace(
        record,
        loaded_replica_samples=(),
        measurements=tuple(replace(item, loaded_samples=()) for item in record.measurements),
    )
    with_load, without = compare(record), compare(bare)
    assert replace(with_load, notes=(), variants=()) == replace(without, variants=())
    assert tuple(replace(item, as_hosted=None) for item in with_load.variants) == without.variants


def test_the_log_keeps_them_apart() -> None:
    folding = Folding()
    folding.add(LogLine(0.0, None, protocol.Planned("r1", "2026-11-30T00:00:00Z", make.plan("a"))))
    folding.add(LogLine(1.0, BASE, protocol.CensusTaken(make.census())))
    for sample in make.loaded(BASE, [1.0] * 2):
        for replica in (False, True):
            event = protocol.SampleTaken(replace(sample, replica=replica), make.output(sample.prompt, (1,)))
            folding.add(LogLine(1.0, BASE, event, replica))
    record = folding.record()
    base = record.measurements[0]
    assert (base.samples, record.replica_samples, base.outputs) == ((), (), ())
    assert base.loaded_samples == make.loaded(BASE, [1.0] * 2)
    assert [sample.replica for sample in record.loaded_replica_samples] == [True, True]
    assert base.status != "measured"  # they prove no ordinary timing
    folding.add(LogLine(2.0, BASE, protocol.SampleTaken(make.sample(BASE, 0, 0.5), make.output(0, (1,)))))
    assert [sample.superseded for sample in folding.record().measurements[0].samples] == [False]


def test_those_that_lead_are_the_three_fastest_of_those_that_are_there() -> None:
    speeds = {"a": 0.4, "b": 0.1, "c": 0.3, "d": 0.2, "e": 0.6}
    made = (make.measurement(key, [step] * 6) for key, step in speeds.items())
    record = make.record(make.measurement(BASE, STEPS), *made)
    assert leading(record, [BASE, *speeds]) == ("b", "d", "c")
    assert leading(record, ["a", "e", "d"]) == ("d", "a", "e")
    assert leading(replace(record, measurements=record.measurements[1:]), list(speeds)) == ()


def test_loaded_turns_are_no_disturbed_ones() -> None:
    assert "disturbed" not in caveat_ids(compare(hosted_record()))


def test_a_run_survives_its_file_and_one_kept_from_before_loads() -> None:
    run = compare(hosted_record())
    assert from_json(Run, to_json(run)) == run
    data = json.loads(to_json(run))
    del data["workload"]["as_hosted"]
    for variant in data["variants"]:
        del variant["as_hosted"]
    kept = from_json(Run, json.dumps(data))
    assert kept.workload.as_hosted is False
    assert {variant.as_hosted for variant in kept.variants} == {None}
    sample = json.loads(to_json(make.sample(BASE, 0, 0.5)))
    del sample["load"]
    assert from_json(Sample, json.dumps(sample)).load == "none"


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_of_the_command_line(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    for part in tables.finished(compare(hosted_record()), width):
        console.print(part)
    table = out.getvalue().split("With one core busy:")[1]
    assert [" ".join(line.split()) for line in table.splitlines()[1:5]] == [
        "variant tokens/s against the baseline slower than without first token",
        "fp32+sdpa 1 ◆ baseline 2.00× 500 ms",
        "a 0.5 0.50× (0.50–0.50) ▼ slower 8.00× 500 ms",
        "b 2.5 2.50× (2.50–2.50) ▲ faster 1.00× 500 ms",
    ]
    assert "With one core busy:" not in str(list(tables.finished(compare(make.two([0.25] * 6)), width)))


def test_the_estimate_holds_five_rounds_of_the_baseline_twice_and_the_three_fastest_twice_as_slow() -> None:
    model, plain, slow = records.checkpoint(), known(("fp32", "sdpa")), known(("torchao_int4_weight_only",))
    work = Workload(("Hello",), max_new_tokens=20, rounds=2)
    variants = [(plain, model, 4)] * 4 + [(slow, model, 4)]
    more = [
        predictions.seconds(variants, replace(work, as_hosted=True), resident=resident)
        - predictions.seconds(variants, work, resident=resident)
        for resident in (True, False)
    ]
    turn = 20 * 0.012 + 64 * 0.000525  # as in test_threads_and_time; the slow one writes 30 times as slowly
    assert more[0] == pytest.approx(5 * 2 * 5 * turn)
    assert more[1] == pytest.approx(5 * 2 * (5 * turn + 30 * 20 * 0.012 + 64 * 0.000525))
    plans = (
        planning.plan(records.choice("bf16", as_hosted=on), records.machine(), model, 10**11) for on in (True, False)
    )
    first, second = (plan.estimate_s for plan in plans)
    assert first > second


def test_it_is_asked_for_by_name() -> None:
    assert api.choose("a model", ["bf16"], as_hosted=True).workload.as_hosted is True
    assert api.choose("a model", ["bf16"]).workload.as_hosted is False
