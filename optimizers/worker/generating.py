"""One request: text in, tokens out one by one, every stage clocked.

Drives the model's own generate() with no stop token, so that every variant does equal work; the
natural answer is what comes before the first stop token. How it decodes is in `decoding.py`. Batches are not covered.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.generation.streamers import BaseStreamer

from optimizers.errors import ChoiceError
from optimizers.schema import Output, Timing
from optimizers.worker import clock, compiling, nvml
from optimizers.worker.decoding import Decoding
from optimizers.worker.loading import Loaded
from optimizers.worker.text_ends import text_ends

_STREAM_EVERY_S = 0.25
_TIMED_STREAM_EVERY_S = 1.0  # what is streamed while a request is timed is part of its time
_FIRST_IDS = 4
_FIRST_TOKENS = 3


@dataclass(frozen=True)
class Answer:
    """What one request gave: see `protocol.Answered` for the meaning of `prompt_ids` and `scored_ids`."""

    timing: Timing
    output: Output
    prompt_ids: tuple[int, ...]
    scored_ids: tuple[int, ...]


@dataclass(frozen=True)
class _Marks:
    """Readings of time.perf_counter at the boundaries of a request's stages, and the processor time used between."""

    start: float
    tokenized: float
    generated: float
    end: float
    used: clock.Usage
    joules: float | None


class Streamer(BaseStreamer):  # type: ignore[misc]
    """Notes when each new token arrives on the host; now and then hands the answer so far to `show`."""

    def __init__(
        self, stop_ids: frozenset[int], show: Callable[[list[int], int], None] | None, every_s: float = _STREAM_EVERY_S
    ) -> None:
        self.ids: list[int] = []
        self.times: list[float] = []
        self.steps = 0
        self._stop_ids = stop_ids
        self._show = show
        self._every_s = every_s
        self._prompt_seen = False
        self._natural: int | None = None
        self._shown_at = 0.0

    def put(self, value: torch.Tensor) -> None:
        """generate() hands over the prompt first, then the tokens of each step: one, or several where it guessed ahead,
        which then arrived together."""
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        now = time.perf_counter()
        self.steps += 1
        for token in value.reshape(-1).tolist():
            if self._natural is None and token in self._stop_ids:
                self._natural = len(self.ids)
            self.ids.append(token)
            self.times.append(now)
        if self._show is not None and now - self._shown_at >= self._every_s:
            self._shown_at = now
            self._show(self.natural_ids, len(self.ids))

    def end(self) -> None:
        """Nothing is left over."""

    @property
    def natural_ids(self) -> list[int]:
        """The tokens before the first stop token."""
        return self.ids if self._natural is None else self.ids[: self._natural]

    @property
    def stopped(self) -> bool:
        return self._natural is not None


class Generator:
    """Answers prompts with one loaded model."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.decoding = Decoding(loaded.model, loaded.generation, loaded.longest_tokens, loaded.pad_id)
        self.ready: compiling.Compiled | None = None
        self.meter = nvml.Meter(nvml.card() if loaded.model.device.type == "cuda" else None)
        self.prompt_logits: Literal["", "last", "all"] = ""
        self._prefill_s = 0.0
        self._accepted = set(inspect.signature(loaded.model.forward).parameters)
        self._clock_prefill()

    def answer(
        self,
        request: int,
        prompt: str,
        max_new_tokens: int,
        show: Callable[[str, int], None] | None = None,
        processors: Sequence[LogitsProcessor] = (),
    ) -> Answer:
        """One request of exactly `max_new_tokens` tokens. `show` gets the text so far and the number of tokens.

        Raises ChoiceError when prompt and answer do not fit the model's context."""
        loaded = self.loaded
        before = clock.account()
        self._prefill_s = 0.0
        self.meter.start()
        start = time.perf_counter()
        inputs = self.encode(prompt)
        tokenized = time.perf_counter()
        prompt_ids = tuple(inputs["input_ids"][0].tolist())
        self.check_length(len(prompt_ids), max_new_tokens)
        shown = None if show is None else lambda ids, count: show(self.text(ids), count)
        streamer = Streamer(loaded.stop_ids, shown, _STREAM_EVERY_S if processors else _TIMED_STREAM_EVERY_S)
        self.generate(inputs, max_new_tokens, processors, streamer)
        generated = time.perf_counter()
        text = self.text(streamer.natural_ids)
        end = time.perf_counter()
        joules = self.meter.joules()
        marks = _Marks(start, tokenized, generated, end, clock.usage(before, clock.account()), joules)
        timing = self._timing(len(prompt_ids), streamer, marks)
        natural = tuple(streamer.natural_ids)
        ends = text_ends(natural, text, self.text)
        output = Output(request, text, natural, streamer.stopped, len(streamer.ids), ends)
        return Answer(timing, output, prompt_ids, tuple(streamer.ids[: len(natural) + streamer.stopped]))

    def _timing(self, prompt_tokens: int, streamer: Streamer, marks: _Marks) -> Timing:
        return Timing(
            prompt_tokens=prompt_tokens,
            tokenize_s=marks.tokenized - marks.start,
            prefill_s=self._prefill_s,
            ttft_s=streamer.times[0] - marks.start,
            detokenize_s=marks.end - marks.generated,
            total_s=marks.end - marks.start,
            token_times_s=tuple(at - marks.start for at in streamer.times),
            processor_s=marks.used.processor_s,
            waited_s=marks.used.waited_s,
            others_s=marks.used.others_s,
            threads=self.loaded.threads,
            steps=streamer.steps,
            joules=marks.joules,
        )

    def encode(self, prompt: str) -> dict[str, torch.Tensor]:
        """Token ids and mask, each (1, tokens): through the chat template when there is one, else the prompt itself."""
        tokenizer = self.loaded.tokenizer
        if tokenizer.chat_template:
            messages = [{"role": "user", "content": prompt}]
            encoded = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
            )
        else:
            encoded = tokenizer(prompt, return_tensors="pt")
        ids = encoded["input_ids"].to(torch.long)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if "token_type_ids" in self._accepted and "token_type_ids" in encoded:
            inputs["token_type_ids"] = encoded["token_type_ids"]
        return {name: tensor.to(self.loaded.model.device) for name, tensor in inputs.items()}

    def generate(
        self,
        inputs: dict[str, torch.Tensor],
        max_new_tokens: int,
        processors: Sequence[LogitsProcessor] = (),
        streamer: Streamer | None = None,
    ) -> torch.Tensor:
        """Prompt and answer, (1, tokens + max_new_tokens): the timed path, for requests and for scoring alike. With
        `processors`, which see the scores before anything else does, nothing is guessed ahead."""
        config, given = self.decoding.config(max_new_tokens, forced=bool(processors)), self.decoding.begin()
        result: torch.Tensor = self.loaded.model.generate(
            **inputs,
            **given,
            generation_config=config,
            logits_processor=LogitsProcessorList(processors),
            streamer=streamer,
        )
        return result

    def text(self, ids: Sequence[int]) -> str:
        """The text of an answer, special tokens left out."""
        return str(self.loaded.tokenizer.decode(list(ids), skip_special_tokens=True))

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Token ids of plain text, without special tokens."""
        return tuple(self.loaded.tokenizer(text, add_special_tokens=False)["input_ids"])

    def check_length(self, prompt_tokens: int, max_new_tokens: int) -> None:
        """Raise ChoiceError unless there is a prompt, something is asked for, and both fit the model's context."""
        limit = self.loaded.context_length
        if prompt_tokens == 0:
            raise ChoiceError("The prompt is empty: it gives the model no token.", "Write at least one word.")
        if max_new_tokens < 1:
            raise ChoiceError(f"{max_new_tokens} new tokens were asked for.", "Ask for at least 1.")
        if limit and prompt_tokens + max_new_tokens > limit:
            room = limit - prompt_tokens
            more = f", or ask for at most {room} new tokens" if room > 0 else ""
            raise ChoiceError(
                f"The prompt has {prompt_tokens} tokens and {max_new_tokens} new ones were asked for, "
                f"but this model's context holds {limit}.",
                f"Shorten the prompt{more}.",
            )

    def prepare(self) -> float:
        """Have the decoding step compiled, by a request of three tokens; the seconds that it took, 0 when the stack
        compiles nothing. Later requests, of any length up to the longest, use the same code."""
        if self.loaded.generation.compile_mode is None:
            return 0.0
        start = time.perf_counter()
        ids = torch.zeros(1, _FIRST_IDS, dtype=torch.long, device=self.loaded.model.device)
        with torch.inference_mode():
            self.generate({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, _FIRST_TOKENS)
        self.ready = compiling.counted()
        compiling.let_workers_go()
        return time.perf_counter() - start

    def _clock_prefill(self) -> None:
        """Time generate()'s own forward of the prompt, which is one method of the model (GenerationMixin._prefill), or
        the first forward of a request where it guesses ahead or the library is older and has no such method."""
        if self.loaded.generation.prompt_lookup_tokens is not None:
            self._clock_first_forward()
        if not hasattr(self.loaded.model, "_prefill"):
            self._clock_bare_forward()
            return
        original = self.loaded.model._prefill

        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            outputs = original(*arguments, **named)
            self.await_device()
            self._prefill_s = time.perf_counter() - start
            self.prompt_logits = self._logits_of(outputs)
            return outputs

        self.loaded.model._prefill = timed

    def await_device(self) -> None:
        """A GPU works on after a call returns. Tokens need no such wait: they arrive on the host."""
        if self.loaded.model.device.type == "cuda":
            torch.cuda.synchronize()

    def _clock_first_forward(self) -> None:
        """Hooks, which a compiled step would have to compile anew, and which are therefore not the way elsewhere."""
        began = 0.0

        def before(*_: Any) -> None:
            nonlocal began
            began = time.perf_counter()

        def after(*_: Any) -> None:
            if not self._prefill_s:
                self.await_device()
                self._prefill_s = time.perf_counter() - began

        self.loaded.model.register_forward_pre_hook(before)
        self.loaded.model.register_forward_hook(after)

    def _clock_bare_forward(self) -> None:
        """The same for a model that is no torch module and has no hooks."""
        original = self.loaded.model.forward

        @functools.wraps(original)
        def timed(*arguments: Any, **named: Any) -> Any:
            if self._prefill_s:
                return original(*arguments, **named)
            start = time.perf_counter()
            outputs = original(*arguments, **named)
            self._prefill_s = time.perf_counter() - start
            self.prompt_logits = self._logits_of(outputs)
            return outputs

        self.loaded.model.forward = timed

    def _logits_of(self, outputs: Any) -> Literal["", "last", "all"]:
        """Whether a prompt's pass computed logits of its last position or of all. What comes back tells, but of a graph
        of ours, which may compute more than it gives: it says itself."""
        graph = getattr(self.loaded.model, "graph", None)
        logits = getattr(outputs, "logits", None)
        positions = getattr(graph, "computed", None) or (0 if logits is None else logits.shape[1])
        return "all" if positions > 1 else "last" if positions else ""
