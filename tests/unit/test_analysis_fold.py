"""Logs of every kind become a record: finished, crashed, cancelled, cut short, out of order and hostile."""

from __future__ import annotations

from dataclasses import replace

import analysis_records as make
import pytest

from optimizers import protocol
from optimizers.analysis import Folding, compare, fold
from optimizers.protocol import LogLine
from optimizers.schema import Cost, Obstacle, Record, Sample, VariantStatus

BASE = make.BASELINE


def planned(*keys: str) -> LogLine:
    plan = make.plan(*keys, skipped=(make.skipped("onnx"),))
    return LogLine(0.0, None, protocol.Planned("r1", "2026-11-30T00:00:00Z", plan))


def taken(sample: Sample, ids: tuple[int, ...] = (1, 2), *, replica: bool = False) -> LogLine:
    return LogLine(1.0, sample.variant, protocol.SampleTaken(sample, make.output(sample.prompt, ids)), replica)


def status(key: str, word: VariantStatus, reason: str | None = None, *, replica: bool = False) -> LogLine:
    return LogLine(1.0, key, protocol.StatusChanged(word, reason, log_tail=("last words",)), replica)


def counted_in(key: str = BASE) -> LogLine:
    return LogLine(1.0, key, protocol.CensusTaken(make.census()))


def ended(word: str = "done") -> LogLine:
    return LogLine(9.0, None, protocol.Ended(word))  # type: ignore[arg-type]


def of(record: Record, key: str = BASE):
    return next(item for item in record.measurements if item.variant == key)


def test_a_finished_run_keeps_everything_in_plan_order() -> None:
    passage = make.passage("answer:0", [0.1])
    record = fold(
        [
            planned("bf16+sdpa"),
            LogLine(1.0, BASE, protocol.Loaded(Cost(2.0, 1.0, 0.0), 384, ("No pad token.",))),
            LogLine(1.0, BASE, protocol.WarmedUp(0.75)),
            counted_in(),
            taken(make.sample(BASE, 0, 0.5)),
            LogLine(1.0, BASE, protocol.MemoryTaken(make.memory(1000))),
            LogLine(1.0, BASE, protocol.Scored((passage,))),
            LogLine(1.0, BASE, protocol.Noted("A sentence.")),
            LogLine(1.0, None, protocol.Noted("About the run.")),
            status(BASE, "measured"),
            ended(),
        ]
    )
    base = of(record)
    assert [item.variant for item in record.measurements] == [BASE, "bf16+sdpa", "onnx"]
    assert record.status == "done"
    assert base.cost == Cost(2.0, 1.0, 0.75)
    assert base.memory == make.memory(1000)
    assert base.scores == (passage,)
    assert base.notes == ("No pad token.", "A sentence.")
    assert record.notes == ("About the run.",)
    assert base.outputs == (make.output(0, (1, 2)),)
    assert of(record, "onnx").status == "skipped"
    assert of(record, "onnx").remedy == "Install it."


def test_a_log_without_an_end_was_interrupted_and_keeps_what_it_has() -> None:
    record = fold([planned("a", "b"), counted_in(), taken(make.sample(BASE, 0, 0.5)), status("a", "loading")])
    assert record.status == "interrupted"
    assert of(record).status == "measured"
    assert len(of(record).samples) == 1
    assert of(record, "a").status == "cancelled"
    assert of(record, "b").status == "cancelled"
    assert of(record, "b").reason == "The run ended before this variant was measured."


def test_a_log_that_is_being_written_keeps_live_statuses() -> None:
    folding = Folding()
    for line in [planned("a", "b"), counted_in(), taken(make.sample(BASE, 0, 0.5)), status("a", "loading")]:
        folding.add(line)
    record = folding.record(unended="running")
    assert [item.status for item in record.measurements] == ["measured", "loading", "waiting", "skipped"]
    folding.add(ended("cancelled"))
    assert folding.record(unended="running").status == "cancelled"
    assert of(folding.record(), "a").status == "cancelled"


def test_a_stopped_variant_with_samples_is_measured_and_needs_no_reason() -> None:
    stopped = status(BASE, "cancelled", "It was stopped before this variant was measured.")
    empty = status("a", "cancelled", "It was stopped before this variant was measured.")
    lines = [planned("a"), counted_in(), taken(make.sample(BASE, 0, 0.5)), stopped, empty, ended("cancelled")]
    record = fold(lines)
    assert (of(record).status, of(record).reason, of(record).remedy) == ("measured", None, None)
    assert (of(record, "a").status, of(record, "a").reason) == ("cancelled", empty.event.reason)  # type: ignore[union-attr]


def test_a_sample_without_a_census_proves_nothing() -> None:
    record = fold([planned(), taken(make.sample(BASE, 0, 0.5)), ended("cancelled")])
    assert of(record).status == "cancelled"
    claimed = fold([planned(), taken(make.sample(BASE, 0, 0.5)), status(BASE, "measured"), ended()])
    assert of(claimed).status == "failed"
    assert "census" in (of(claimed).reason or "")


def test_a_crash_keeps_its_reason_and_the_last_lines_of_the_log() -> None:
    lines = [
        planned("a"),
        counted_in("a"),
        taken(make.sample("a", 0, 0.5)),
        status("a", "failed", "The worker died (signal 9)."),
        ended(),
    ]
    crashed = of(fold(lines), "a")
    assert (crashed.status, crashed.reason, crashed.log_tail) == (
        "failed",
        "The worker died (signal 9).",
        ("last words",),
    )
    assert len(crashed.samples) == 1


def test_a_failed_command_explains_a_variant_that_has_nothing() -> None:
    failed = LogLine(1.0, "a", protocol.Failed("load", "Out of memory.", "Free some."))
    item = of(fold([planned("a"), failed, ended()]), "a")
    assert (item.status, item.reason, item.remedy) == ("failed", "Out of memory.", "Free some.")


def test_what_was_not_applied_is_never_measured_whatever_else_is_said() -> None:
    census = protocol.CensusTaken(make.census(), Obstacle("Conv1D layers.", "Convert them."))
    lines = [planned("a"), LogLine(1.0, "a", census), taken(make.sample("a", 0, 0.5)), status("a", "measured"), ended()]
    item = of(fold(lines), "a")
    assert (item.status, item.reason, item.remedy) == ("not_applied", "Conv1D layers.", "Convert them.")
    assert item.census == make.census()


def test_the_highest_attempt_of_a_turn_counts_in_any_order() -> None:
    first, second, third = (make.sample(BASE, 0, step, attempt=n) for n, step in enumerate((0.5, 0.25, 0.125)))
    for order in ([first, second, third], [third, first, second], [second, third, first]):
        record = fold([planned(), counted_in(), *map(taken, order), ended()])
        assert [s.attempt for s in of(record).samples if not s.superseded] == [2]
        assert len(of(record).samples) == 3


def test_a_superseded_turn_whose_repetition_never_came_does_not_count() -> None:
    lost = make.sample(BASE, 1, 0.5, superseded=True, disturbed=True)
    record = fold([planned(), counted_in(), taken(make.sample(BASE, 0, 0.5)), taken(lost)])
    assert [s.round for s in of(record).samples if not s.superseded] == [0]


def test_the_second_process_of_the_baseline_feeds_its_own_samples_only() -> None:
    lines = [
        planned("a"),
        counted_in(),
        taken(make.sample(BASE, 0, 0.5)),
        taken(make.sample(BASE, 0, 0.25), (9, 9), replica=True),
        taken(make.sample(BASE, 1, 0.25, replica=True), (9, 9)),
        taken(make.sample("a", 0, 0.25), (9, 9), replica=True),
        LogLine(1.0, BASE, protocol.Loaded(Cost(9.0, 9.0, 0.0), 384, ("Of the other.",)), replica=True),
        status(BASE, "failed", "A' died.", replica=True),
        ended(),
    ]
    record = fold(lines)
    assert [(s.round, s.replica) for s in record.replica_samples] == [(0, True), (1, True)]
    assert len(of(record).samples) == 1
    assert of(record).status == "measured"
    assert of(record).cost is None
    assert of(record).notes == ()
    assert of(record).outputs == (make.output(0, (1, 2)),)
    assert of(record, "a").samples == ()


def test_the_first_answer_to_each_prompt_is_the_answer() -> None:
    lines = [planned(), counted_in()]
    lines += [taken(make.sample(BASE, number, 0.5), (number,)) for number in (1, 0, 3, 4)]  # rounds 0 and 3: prompt 0
    assert [o.token_ids for o in of(fold(lines)).outputs] == [(0,), (1,)]


def test_hostile_lines_change_nothing() -> None:
    sound = [planned("a"), counted_in(), taken(make.sample(BASE, 0, 0.5))]
    hostile = [
        planned("other"),
        taken(make.sample("unknown", 0, 0.5)),
        LogLine(1.0, BASE, protocol.SampleTaken(make.sample("a", 0, 0.5), make.output(0, (1,)))),
        taken(make.sample(BASE, 1, 0.5, prompt=99)),
        taken(make.sample(BASE, 1, 0.5, prompt=-1)),
        taken(make.sample(BASE, -1, 0.5, prompt=0)),
        status("unknown", "failed"),
        status("onnx", "measured"),
        LogLine(1.0, None, protocol.CensusTaken(make.census())),
    ]
    late = [status(BASE, "failed", "Said after the end."), taken(make.sample(BASE, 2, 0.5)), ended("failed")]
    assert fold([status(BASE, "failed"), *sound, *hostile, ended(), *late]) == fold([*sound, ended()])


def test_an_output_about_another_prompt_is_not_taken_for_the_answer() -> None:
    sample = make.sample(BASE, 0, 0.5)
    line = LogLine(1.0, BASE, protocol.SampleTaken(sample, make.output(2, (7,))))
    assert of(fold([planned(), counted_in(), line])).outputs == ()


def test_scores_given_twice_count_once() -> None:
    lines = [planned(), LogLine(1.0, BASE, protocol.Scored((make.passage("answer:0", [9.0]),)))]
    lines += [LogLine(1.0, BASE, protocol.Scored((make.passage("answer:0", [0.1]),)))]
    assert of(fold(lines)).scores == (make.passage("answer:0", [0.1]),)


def test_a_log_without_a_plan_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="no plan"):
        fold([status(BASE, "measured"), ended()])


def test_every_beginning_of_a_log_can_be_compared() -> None:
    lines = [planned("a"), counted_in(), counted_in("a")]
    lines += [taken(make.sample(key, number, 0.5)) for number in range(6) for key in (BASE, "a")]
    lines += [status(BASE, "measured"), status("a", "measured"), ended()]
    for length in range(1, len(lines) + 1):
        run = compare(fold(lines[:length]))
        assert [item.key for item in run.variants] == [BASE, "a", "onnx"]


def test_times_that_no_clock_gives_count_for_nothing() -> None:
    sound = make.timing(0.5)
    impossible = [
        replace(sound, token_times_s=()),
        replace(sound, token_times_s=(2.0, 1.0)),
        replace(sound, ttft_s=float("nan")),
        replace(sound, total_s=float("inf")),
        replace(sound, total_s=0.0),
        replace(sound, prefill_s=-1.0),
    ]
    lines = [planned(), counted_in()]
    lines += [taken(make.sample(BASE, n, 0.5, timing=timing)) for n, timing in enumerate(impossible)]
    run = compare(fold([*lines, taken(make.sample(BASE, 9, 0.5)), ended()]))
    assert run.variants[0].latency is not None
    assert run.variants[0].latency.total_s is not None
    assert run.variants[0].latency.total_s.n == 1
    assert any(caveat.id == "impossible_times" and "6" in caveat.text for caveat in run.caveats)
