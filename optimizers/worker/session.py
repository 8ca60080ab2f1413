"""What a worker does with each command. One variant is loaded once; every failure is an event, not an end.

Covers commands in, closing events out. Imports the heavy libraries when the first Load comes, not before.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from optimizers.errors import WorkerError
from optimizers.limits import Demand
from optimizers.protocol import (
    Answered,
    Command,
    Failed,
    Load,
    MemoryTaken,
    Profile,
    Profiled,
    RunRequest,
    Save,
    Saved,
    Score,
    Scored,
    ScoreText,
    Stage,
    TakeCensus,
    TakeMemory,
    TextScored,
    Tokenize,
    Tokenized,
    Tokens,
    WarmedUp,
    WarmUp,
    WorkerEvent,
)
from optimizers.protocol import Loaded as LoadedEvent
from optimizers.schema import Cost, from_json
from optimizers.techniques.base import Technique
from optimizers.worker.failures import failed
from optimizers.worker.memory import MemoryRecord

if TYPE_CHECKING:
    from optimizers.worker.generating import Generator

_logger = logging.getLogger(__name__)

Send = Callable[[WorkerEvent], None]


def read_command(text: bytes, send: Send) -> Any:
    """The command in one line; None, after a Failed event, when the line is none."""
    try:
        return from_json(Command, text)
    except ValidationError:
        send(Failed("unknown", "The worker got a command that it does not know.", "Use one version of Levers."))
        return None


class Session:
    """One variant: loaded, then asked."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._generator: Generator | None = None
        self._techniques: tuple[Technique, ...] = ()
        self._memory = MemoryRecord()
        self._saved_bytes: int | None = None

    def answer(self, command: Any) -> WorkerEvent:
        """The event that closes `command`; Failed when it raised anything."""
        handlers: dict[str, Callable[[Any], WorkerEvent]] = {
            "warm_up": self._warm_up,
            "run": self._run,
            "tokenize": self._tokenize,
            "score": self._score,
            "score_text": self._score_text,
            "census": self._census,
            "memory": self._take_memory,
            "profile": self._profile,
        }
        try:
            if command.kind == "load":
                return self._load(command)
            if command.kind == "save":  # some libraries take tensors apart to save them, which this mode forbids
                return self._save(command)
            return self._in_inference_mode(handlers[command.kind], command)
        except Exception as error:
            return failed(command.kind, error, self._techniques)

    def _ready(self) -> Generator:
        if self._generator is None:
            raise WorkerError("No model is loaded in this worker.", "Load one first.")
        return self._generator

    def _in_inference_mode(self, handler: Callable[[Any], WorkerEvent], command: Any) -> WorkerEvent:
        self._ready()
        import torch

        with torch.inference_mode():
            return handler(command)

    def _load(self, command: Load) -> WorkerEvent:
        if self._generator is not None:
            raise WorkerError("This worker has loaded its variant already.", "Start another worker.")
        self._send(Stage("starting PyTorch"))
        from optimizers.worker import generating, loading

        request = loading.prepare(command)
        self._techniques = request.techniques
        self._memory.start_loading(command.device)
        loaded = loading.load(request, lambda text: self._send(Stage(text)))
        self._generator = generating.Generator(loaded)
        gc.collect()
        self._memory.loaded()
        if loaded.generation.compile_mode is not None:
            self._send(Stage("compiling the decoding step"))
        prepare_s = loaded.prepare_s + self._generator.prepare()
        return LoadedEvent(Cost(loaded.load_s, prepare_s, 0.0), loading.vocabulary(loaded), loaded.notes)

    def _warm_up(self, command: WarmUp) -> WorkerEvent:
        start = time.perf_counter()
        self._memory.start_request()
        self._ready().answer(0, command.prompt, command.max_new_tokens)
        self._memory.end_request()
        return WarmedUp(time.perf_counter() - start)

    def _run(self, command: RunRequest) -> WorkerEvent:
        from optimizers.worker.scoring import RecordRows, Rows

        generator = self._ready()

        def show(text: str, count: int) -> None:
            self._send(Tokens(command.request, text, count))

        if command.record is not None:
            with Rows(command.record, write=True) as rows:
                recorder = RecordRows(rows, command.record.row, generator.loaded.stop_ids)
                answer = generator.answer(command.request, command.prompt, command.max_new_tokens, show, (recorder,))
        else:
            self._memory.start_request()
            answer = generator.answer(command.request, command.prompt, command.max_new_tokens, show)
            self._memory.end_request()
        return Answered(command.request, answer.timing, answer.output, answer.prompt_ids, answer.scored_ids)

    def _tokenize(self, command: Tokenize) -> WorkerEvent:
        return Tokenized(self._ready().tokenize(command.text))

    def _score(self, command: Score) -> WorkerEvent:
        from optimizers.worker.scoring import score

        return Scored(score(command, self._ready()))

    def _score_text(self, command: ScoreText) -> WorkerEvent:
        from optimizers.worker.text_scoring import score_text

        return TextScored(score_text(command, self._ready()))

    def _census(self, command: TakeCensus) -> WorkerEvent:
        from optimizers.worker import census

        taken = census.take(self._ready())
        return replace(taken, census=replace(taken.census, demand=self._demand()))

    def _demand(self) -> Demand | None:
        """What a pass over one token reads; None where it cannot be counted, which is no reason to leave it out."""
        from optimizers.worker import demand

        try:
            return demand.count(self._ready())
        except Exception:
            _logger.exception("what a pass over one token reads could not be counted")
            return None

    def _take_memory(self, command: TakeMemory) -> WorkerEvent:
        from optimizers.worker.census import weights_bytes
        from optimizers.worker.saving import saved_bytes

        loaded = self._ready().loaded
        on_disk = int(getattr(loaded.model, "disk_bytes", loaded.checkpoint.disk_bytes))
        if command.saved:
            self._saved_bytes = saved_bytes(loaded.model)
        memory = self._memory.memory(weights_bytes(loaded), on_disk)
        return MemoryTaken(replace(memory, saved_bytes=self._saved_bytes))

    def _profile(self, command: Profile) -> WorkerEvent:
        from optimizers.worker.profiling import profile

        return Profiled(profile(self._ready(), command.prompt, command.max_new_tokens))

    def _save(self, command: Save) -> WorkerEvent:
        from optimizers.worker.saving import save

        folder = Path(command.folder)
        return Saved(str(folder), save(self._ready().loaded, folder))
