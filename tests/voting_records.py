"""A finished run on disk whose answers are given, for the tests of votes: two variants and the baseline, no worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import planning_records as make

from optimizers import planning, protocol
from optimizers.analysis import compare
from optimizers.schema import Output, Plan, Sample, Timing
from optimizers.store import RunFolder, Store
from optimizers.votes import Preference, Vote

BASE, HALF, SMALL = "fp32+sdpa", "bf16+sdpa", "fp16+sdpa"
ANN, BEN, CAT = ("a" * 16, "b" * 16, "c" * 16)
ANSWERS = {
    BASE: ("The sky is blue.", "A lock.", "Names to numbers."),
    HALF: ("The sky is red.", "A lock.", "Numbers to names."),
    SMALL: ("Sky. Sky. Sky.", "Lock lock.", "Names to numbers."),
}


def plan(prompts: Sequence[str] = ("Why is the sky blue?", "What is a mutex?", "What is DNS?")) -> Plan:
    """The baseline, bf16 and fp16."""
    choice = make.choice("bf16", "fp16", prompts=tuple(prompts))
    return planning.plan(choice, make.machine(), make.checkpoint(), 10_000_000_000)


def answered(answers: Mapping[str, Sequence[str]]) -> list[tuple[str, protocol.LogEvent]]:
    """The events of variants that gave these answers, one to each prompt."""
    said: list[tuple[str, protocol.LogEvent]] = []
    for key, texts in answers.items():
        said.append((key, protocol.CensusTaken(make.census())))
        for prompt, text in enumerate(texts):
            timing = Timing(4, 0.001, 0.01, 0.02, 0.001, 0.1, (0.02, 0.06, 0.1), 0.2, 0.0, 0.0, 2)
            sample = Sample(key, False, prompt, prompt, 0, timing, 1.0, False)
            said.append((key, protocol.SampleTaken(sample, Output(prompt, text, (1, 2), False, 3))))
    return said


def going_on(store: Store, answers: Mapping[str, Sequence[str]] = ANSWERS) -> RunFolder:
    """A run that is being written and has these answers."""
    folder = store.create(plan())
    for key, event in answered(answers):
        folder.append(key, event)
    return folder


def kept(store: Store, answers: Mapping[str, Sequence[str]] = ANSWERS) -> str:
    """The id of a run that is over."""
    folder = going_on(store, answers)
    folder.append(None, protocol.Ended("done"))
    folder.close()
    folder.write_run(compare(store.record(folder.id)))
    return folder.id


def vote(variant: str = HALF, prompt: int = 0, preference: Preference = "better", voter: str = ANN) -> Vote:
    return Vote(variant, prompt, preference, voter)


def log(store: Store, run_id: str) -> Path:
    return store.folder(run_id) / "events.jsonl"
