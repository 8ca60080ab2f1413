"""Rounds by the book, with members whose answers are made up: repeats, budgets, who is settled, failures, time left."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import planning_records as make
import pytest

from optimizers import planning, protocol
from optimizers.errors import WorkerError
from optimizers.manager import rounds as rounds_module
from optimizers.manager.board import Board
from optimizers.manager.live import Live
from optimizers.manager.rounds import Rounds
from optimizers.manager.settling import Settling
from optimizers.manager.turns import Pace
from optimizers.schema import Output, Plan, Sample, Timing
from optimizers.store import Store

KEYS = ("fp32+sdpa", "bf16+sdpa")


class FakeMember:
    """Answers at once, with processor time waited for as `waits` says, call by call."""

    def __init__(
        self,
        key: str,
        replica: bool = False,
        waits: tuple[float, ...] = (),
        fails_at: int = -1,
        steps: tuple[float, ...] = (0.5,),
    ) -> None:
        self.key, self.replica, self.alive = key, replica, True
        self.name = f"{key} again" if replica else key
        self.prompts: list[str] = []
        self._waits = list(waits)
        self._fails_at = fails_at
        self._steps = steps

    def run(self, prompt: str, tokens: int) -> protocol.Answered:
        self.prompts.append(prompt)
        if len(self.prompts) - 1 == self._fails_at:
            raise WorkerError("It broke.", "Mend it.")
        waited = self._waits.pop(0) if self._waits else 0.0
        step = self._steps[(len(self.prompts) - 1) % len(self._steps)]
        timing = Timing(3, 0.0, 0.1, 0.1, 0.0, 1.0, (0.1, 0.1 + step), 2.0, waited, 0.0, 4)
        return protocol.Answered(len(self.prompts), timing, Output(9, f"to {prompt}", (1,), False, tokens))


class Table:
    """A board, a pace and rounds for these members."""

    def __init__(
        self, folder: Path, members: list[FakeMember], kept: int = 0, after_s: float = 0.0, **workload: Any
    ) -> None:
        self.members = members
        stacks = workload.pop("stacks", ("bf16",))
        choice = make.choice(*stacks, **({"prompts": ("a", "b"), "max_new_tokens": 2} | workload))
        self.plan: Plan = planning.plan(choice, make.machine(), make.checkpoint(), 10**10)
        run_folder = Store(folder).create(self.plan)
        self.path = run_folder.path
        self.live = Live(run_folder.id, self.plan)
        self.board = Board(self.plan, run_folder, self.live)
        self.pace = Pace(self.plan, [member.name for member in members], kept, after_s)
        self.rounds = Rounds(self.board, self.pace, self._guarded)

    def _guarded(self, member: Any, action: Callable[[Any], bool]) -> bool:
        try:
            return action(member)
        except WorkerError:
            member.alive = False
            self.pace.out(member.name)
            return False

    def samples(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.path / "samples.jsonl").read_text().splitlines()]


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[Callable[..., Table]]:
    """Makes tables and closes their logs."""
    tables: list[Table] = []

    def make_one(members: list[FakeMember], **workload: Any) -> Table:
        tables.append(Table(tmp_path, members, **workload))
        return tables[-1]

    yield make_one
    for table in tables:
        table.board.folder.close()


def test_a_disturbed_turn_is_repeated_twice_at_most_and_then_flagged(seat: Callable[..., Table]) -> None:
    # Four threads for one second: 0.2 s waited is a share of 0.95, which is enough; 0.4 s is 0.9, which is not.
    table = seat([FakeMember(KEYS[0], waits=(0.4, 0.2, 0.4, 0.4, 0.4, 0.2))], rounds=3)
    table.rounds.play(table.members)  # type: ignore[arg-type]
    found = [(s["round"], s["attempt"], s["superseded"], s["disturbed"]) for s in table.samples()]
    assert found == [
        (0, 0, True, True),
        (0, 1, False, False),
        (1, 0, True, True),
        (1, 1, True, True),
        (1, 2, False, True),
        (2, 0, False, False),
    ]
    assert [s["processor_share"] for s in table.samples()][:2] == pytest.approx([0.9, 0.95])
    assert table.members[0].prompts == ["a", "a", "b", "b", "b", "a"]


def test_the_answer_belongs_to_the_prompt_of_the_round(seat: Callable[..., Table]) -> None:
    table = seat([FakeMember(KEYS[0])], rounds=2)
    table.rounds.play(table.members)  # type: ignore[arg-type]
    lines = [json.loads(line) for line in (table.path / "events.jsonl").read_text().splitlines()]
    outputs = [line["event"]["output"] for line in lines if line["event"]["kind"] == "sample_taken"]
    assert [(output["prompt"], output["text"]) for output in outputs] == [(0, "to a"), (1, "to b")]
    lane = table.live.snapshot().lanes[0]
    assert (lane.text, lane.turns_done, lane.turns_planned, lane.active) == ("to b", 2, 2, False)
    assert lane.tokens_per_s == pytest.approx(2.0)  # one step of half a second


def test_one_that_fails_is_out_and_the_others_play_on(seat: Callable[..., Table]) -> None:
    table = seat([FakeMember(KEYS[0]), FakeMember(KEYS[1], fails_at=1)], rounds=4)
    table.rounds.play(table.members)  # type: ignore[arg-type]
    assert [len(member.prompts) for member in table.members] == [4, 2]
    assert table.pace.share_done() == 0.5  # nobody was prepared here: all turns are done or will not be taken
    assert table.pace.left_s() > 0


def test_a_spent_budget_still_gives_everybody_one_whole_round(seat: Callable[..., Table]) -> None:
    members = [FakeMember(KEYS[0]), FakeMember(KEYS[1]), FakeMember(KEYS[0], replica=True)]
    table = seat(members, seconds=1e-9)
    table.rounds.play(members)  # type: ignore[arg-type]
    assert [len(member.prompts) for member in members] == [1, 1, 1]


@pytest.mark.parametrize(("kept", "played"), [(0, 3), (1, 2)])
def test_a_round_is_begun_only_when_it_should_fit_the_budget(
    kept: int, played: int, seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that moves two seconds a turn: rounds of two turns take four, so that three of them fit in thirteen, or
    two with the time of one kept for what comes after."""
    now = [100.0]
    members = [FakeMember(KEYS[0]), FakeMember(KEYS[1])]
    for member in members:
        answer = member.run

        def slow(prompt: str, tokens: int, answer: Any = answer) -> protocol.Answered:
            now[0] += 2.0
            return answer(prompt, tokens)

        monkeypatch.setattr(member, "run", slow)
    monkeypatch.setattr("optimizers.manager.turns.time.monotonic", lambda: now[0])
    assert rounds_module.time.monotonic() == 100.0
    table = seat(members, kept=kept, seconds=13.0)
    table.rounds.play(members)  # type: ignore[arg-type]
    assert [len(member.prompts) for member in members] == [played, played]


RESTLESS = (0.25, 1.0)  # seconds a token, by turns: with this swing no verdict is settled in twelve rounds


def notes(table: Table) -> list[str]:
    """What was noted, the seconds that passed written as T."""
    lines = [json.loads(line) for line in (table.path / "events.jsonl").read_text().splitlines()]
    said = [line["event"]["text"] for line in lines if line["event"]["kind"] == "noted"]
    return [re.sub(r"\d+ s of", "T s of", text) for text in said]


def rounds_of(table: Table, key: str, replica: bool = False) -> list[int]:
    return [s["round"] for s in table.samples() if (s["variant"], s["replica"]) == (key, replica)]


def test_the_rounds_end_once_every_verdict_is_settled(seat: Callable[..., Table]) -> None:
    members = [FakeMember(KEYS[0]), FakeMember(KEYS[1], steps=(0.25,)), FakeMember(KEYS[0], replica=True)]
    table = seat(members, seconds=80_000.0)
    for member in members:
        table.pace.prepared(member.name, True)
    table.rounds.play(members)  # type: ignore[arg-type]
    assert [len(member.prompts) for member in members] == [6, 6, 6]
    text = "Every verdict on decoding speed was settled after 6 rounds, T s of 80000 s, so no more were played."
    assert notes(table) == [text]
    live = table.live.snapshot()
    assert [(lane.turns_done, lane.turns_planned) for lane in live.lanes] == [(6, 6), (6, 6)]
    assert live.time_left_s == pytest.approx(0.0, abs=60.0)  # no longer the whole budget


def test_a_settled_variant_has_one_turn_in_three_and_the_baseline_all(
    seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settled after six rounds, the first variant has its turn at another place of each three rounds: the last of 6 to
    8, the first of 9 to 11, so on another of two prompts."""
    monkeypatch.setattr(rounds_module, "MAX_ROUNDS", 12)
    third = "fp32+eager"
    members = [
        FakeMember(KEYS[0]),
        FakeMember(KEYS[1], steps=(0.25,)),
        FakeMember(third, steps=RESTLESS),
        FakeMember(KEYS[0], replica=True),
    ]
    table = seat(members, stacks=("bf16", "eager"), seconds=80_000.0)
    planned: list[tuple[str, int, int]] = []
    counted = table.live.counted

    def heard(key: str, done: int, of: int, rate: float | None) -> None:
        planned.append((key, done, of))
        counted(key, done, of, rate)

    monkeypatch.setattr(table.live, "counted", heard)
    table.rounds.play(members)  # type: ignore[arg-type]
    every = list(range(12))
    assert rounds_of(table, KEYS[1]) == [0, 1, 2, 3, 4, 5, 8, 9]
    assert rounds_of(table, KEYS[0]) == rounds_of(table, KEYS[0], replica=True) == rounds_of(table, third) == every
    assert [s["prompt"] for s in table.samples() if s["variant"] == KEYS[1]] == [0, 1, 0, 1, 0, 1, 0, 1]
    text = "The rounds ended after 12 rounds, T s of 80000 s: no run has more; not settled by then: fp32+eager."
    assert notes(table) == [text]
    # The most that may come: all of twelve, then a third of the three rounds after round 8 and of the two after 9.
    mine = [(done, of) for key, done, of in planned if key == KEYS[1]]
    assert mine == [*((done, 12) for done in range(1, 7)), (7, 8), (8, 9), (8, 8)]
    assert all(of == 12 for key, _, of in planned if key != KEYS[1])


def test_what_was_settled_may_be_settled_no_more(seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as fast for six rounds, then four times slower: from the next turn on it plays in every round again."""
    monkeypatch.setattr(rounds_module, "MAX_ROUNDS", 12)
    drifting = FakeMember(KEYS[1], steps=(*[0.25] * 6, *[2.0] * 6))
    members = [FakeMember(KEYS[0]), drifting, FakeMember("fp32+eager", steps=RESTLESS)]
    table = seat(members, stacks=("bf16", "eager"), seconds=80_000.0)
    table.rounds.play(members)  # type: ignore[arg-type]
    assert rounds_of(table, KEYS[1]) == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]


def test_a_number_of_rounds_is_played_to_its_end_by_everybody(seat: Callable[..., Table]) -> None:
    members = [FakeMember(KEYS[0]), FakeMember(KEYS[1], steps=(0.25,)), FakeMember(KEYS[0], replica=True)]
    table = seat(members, rounds=9)
    table.rounds.play(members)  # type: ignore[arg-type]
    assert [len(member.prompts) for member in members] == [9, 9, 9]
    assert notes(table) == []


def test_a_spent_budget_says_whose_verdict_it_left_open(seat: Callable[..., Table]) -> None:
    members = [FakeMember(KEYS[0]), FakeMember(KEYS[1], steps=(0.25,)), FakeMember(KEYS[0], replica=True)]
    table = seat(members, seconds=1e-9)
    table.rounds.play(members)  # type: ignore[arg-type]
    text = "The rounds ended after 1 round, T s of 1e-09 s: another would not have fit; not settled by then: bf16+sdpa."
    assert notes(table) == [text]


def test_a_plan_of_the_baseline_alone_uses_its_budget(
    seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds_module, "MAX_ROUNDS", 9)
    members = [FakeMember(KEYS[0]), FakeMember(KEYS[0], replica=True)]
    table = seat(members, stacks=(), seconds=80_000.0)
    table.rounds.play(members)  # type: ignore[arg-type]
    assert [len(member.prompts) for member in members] == [9, 9]
    assert notes(table) == ["The rounds ended after 9 rounds, T s of 80000 s: no run has more."]


@pytest.mark.parametrize("loaded", [True, False])
def test_no_budget_is_spent_on_the_baseline_against_itself(loaded: bool, seat: Callable[..., Table]) -> None:
    """The only variant fails in the third round, or never came so far as to play."""
    variant = [FakeMember(KEYS[1], fails_at=2)] if loaded else []
    members = [FakeMember(KEYS[0]), *variant, FakeMember(KEYS[0], replica=True)]
    table = seat(members, seconds=80_000.0)
    table.rounds.play(members)  # type: ignore[arg-type]
    count = 3 if loaded else 1
    assert [len(member.prompts) for member in members] == [count] * len(members)
    said = "3 rounds" if loaded else "1 round"
    assert notes(table) == [
        f"The rounds ended after {said}, T s of 80000 s: no variant was left to hold against the baseline."
    ]


def test_the_time_for_what_comes_after_is_kept_from_a_budget(
    seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns of two seconds: in 13 s fit six of them, and four when 5 s are kept."""
    now = [100.0]
    member = FakeMember(KEYS[0])
    answer = member.run

    def slow(prompt: str, tokens: int) -> protocol.Answered:
        now[0] += 2.0
        return answer(prompt, tokens)

    monkeypatch.setattr(member, "run", slow)
    monkeypatch.setattr("optimizers.manager.turns.time.monotonic", lambda: now[0])
    table = seat([member], after_s=5.0, seconds=13.0, stacks=())
    table.rounds.play([member])  # type: ignore[list-item]
    assert len(member.prompts) == 4


def test_those_who_play_later_play_as_many_rounds_as_the_first(seat: Callable[..., Table]) -> None:
    members = [FakeMember(KEYS[0]), FakeMember(KEYS[1])]
    table = seat(members, seconds=1e-9)
    table.rounds.play(members[:1])  # type: ignore[arg-type]
    table.rounds.play(members[1:])  # type: ignore[arg-type]
    assert [len(member.prompts) for member in members] == [1, 1]


def test_a_budgets_time_left_and_share_by_hand(seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("optimizers.manager.turns.time.monotonic", lambda: now[0])
    pace = seat([FakeMember(KEYS[0]), FakeMember(KEYS[1])], seconds=100.0).pace
    assert (pace.left_s(), pace.share_done()) == (100.0, 0.0)
    now[0] = 30.0
    pace.prepared(KEYS[0], True)
    assert (pace.left_s(), pace.share_done()) == (70.0, pytest.approx(0.3))
    now[0] = 75.0  # another preparation of 75 s is to come
    assert (pace.left_s(), pace.share_done()) == (75.0, pytest.approx(0.5))
    pace.prepared(KEYS[1], True)
    now[0] = 80.0
    assert (pace.left_s(), pace.share_done()) == (20.0, pytest.approx(0.8))
    pace.rounds_over(5.0)  # all is settled: what comes after takes five seconds
    assert (pace.left_s(), pace.share_done()) == (5.0, pytest.approx(80 / 85))
    now[0] = 90.0
    assert (pace.left_s(), pace.share_done()) == (0.0, 0.99)


def test_the_time_left_by_hand(seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("optimizers.manager.turns.time.monotonic", lambda: now[0])
    members = [FakeMember(KEYS[0]), FakeMember(KEYS[1])]
    table = seat(members, rounds=5)
    pace = table.pace
    planned = table.plan.estimate_s
    assert pace.left_s() == pytest.approx(planned)  # half of it for two preparations, half for ten turns
    now[0] = 6.0
    pace.prepared(KEYS[0], True)
    assert pace.left_s() == pytest.approx(6.0 + planned / 2)
    assert pace.share_done() == pytest.approx(0.25)
    pace.prepared(KEYS[1], True)
    pace.took(KEYS[0], 3.0)
    now[0] = 9.0
    assert pace.left_s() == pytest.approx(4 * 3.0 + 5 * 3.0)
    pace.took(KEYS[1], 1.0)
    assert pace.left_s() == pytest.approx(4 * 3.0 + 4 * 1.0)
    assert pace.share_done() == pytest.approx(0.5 + 0.5 * 2 / 10)
    pace.out(KEYS[1])
    assert pace.left_s() == pytest.approx(12.0)


def test_the_time_left_holds_what_comes_after_a_number_of_rounds(
    seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each variant answers once more (A' does not), then the machine is measured for five seconds."""
    monkeypatch.setattr("optimizers.manager.turns.time.monotonic", lambda: 0.0)
    members = [FakeMember(KEYS[0]), FakeMember(KEYS[1]), FakeMember(KEYS[0], replica=True)]
    table = seat(members, rounds=2, kept=1, after_s=5.0)
    pace = table.pace
    assert pace.left_s() == pytest.approx(table.plan.estimate_s)
    for member in members:
        pace.prepared(member.name, True)
    for seconds, member in zip((3.0, 1.0, 4.0), members, strict=True):
        pace.took(member.name, seconds)
    assert pace.left_s() == pytest.approx(8.0 + 3.0 + 1.0 + 5.0)
    assert pace.ending_s([KEYS[1]]) == pytest.approx(1.0 + 5.0)
    for member in members:
        pace.took(member.name, pace.round_s([member.name]))
    pace.keeps(KEYS[0], 0)
    pace.keeps(members[2].name, 4)  # nothing is kept for it
    assert pace.left_s() == pytest.approx(1.0 + 5.0)
    pace.out(KEYS[1])
    assert pace.left_s() == pytest.approx(5.0)


def test_settled_variants_play_in_the_same_rounds() -> None:
    """In each three rounds they play one, all the same, so that they make pairs, and meet all of three prompts."""
    settling = Settling(KEYS[0])
    timing = Timing(3, 0.0, 0.1, 0.1, 0.0, 1.0, (0.1, 0.6), 2.0)
    for key, step in ((KEYS[0], 0.5), ("a", 0.25), ("b", 1.0), ("c", 0.5)):
        for number in range(6 if key != "c" else 5):
            answered = replace(timing, token_times_s=(0.1, 0.1 + step))
            settling.took(Sample(key, False, number, 0, 0, answered, 1.0, False))
    assert not settling.over
    settling.look([KEYS[0], "a", "b", "c"])
    assert (settling.judged, settling.open, settling.over) == (3, ("c",), False)
    assert [number for number in range(6, 15) if settling.has_turn("a", number)] == [8, 9, 13]
    assert [number for number in range(6, 15) if settling.has_turn("b", number)] == [8, 9, 13]
    assert all(settling.has_turn(key, number) for key in (KEYS[0], "c") for number in range(6, 15))
    assert (settling.share("a"), settling.share("c")) == (1 / 3, 1.0)
    settling.look([KEYS[0], "a", "b"])  # the third has failed
    assert settling.over
