"""Votes while real workers are measured, and after: in the picture, in the log, in the finished run."""

from __future__ import annotations

from pathlib import Path

import manager_help as help_
from voting_records import ANN, BEN

from optimizers.analysis.votes import pairs
from optimizers.manager import Manager
from optimizers.results import LiveRun
from optimizers.store import Store
from optimizers.votes import Vote


def has_a_pair(live: LiveRun) -> bool:
    return live.run is not None and bool(pairs(live.run).different)


def test_a_vote_while_a_run_is_measured_is_there_at_its_end(manager: Manager, store: Store, tiny_llama: Path) -> None:
    run_id = manager.start(help_.plan_for(tiny_llama, "sampling", rounds=60))
    live = help_.until(manager, run_id, has_a_pair)
    assert live.run
    (key, prompt), *_ = pairs(live.run).different
    first, other = Vote(key, prompt, "worse", ANN), Vote(key, prompt, "same", BEN)
    manager.vote(run_id, first)
    seen = manager.snapshot(run_id)
    assert seen.run and seen.run.votes == (first,)
    manager.stop(run_id)
    over = manager.wait(run_id, help_.PATIENCE_S)
    assert over.run and over.run.votes == (first,)
    manager.vote(run_id, other)
    after = manager.snapshot(run_id)
    assert after.run and after.run.votes == store.load(run_id).votes == (first, other)
    kinds = [event["event"]["kind"] for event in help_.events(store.folder(run_id))]
    assert (kinds.count("voted"), kinds[-2:]) == (2, ["ended", "voted"])
