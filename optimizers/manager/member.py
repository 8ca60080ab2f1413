"""One worker in a run: what it is asked, what it answers, and how its end is told.

Covers the conversation with one process: each command has one closing event, within a time. Choosing the commands is
the conductor's business, starting the process the runner's.
"""

from __future__ import annotations

import math
import queue
from pathlib import Path
from typing import Any, TypeVar

from optimizers import engines, protocol
from optimizers.errors import Cancelled, EngineError, WorkerError
from optimizers.manager.board import STOPPED, Board
from optimizers.planning import known
from optimizers.runners import forking
from optimizers.runners.logs import plain
from optimizers.runners.subprocess import Gone, Worker
from optimizers.schema import Checkpoint, Variant, VariantStatus
from optimizers.settings import ANSWER_TIMEOUT_S, EXIT_GRACE_S, LOAD_TIMEOUT_S

START_TIMEOUT_S = 60.0
ANSWER_S_PER_TOKEN = 2.0
KEPT = (
    protocol.Loaded,
    protocol.WarmedUp,
    protocol.Scored,
    protocol.TextScored,
    protocol.CensusTaken,
    protocol.MemoryTaken,
    protocol.Profiled,
    protocol.Failed,
)

E = TypeVar("E")


class Member:
    """A variant in a process of its own; `replica` marks A', the baseline once more."""

    def __init__(self, board: Board, variant: Variant, replica: bool = False) -> None:
        self.board = board
        self.variant = variant
        self.replica = replica
        self.alive = False
        self.threads = variant.threads or board.plan.threads
        self.vocab_size = 0
        self._worker: Worker | None = None
        self._requests = 0

    @property
    def key(self) -> str:
        """The variant's key, also for A'."""
        return self.variant.key

    @property
    def name(self) -> str:
        """The key, made another for A'."""
        return f"{self.key} again" if self.replica else self.key

    @property
    def checkpoint(self) -> Checkpoint:
        """What it loads: the variant's own checkpoint, or the plan's."""
        return self.variant.checkpoint or self.board.plan.checkpoint

    def start(self) -> None:
        """Start the process and wait for its first word; where it runs in an engine's environment, that is installed
        first if it is not here. Raises WorkerError, Cancelled."""
        self.status("loading")
        engine = self._interpreter()
        path = self.board.folder.log_path(self.key, self.replica)
        forked = engine is None and self.board.plan.device == "cpu"
        server = forking.ready(self.threads, self.board.stopped.is_set) if forked else None
        self.board.must_go_on()
        self._worker = Worker(path, self.threads, self._heard, engine, server)
        self.alive = True
        self.board.enlist(self.close)
        ready = self._closing(protocol.Ready, START_TIMEOUT_S, "start")
        if ready.protocol != protocol.PROTOCOL:
            raise WorkerError("Its worker speaks another version of the protocol.", "Install Levers again.")

    def _interpreter(self) -> Path | None:
        """The interpreter of the engine that a technique of this variant names."""
        name = next((technique.engine for technique in known(self.variant.techniques) if technique.engine), None)
        if name is None:
            return None
        stage = self.board.live.snapshot().stage
        try:
            return engines.ready(name, self._installing)
        except EngineError as error:
            raise self._broken(WorkerError(error.reason, error.remedy)) from error
        finally:
            self.board.live.stage(stage)

    def _installing(self, text: str, share: float | None) -> None:
        """News of an installation: the whole run waits for it. Raises Cancelled, which ends it, when the run was
        stopped."""
        self.board.must_go_on()
        self.board.live.stage(text)
        self._doing(text if share is None else f"{text}: {share * 100:.0f} %")

    def load(self, longest_tokens: int) -> protocol.Loaded:
        """Have the variant loaded."""
        plan = self.board.plan
        command = protocol.Load(
            checkpoint=self.checkpoint,
            techniques=self.variant.techniques,
            threads=self.threads,
            seed=plan.choice.workload.seed,
            longest_tokens=longest_tokens,
            instruction_sets=plan.machine.instruction_sets,
            device=plan.device,
        )
        loaded = self._ask(command, protocol.Loaded, LOAD_TIMEOUT_S, "load")
        self.vocab_size = loaded.vocab_size
        self._doing("loaded")
        return loaded

    def warm_up(self, prompt: str, tokens: int) -> None:
        """One untimed request."""
        self._doing("warming up")
        self._ask(protocol.WarmUp(prompt, tokens), protocol.WarmedUp, _answer_s(tokens), "warm up")

    def run(self, prompt: str, tokens: int, record: protocol.Reference | None = None) -> protocol.Answered:
        """One request. Raises WorkerError when the answer is not the one asked for."""
        self._requests += 1
        command = protocol.RunRequest(self._requests, prompt, tokens, record)
        answered = self._ask(command, protocol.Answered, _answer_s(tokens), "answer")
        timing = answered.timing
        times = (timing.total_s, timing.ttft_s, timing.prefill_s, *timing.token_times_s)
        if answered.request != self._requests or len(timing.token_times_s) != tokens:
            raise WorkerError("Its worker answered another request than the one asked.", "Run the comparison again.")
        if not all(math.isfinite(value) and value >= 0 for value in times):
            raise WorkerError("Its worker sent times that are not times.", "Run the comparison again.")
        return answered

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Token ids of plain text."""
        return self._ask(protocol.Tokenize(text), protocol.Tokenized, ANSWER_TIMEOUT_S, "tokenize").token_ids

    def score(self, passages: tuple[protocol.Passage, ...], reference: protocol.Reference, write: bool = False) -> None:
        """Score passages against the reference, or write it."""
        tokens = sum(len(passage.target_ids) for passage in passages)
        self._doing("scoring answers and text")
        terms = self.board.plan.choice.workload.kl_terms
        command = protocol.Score(passages, reference, "write" if write else "read", terms)
        self._ask(command, protocol.Scored, _answer_s(tokens), "score")

    def score_text(self, stretches: tuple[protocol.Stretch, ...]) -> None:
        """Score text by its bytes; a byte is one token at the most."""
        self._doing("scoring text by its bytes")
        most = sum(len(stretch.text.encode()) for stretch in stretches)
        self._ask(protocol.ScoreText(stretches), protocol.TextScored, _answer_s(most), "score")

    def census(self) -> protocol.CensusTaken:
        """What is really loaded, and why it is not what was asked for, if so."""
        self._doing("reading what is loaded")
        return self._ask(protocol.TakeCensus(), protocol.CensusTaken, ANSWER_TIMEOUT_S, "census")

    def memory(self, saved: bool = False) -> None:
        """Memory by phase so far; with `saved` the size of the saved file, too."""
        self._ask(protocol.TakeMemory(saved), protocol.MemoryTaken, ANSWER_TIMEOUT_S, "memory")

    def profile(self, prompt: str, tokens: int) -> None:
        """One request more, clocked part by part."""
        self._doing("seeing where the time goes")
        self._ask(protocol.Profile(prompt, tokens), protocol.Profiled, _answer_s(tokens), "profile")

    def status(self, status: VariantStatus, reason: str | None = None, remedy: str | None = None) -> None:
        """Tell the log and the picture. A' has no lane and no status of its own."""
        if not self.replica:
            tail = self._worker.log.tail() if self._worker and status == "failed" else ()
            self.board.say(self.key, protocol.StatusChanged(status, reason, remedy, tail))
            self.board.live.lane_status(self.key, status, reason, remedy)

    def close(self, grace_s: float = EXIT_GRACE_S) -> None:
        """End the process; it is gone on return."""
        self.alive = False
        if self._worker is not None:
            self._worker.close(grace_s)

    def _doing(self, text: str) -> None:
        if not self.replica:
            self.board.live.lane_stage(self.key, text)

    def _ask(self, command: protocol.Command, kind: type[E], timeout_s: float, what: str) -> E:
        if self._worker is None or not self.alive:
            raise self._broken(WorkerError("Its worker has ended.", "Run the comparison again."))
        self._worker.send(command)
        return self._closing(kind, timeout_s, what)

    def _closing(self, kind: type[E], timeout_s: float, what: str) -> E:
        """The event that closes a command. Raises WorkerError when it fails, ends, or takes too long; Cancelled."""
        assert self._worker is not None
        try:
            event: Any = self._worker.events.get(timeout=timeout_s)
        except queue.Empty:
            raise self._broken(
                WorkerError(
                    f"Its worker did not answer ({what}) within {timeout_s:.0f} seconds.",
                    "Use fewer new tokens or a smaller model, or leave this variant out.",
                )
            ) from None
        if isinstance(event, KEPT):
            self.board.say(self.key, event, self.replica)
        if isinstance(event, kind):
            return event
        if isinstance(event, protocol.Failed):
            raise self._broken(WorkerError(plain(event.reason)[:1000], plain(event.remedy)[:1000]))
        if isinstance(event, Gone):
            raise self._broken(WorkerError(event.reason, event.remedy))
        raise self._broken(WorkerError("Its worker gave an answer out of turn.", "Run the comparison again."))

    def _broken(self, error: WorkerError) -> WorkerError | Cancelled:
        """The error to raise: once the run is stopped, whatever goes wrong is the stop's doing."""
        return Cancelled(STOPPED) if self.board.stopped.is_set() else error

    def _heard(self, event: protocol.WorkerEvent) -> bool:
        """On the reader's thread: news go to the picture, answers are kept for the asker."""
        if isinstance(event, protocol.Stage):
            self._doing(event.text)
            return False
        if isinstance(event, protocol.Tokens):
            if not self.replica and event.request == self._requests:
                self.board.live.text(self.key, event.text)
            return False
        return True


def _answer_s(tokens: int) -> float:
    return ANSWER_TIMEOUT_S + ANSWER_S_PER_TOKEN * tokens
