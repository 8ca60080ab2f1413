"""Votes in the log of a run: kept, replaced, refused, and read back whatever became of the log or the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import voting_records as make
from voting_records import ANN, BASE, BEN, HALF, SMALL, vote

from optimizers import api, protocol, store
from optimizers.analysis import compare, fold
from optimizers.analysis.votes import Ballots, tallies
from optimizers.errors import LeversError, RunNotFound, RunUnreadable, UsageError
from optimizers.manager.board import Board
from optimizers.manager.live import Live
from optimizers.results import Run
from optimizers.schema import from_json, to_json
from optimizers.store import Store
from optimizers.votes import Voted


@pytest.fixture
def runs(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def voted(runs: Store, run_id: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in make.log(runs, run_id).read_bytes().splitlines()]
    return [line for line in lines if line["event"]["kind"] == "voted"]


def test_a_vote_is_a_line_of_the_log_and_part_of_the_results(runs: Store) -> None:
    run_id = make.kept(runs)
    before = runs.load(run_id)
    assert runs.vote(run_id, vote()) == (vote(),)
    assert runs.vote(run_id, vote(voter=BEN, preference="worse")) == (vote(), vote(voter=BEN, preference="worse"))
    first, second = voted(runs, run_id)
    assert (first["variant"], first["event"]["vote"]) == (
        HALF,
        {"variant": HALF, "prompt": 0, "preference": "better", "voter": ANN},
    )
    assert 0 <= first["at"] <= second["at"]
    after = runs.load(run_id)
    assert after.votes == (vote(), vote(voter=BEN, preference="worse"))
    assert replace(after, votes=()) == before
    assert json.loads((runs.folder(run_id) / "run.json").read_text())["votes"][0]["voter"] == ANN
    assert runs.record(run_id).votes == after.votes
    (runs.folder(run_id) / "run.json").unlink()
    assert runs.load(run_id) == after  # the log is the run


def test_a_second_vote_of_one_reader_on_a_pair_replaces_the_first(runs: Store) -> None:
    run_id = make.kept(runs)
    runs.vote(run_id, vote())
    runs.vote(run_id, vote(SMALL, 1))
    assert runs.vote(run_id, vote(preference="same")) == (vote(preference="same"), vote(SMALL, 1))
    assert len(voted(runs, run_id)) == 3
    assert runs.load(run_id).votes == (vote(preference="same"), vote(SMALL, 1))


def test_votes_after_the_end_do_not_hide_how_a_run_ended(runs: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    done, torn = make.kept(runs), make.going_on(runs)
    torn.close()
    with make.log(runs, torn.id).open("ab") as log:
        log.write(b'{"at": 3.0, "variant": "bf16+sd')
    monkeypatch.setattr(store, "LAST_BYTES", 100)  # less than a vote
    for run_id, status in ((done, "done"), (torn.id, "interrupted")):
        for number in range(8):
            runs.vote(run_id, vote(voter=f"{number:016x}"))
        assert len(runs.load(run_id).votes) == 8
        assert runs.load(run_id).status == status
        assert {item.id: item.status for item in runs.runs()}[run_id] == status
    (runs.folder(torn.id) / "run.json").unlink()
    assert len(runs.load(torn.id).votes) == 8  # the first did not melt into the torn line


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (vote("nowhere"), "baseline and 'nowhere' have no two different answers to prompt 1"),
        (vote(BASE), "no two different answers"),
        (vote(prompt=3), "no two different answers to prompt 4"),
        (vote(prompt=-1), "no two different answers"),
        (vote(HALF, 1), "no two different answers to prompt 2"),  # word for word the same
        (vote(voter="x"), "cannot be read"),
        (vote(voter=ANN + "\n"), "cannot be read"),
        (vote(preference="best"), "cannot be read"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_count_is_refused_and_leaves_no_trace(runs: Store, wrong: make.Vote, said: str) -> None:
    run_id = make.kept(runs)
    before = make.log(runs, run_id).read_bytes()
    with pytest.raises(UsageError, match=said) as caught:
        runs.vote(run_id, wrong)
    assert caught.value.remedy
    assert make.log(runs, run_id).read_bytes() == before


def test_a_log_takes_so_many_votes_and_no_more(runs: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = make.kept(runs)
    monkeypatch.setattr(store, "MOST_VOTES", 2)
    runs.vote(run_id, vote())
    runs.vote(run_id, vote(preference="worse"))  # one that replaces another takes room in the log too
    with pytest.raises(UsageError, match="holds 2 votes and takes no more"):
        runs.vote(run_id, vote(voter=BEN))


def test_a_run_from_elsewhere_shows_its_votes_and_takes_none(runs: Store) -> None:
    run_id = make.kept(runs)
    runs.vote(run_id, vote())
    opened = runs.keep(to_json(runs.load(run_id)).encode())
    assert runs.load(opened).votes == (vote(),)
    for ask in (lambda: runs.votable(opened), lambda: runs.vote(opened, vote(voter=BEN))):
        with pytest.raises(UsageError, match="opened from a file: it has no log"):
            ask()
    runs.votable(run_id)
    for name in ("", "../runs", "20261130-000000-00000000"):
        with pytest.raises(RunNotFound):
            runs.vote(name, vote())


def test_hostile_votes_in_a_file_are_refused_or_left_out(runs: Store) -> None:
    data = json.loads(to_json(runs.load(make.kept(runs))))
    one = {"variant": HALF, "prompt": 0, "preference": "better", "voter": ANN}
    for wrong in (
        [one] * 10_001,
        [{**one, "voter": "a" * 10_000}],
        [{**one, "voter": "<img src=x>"}],
        [{**one, "preference": "best"}],
        [{**one, "prompt": "many"}],
        "votes",
    ):
        with pytest.raises(RunUnreadable):
            runs.keep(json.dumps({**data, "votes": wrong}).encode())
    strange = [{**one, "variant": "<img src=x onerror=alert(1)>"}, {**one, "prompt": 10**9}, one, {**one, "voter": BEN}]
    told = runs.load(runs.keep(json.dumps({**data, "votes": strange}).encode()))
    assert [(item.variant, item.better) for item in tallies(told).variants] == [(HALF, 2)]


def test_a_run_json_from_before_there_were_votes_opens(runs: Store) -> None:
    data = json.loads(to_json(runs.load(make.kept(runs))))
    del data["votes"]
    assert from_json(Run, json.dumps(data)).votes == ()
    assert runs.load(runs.keep(json.dumps(data).encode())).votes == ()


def test_while_another_program_measures_a_run_no_vote_comes_between(runs: Store) -> None:
    folder = make.going_on(runs)
    with pytest.raises(LeversError, match=r"Another program measures the run .* Vote when it is over"):
        runs.vote(folder.id, vote())
    folder.close()
    assert runs.vote(folder.id, vote()) == (vote(),)


def test_a_log_that_lost_its_plan_keeps_no_vote(runs: Store) -> None:
    run_id = make.kept(runs)
    log = make.log(runs, run_id)
    log.write_bytes(b"nonsense\n")
    with pytest.raises(RunNotFound, match="its log is damaged"):
        runs.vote(run_id, vote())
    assert log.read_bytes() == b"nonsense\n"


def test_a_disk_that_takes_no_vote_is_a_sentence(runs: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = make.kept(runs)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "_add", full)
    with pytest.raises(LeversError, match=r"No run can be kept in .*No space left"):
        runs.vote(run_id, vote())


def test_votes_fold_whenever_they_come_and_unknown_ones_are_passed_over() -> None:
    planned = protocol.LogLine(0.0, None, protocol.Planned("r1", "2026-11-30T00:00:00Z", make.plan()))
    ended = protocol.LogLine(9.0, None, protocol.Ended("done"))
    early, late, again = vote(), vote(SMALL, 2), vote(preference="worse")
    strange = [vote("nowhere"), vote(BASE), vote(prompt=3), vote(prompt=-1)]

    def line(one: make.Vote) -> protocol.LogLine:
        return protocol.LogLine(1.0, one.variant, Voted(one))

    record = fold([line(early), planned, line(early), *map(line, strange), ended, line(late), line(again)])
    assert record.votes == (again, late)
    assert record.status == "done"
    assert compare(record).votes == record.votes
    assert Ballots(record.votes).counted == record.votes


def test_a_vote_while_the_run_goes_on_is_in_its_log_its_picture_and_its_end(runs: Store) -> None:
    plan = make.plan()
    folder = runs.create(plan)
    live = Live(folder.id, plan)
    board = Board(plan, folder, live)
    for key, event in make.answered(make.ANSWERS):
        board.say(key, event)
    with pytest.raises(UsageError, match="no two different answers"):
        board.vote(vote())  # nothing was compared so far
    board.compare_so_far()
    version = live.snapshot().version
    assert board.vote(vote())
    picture = live.snapshot()
    assert picture.run and picture.run.votes == (vote(),) and picture.version > version
    assert len(voted(runs, folder.id)) == 1
    board.say(None, protocol.Ended("done"))
    assert board.finish().votes == (vote(),)
    assert not board.vote(vote(voter=BEN))  # from here on it is the store's
    folder.close()
    assert runs.vote(folder.id, vote(voter=BEN)) == runs.load(folder.id).votes == (vote(), vote(voter=BEN))


def test_the_one_door_keeps_a_vote(own_cache: Path) -> None:
    runs = Store(own_cache / "runs")
    run_id = make.kept(runs)
    api.votable(run_id)
    api.vote(run_id, vote())
    assert api.load(run_id).votes == (vote(),)
    live = api.watch(run_id)
    assert live.run and live.run.votes == (vote(),)
    with pytest.raises(RunNotFound):
        api.vote("20261130-000000-00000000", vote())
    api.shutdown()
