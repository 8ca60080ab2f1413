"""Where the time of a request goes: one request, clocked part by part, after all timed ones.

The clocks stand around the model's passes, outside of whatever is compiled, so that nothing is compiled anew, and at
the streamer, where each token arrives on the host. They are taken away again: no timed request ever runs with them.
"""

from __future__ import annotations

import functools
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from optimizers.errors import WorkerError
from optimizers.profiles import RequestProfile, TimeParts
from optimizers.worker.generating import Generator, Streamer

Span = tuple[float, float]


@dataclass(frozen=True)
class Marks:
    """Readings of time.perf_counter at the boundaries of a request: its start, text turned into ids, the last token
    made, ids turned into text."""

    start: float
    tokenized: float
    generated: float
    end: float


def profile(generator: Generator, prompt: str, max_new_tokens: int) -> RequestProfile:
    """Answer one prompt as a timed request does, and say where its time went.

    Raises ChoiceError as `Generator.answer` does, WorkerError where passes of the model went by unseen."""
    with _clocked(generator) as passes:
        start = time.perf_counter()
        inputs = generator.encode(prompt)
        tokenized = time.perf_counter()
        prompt_tokens = int(inputs["input_ids"].shape[1])
        generator.check_length(prompt_tokens, max_new_tokens)
        streamer = Streamer(generator.loaded.stop_ids, None)
        generator.generate(inputs, max_new_tokens, (), streamer)
        generated = time.perf_counter()
        generator.text(streamer.natural_ids)
        end = time.perf_counter()
    if len(passes) < streamer.steps:
        raise WorkerError("Not every pass through the model could be clocked.", "Read the other figures instead.")
    parts = split(Marks(start, tokenized, generated, end), passes, streamer.times)
    return RequestProfile(prompt_tokens, len(streamer.ids), len(passes), end - start, parts)


def split(marks: Marks, passes: Sequence[Span], arrivals: Sequence[float]) -> TimeParts:
    """The seconds of each part. `passes` are in order, the prompt's first; `arrivals` are the times at which tokens
    came to the host, those that came together at the same one."""
    lengths = [end - start for start, end in passes]
    prefill, decode = lengths[0], sum(lengths[1:])
    ends = [end for _, end in passes]
    sampling = sum(at - ends[bisect_right(ends, at) - 1] for at in dict.fromkeys(arrivals))
    rest = marks.generated - marks.tokenized - prefill - decode - sampling
    return TimeParts(
        tokenize=marks.tokenized - marks.start,
        prefill=prefill,
        decode=decode,
        sampling=sampling,
        python=max(0.0, rest),  # rounding can end a hair below
        detokenize=marks.end - marks.generated,
    )


@contextmanager
def _clocked(generator: Generator) -> Iterator[list[Span]]:
    """The passes of what runs inside, as they come."""
    model, options = generator.loaded.model, generator.loaded.generation
    spans: list[Span] = []

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)  # generate() reads the signature of forward
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            outputs = call(*arguments, **named)
            generator.await_device()
            spans.append((start, time.perf_counter()))
            return outputs

        return timed

    if options.compile_mode is None or options.prompt_lookup_tokens is not None:
        with _in_place_of(model, "forward", around):
            yield spans
        return
    # A compiled step would be compiled anew for another forward: here the clock stands around what was compiled.
    with (
        _in_place_of(model, "_prefill", around),
        _in_place_of(model, "get_compiled_call", lambda get: lambda *asked: around(get(*asked))),
    ):
        yield spans


@contextmanager
def _in_place_of(model: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Put `wrap` of a method in the method's place on this one model, and take it away at the end."""
    own = vars(model).get(name)
    setattr(model, name, wrap(getattr(model, name)))
    try:
        yield
    finally:
        if own is None:
            delattr(model, name)
        else:
            setattr(model, name, own)
