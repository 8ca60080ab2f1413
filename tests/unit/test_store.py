"""Runs on disk: written line by line, read back whole, torn, damaged and foreign; ids never become paths."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import planning_records as make
import pytest

from optimizers import planning, protocol
from optimizers.analysis import compare
from optimizers.errors import LeversError, RunNotFound, RunUnreadable
from optimizers.schema import Output, Plan, Sample, Timing, to_json
from optimizers.settings import MAX_RUN_BYTES
from optimizers.store import ID_PATTERN, RunFolder, Store


@pytest.fixture
def plan() -> Plan:
    return planning.plan(make.choice("bf16"), make.machine(), make.checkpoint(), 10_000_000_000)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def sample() -> protocol.SampleTaken:
    timing = Timing(4, 0.001, 0.01, 0.02, 0.001, 0.1, (0.02, 0.06, 0.1), 0.2, 0.0, 0.0, 2)
    return protocol.SampleTaken(
        Sample("bf16+sdpa", False, 0, 0, 0, timing, 1.0, False), Output(0, "é\u2028 {}", (1, 2), False, 3)
    )


def ended(folder: RunFolder, status: str = "done") -> None:
    folder.append(None, protocol.Ended(status))  # type: ignore[arg-type]
    folder.close()


def test_a_run_is_written_as_it_happens_and_read_back(store: Store, plan: Plan) -> None:
    folder = store.create(plan)
    assert ID_PATTERN.fullmatch(folder.id)
    folder.append("bf16+sdpa", sample())
    lines = (folder.path / "events.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["event"]["kind"] for line in lines] == ["planned", "sample_taken"]
    (raw,) = (folder.path / "samples.jsonl").read_text().splitlines()
    assert json.loads(raw)["timing"]["token_times_s"] == [0.02, 0.06, 0.1]
    assert store.load(folder.id).status == "running"
    assert store.runs()[0].status == "running"
    folder.reference.write_bytes(b"rows")
    ended(folder)
    assert not folder.reference.exists()
    assert store.load(folder.id).status == "done"
    (summary,) = store.runs()
    assert (summary.id, summary.status, summary.model) == (folder.id, "done", "test-model")
    assert summary.variants == ("fp32+sdpa", "bf16+sdpa")
    (kept,) = store.record(folder.id).measurements[1].samples
    assert kept == sample().sample


def test_a_run_without_an_end_was_interrupted_and_can_be_read(store: Store, plan: Plan) -> None:
    folder = store.create(plan)
    folder.append("bf16+sdpa", sample())
    folder.close()
    with (folder.path / "events.jsonl").open("ab") as file:
        file.write(b'{"at": 3.0, "variant": "bf16+sd')
    assert store.load(folder.id).status == "interrupted"
    assert store.runs()[0].status == "interrupted"
    assert len(store.record(folder.id).measurements[1].samples) == 1


def test_a_stale_or_damaged_run_json_is_worked_out_again(store: Store, plan: Plan) -> None:
    folder = store.create(plan)
    folder.write_run(compare(store.record(folder.id)))
    assert json.loads((folder.path / "run.json").read_text())["status"] == "running"
    ended(folder)
    assert store.load(folder.id).status == "done"
    for damage in (b"", b"{", b"[]", b'{"schema": "levers.run/9"}', b"\xff\xfe"):
        (folder.path / "run.json").write_bytes(damage)
        assert store.load(folder.id).status == "done"


def test_run_json_is_replaced_whole_and_read_as_it_is(store: Store, plan: Plan) -> None:
    folder = store.create(plan)
    ended(folder)
    run = compare(store.record(folder.id))
    folder.write_run(run)
    assert store.load(folder.id) == run
    assert sorted(path.name for path in folder.path.iterdir()) == ["events.jsonl", "logs", "run.json", "samples.jsonl"]


def test_what_is_not_a_run_is_left_out(store: Store, plan: Plan) -> None:
    good = store.create(plan)
    ended(good)
    for name, text in (("20261130-000000-00000000", "nonsense\n"), ("20261130-000001-00000000", '{"at": 1}\n')):
        (store.root / name).mkdir()
        (store.root / name / "events.jsonl").write_text(text)
    (store.root / "20261130-000002-00000000").mkdir()
    (store.root / "notes").mkdir()
    (store.root / "20261130-000003-00000000").write_text("a file")
    assert [summary.id for summary in store.runs()] == [good.id]
    with pytest.raises(RunNotFound, match="its log is damaged"):
        store.load("20261130-000000-00000000")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../runs", "/etc/passwd", "20261130-000000-0000000g", "20261130-000000-00000000/..", "x\0"]
)
def test_an_id_is_never_a_path(store: Store, plan: Plan, name: str) -> None:
    store.create(plan).close()
    with pytest.raises(RunNotFound, match=r"There is no run .* python -m optimizers runs"):
        store.load(name)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_a_log_that_is_a_pipe_is_not_read(store: Store, plan: Plan) -> None:
    """It would be waited for without end; this one has a plan to give, which nobody may take."""
    folder = store.create(plan)
    first = (folder.path / "events.jsonl").read_bytes()
    ended(folder)
    (folder.path / "events.jsonl").unlink()
    os.mkfifo(folder.path / "events.jsonl")
    pipe = os.open(folder.path / "events.jsonl", os.O_RDWR)
    os.write(pipe, first)
    assert store.runs() == ()
    os.close(pipe)


def test_a_run_from_elsewhere_is_kept_and_shown_as_that(store: Store, plan: Plan) -> None:
    folder = store.create(plan)
    ended(folder)
    told = store.load(folder.id)
    kept = store.keep(to_json(told).encode())
    assert kept != folder.id and ID_PATTERN.fullmatch(kept)
    opened = store.load(kept)
    assert (opened.id, opened.status, opened.variants) == (kept, "done", told.variants)
    assert opened.notes[-1].startswith("Opened from a file")
    assert store.load(store.keep(to_json(opened).encode())).notes == opened.notes
    assert store.load(store.keep(to_json(replace(told, status="running")).encode())).status == "interrupted"
    summary = next(item for item in store.runs() if item.id == kept)
    assert (summary.model, summary.variants) == ("test-model", ("fp32+sdpa", "bf16+sdpa"))
    (store.root / kept / "run.json").write_text("{}")
    assert kept not in [item.id for item in store.runs()]
    with pytest.raises(RunNotFound, match="its file is damaged"):
        store.load(kept)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[" * 100_000, b"\xff\xfe", b'{"schema": "levers.run/2"}', b"null"])
def test_what_is_no_run_is_not_kept(store: Store, raw: bytes) -> None:
    with pytest.raises(RunUnreadable, match=r"not the run.json of a comparison. Give a file saved by"):
        store.keep(raw)
    assert store.runs() == () and not store.root.exists()


def test_a_file_larger_than_any_run_is_not_read(store: Store) -> None:
    with pytest.raises(RunUnreadable, match="more than 16 MiB"):
        store.keep(b" " * (MAX_RUN_BYTES + 1))


def test_a_deleted_run_is_gone_with_its_files_and_no_other_is(store: Store, plan: Plan) -> None:
    first, second, going_on = store.create(plan), store.create(plan), store.create(plan)
    ended(first)
    ended(second)
    store.delete(first.id)
    assert not first.path.exists() and [path for path in store.root.iterdir() if path.name.startswith(".")] == []
    assert {item.id for item in store.runs()} == {second.id, going_on.id}
    with pytest.raises(LeversError, match=r"still goes on. Stop it first"):
        store.delete(going_on.id)
    going_on.close()
    for name in (first.id, "../runs", ""):
        with pytest.raises(RunNotFound):
            store.delete(name)
    opened = store.keep(to_json(store.load(second.id)).encode())
    store.delete(opened)
    assert {item.id for item in store.runs()} == {second.id, going_on.id}


def test_no_folder_yet_is_an_empty_history(store: Store) -> None:
    assert store.runs() == ()


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LeversError, match=r"No run can be kept in .*LEVERS_RUNS"):
        Store(tmp_path / "file").create(plan)


def test_a_killed_writer_lets_go_of_the_log(store: Store, plan: Plan) -> None:
    """Running or interrupted is told by a lock that the kernel drops, not by what a dead program wrote."""
    code = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
import planning_records as make
from pathlib import Path
from optimizers import planning
from optimizers.store import Store
plan = planning.plan(make.choice("bf16"), make.machine(), make.checkpoint(), 10**10)
folder = Store(Path({str(store.root)!r})).create(plan)
print(folder.id, flush=True)
sys.stdin.read(1)
os.kill(os.getpid(), 9)
"""
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        run_id = writer.stdout.readline().strip()
        assert store.load(run_id).status == "running"
        writer.communicate("x")
    assert store.load(run_id).status == "interrupted"


def test_log_names_are_safe(store: Store, plan: Plan) -> None:
    folder = store.create(plan)
    assert folder.log_path("fp32+sdpa", replica=True).name == "fp32+sdpa.second.log"
    assert folder.log_path("../../etc/passwd").parent == folder.path / "logs"
    assert folder.log_path("fp32+sdpa+checkpoint=half").name == "fp32+sdpa+checkpoint=half.log"
    alike = ("checkpoint=a/b", "checkpoint=a_b", "checkpoint=a b", "x" * 200, "x" * 201)
    assert len({folder.log_path(key).name for key in alike}) == len(alike)
    assert all(len(folder.log_path(key).name) < 200 for key in alike)
    folder.close()
