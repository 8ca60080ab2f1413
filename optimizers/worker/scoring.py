"""How far a variant's next-token probabilities are from the baseline's, position by position.

Two paths: "timed" steps through generate() with the timed request's own cache, graph and step, forcing each token of
the passage; "one_pass" is a single forward. The baseline writes its log-probabilities to a file of float32 rows; the
others read them in blocks. KL(base || variant) = sum over the vocabulary of exp(lb) (lb - lv), in nats, in float64,
from float32 log-probabilities, over all of it or by llama.cpp's rule (`kl_divergence`); same-top is whether both rank
the same token first (as in llama.cpp's perplexity tool).
Statistics over positions are `analysis/`'s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import LogitsProcessor

from optimizers.errors import WorkerError
from optimizers.protocol import Passage, Reference, Score
from optimizers.scores import Candidate, Disagreement, KlTerms, PassageScores
from optimizers.worker.generating import Generator
from optimizers.worker.text_ends import token_text

_BLOCK_BYTES = 1 << 24
_CANDIDATES = 5
_ITEM_BYTES = 4
# Stands for a log-probability of minus infinity in the variant, so that a KL is always a number.
_LOWEST = -1e4
# Log-probability under the baseline at and under which llama.cpp's perplexity tool drops a term of the sum.
_LLAMA_CPP_FLOOR = -16.0


class Rows:
    """The reference file: row r holds `vocab_size` float32 log-probabilities. Opened for one command."""

    def __init__(self, reference: Reference, *, write: bool) -> None:
        self.reference = reference
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        try:
            self._descriptor = os.open(reference.path, flags | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WorkerError(
                f"The baseline's probabilities could not be opened ({error.strerror}).", "Start the comparison again."
            ) from error
        self._row_bytes = reference.vocab_size * _ITEM_BYTES
        self._block_rows = max(1, _BLOCK_BYTES // self._row_bytes)
        self._block = torch.empty(0, reference.vocab_size)
        self._block_start = 0

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    @property
    def block_rows(self) -> int:
        """How many rows are held at once."""
        return self._block_rows

    def available(self, row: int, count: int) -> int:
        """How many of `count` rows from `row` on lie below the limit."""
        return max(0, min(count, self.reference.rows_limit - row))

    def write(self, row: int, logprobs: torch.Tensor) -> None:
        """Write (n, vocab_size) rows from `row` on, those below the limit. Raises WorkerError on another width."""
        self.check_width(logprobs)
        count = self.available(row, len(logprobs))
        data = memoryview(logprobs[:count].to(torch.float32).contiguous().numpy()).cast("B") if count else b""
        at = row * self._row_bytes
        while data:
            written = os.pwrite(self._descriptor, data, at)
            at += written
            data = data[written:]

    def read(self, row: int, count: int) -> torch.Tensor:
        """Rows `row` to `row + count` as (count, vocab_size). Raises WorkerError when they were never written."""
        data = bytearray(count * self._row_bytes)
        view, done = memoryview(data), 0
        while done < len(data):
            got = os.preadv(self._descriptor, [view[done:]], row * self._row_bytes + done)
            if got == 0:
                raise WorkerError("The baseline's probabilities end too early.", "Start the comparison again.")
            done += got
        return torch.frombuffer(data, dtype=torch.float32).view(count, self.reference.vocab_size)

    def row(self, row: int, last: int) -> torch.Tensor:
        """One row, (1, vocab_size), read ahead in blocks that do not go past row `last`."""
        offset = row - self._block_start
        if not 0 <= offset < len(self._block):
            self._block = self.read(row, min(self._block_rows, last - row))
            self._block_start, offset = row, 0
        return self._block[offset : offset + 1]

    def check_width(self, logprobs: torch.Tensor) -> None:
        """Raise WorkerError unless the variant's vocabulary is the baseline's."""
        if logprobs.shape[-1] != self.reference.vocab_size:
            raise WorkerError(
                f"This variant has {logprobs.shape[-1]} possible tokens and the baseline "
                f"{self.reference.vocab_size}: their probabilities cannot be compared.",
                "Compare variants of one checkpoint.",
            )


@dataclass
class Tally:
    """The comparison of one passage, growing position by position."""

    passage: Passage
    describe: Callable[[int, torch.Tensor], tuple[Candidate, ...]]
    kl_terms: KlTerms = "all"
    kl: list[float] = field(default_factory=list)
    same_top: list[bool] = field(default_factory=list)
    baseline: list[float] = field(default_factory=list)
    variant: list[float] = field(default_factory=list)
    disagreement: Disagreement | None = None

    def add(self, base: torch.Tensor, own: torch.Tensor) -> None:
        """Compare (n, vocabulary) log-probabilities of the next n positions."""
        start = len(self.kl)
        own = own.clamp(min=_LOWEST)
        same = (base.argmax(-1) == own.argmax(-1)).tolist()
        if self.disagreement is None and not all(same):
            at, place = same.index(False), start + same.index(False)
            both = self.describe(place, base[at]), self.describe(place, own[at])
            self.disagreement = Disagreement(place, *both)
        targets = torch.tensor(self.passage.target_ids[start : start + len(base)]).unsqueeze(1)
        self.same_top += same
        self.variant += own.gather(1, targets).squeeze(1).tolist()
        self.baseline += base.gather(1, targets).squeeze(1).clamp(min=_LOWEST).tolist()
        self.kl += kl_divergence(base, own, self.kl_terms).tolist()

    def add_identical(self, own: torch.Tensor) -> None:
        """Account for (n, vocabulary) log-probabilities that are their own reference."""
        start = len(self.kl)
        targets = torch.tensor(self.passage.target_ids[start : start + len(own)]).unsqueeze(1)
        logprobs = own.gather(1, targets).squeeze(1).clamp(min=_LOWEST).tolist()
        self.kl += [0.0] * len(own)
        self.same_top += [True] * len(own)
        self.baseline += logprobs
        self.variant += logprobs

    def scores(self) -> PassageScores:
        """The record that travels."""
        return PassageScores(
            name=self.passage.name,
            path=self.passage.path,
            kl_divergence=tuple(self.kl),
            same_top=tuple(self.same_top),
            baseline_logprob=tuple(self.baseline),
            variant_logprob=tuple(self.variant),
            left_out=len(self.passage.target_ids) - len(self.kl),
            disagreement=self.disagreement,
        )


def kl_divergence(base: torch.Tensor, own: torch.Tensor, terms: KlTerms = "all") -> torch.Tensor:
    """KL(base || own) of each row, (n,) float64 in nats, from (n, vocabulary) float32 log-probabilities. `own` must be
    finite; where `base` is minus infinity the term is 0, its limit. Floored at 0: rounding can end a hair below.

    With `terms` "llama_cpp" only tokens with a `base` above -16 are summed over, as llama.cpp's perplexity tool does
    (tools/perplexity, log_softmax: p_log_base > -16). What is left is no divergence: it may lie under 0, and stays."""
    wide = base.clamp(min=_LOWEST).double()  # exp of the lowest is exactly 0
    difference = wide - own.double()
    weights = wide.exp_()
    if terms == "llama_cpp":
        return torch.linalg.vecdot(weights.masked_fill_(base <= _LLAMA_CPP_FLOOR, 0.0), difference)
    return torch.linalg.vecdot(weights, difference).clamp(min=0.0)


class RecordRows(LogitsProcessor):  # type: ignore[misc]
    """Writes the log-probabilities of each step of a request, up to and with its first stop token; changes nothing."""

    def __init__(self, rows: Rows, first_row: int, stop_ids: frozenset[int]) -> None:
        self._rows = rows
        self._row = first_row
        self._stop_ids = stop_ids
        self._step = 0
        self._done = False

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        if self._step and int(input_ids[0, -1]) in self._stop_ids:
            self._done = True
        if not self._done:
            self._rows.write(self._row + self._step, logprobs_of(scores))
        self._step += 1
        return scores


class ForcePassage(LogitsProcessor):  # type: ignore[misc]
    """Hands the log-probabilities of each step to `take`, then leaves generate() only the passage's own token."""

    def __init__(self, target_ids: Sequence[int], take: Callable[[int, torch.Tensor], None]) -> None:
        self._targets = target_ids
        self._take = take
        self._step = 0

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        self._take(self._step, logprobs_of(scores))
        forced = torch.full_like(scores, float("-inf"))
        forced[:, self._targets[self._step]] = 0.0
        self._step += 1
        return forced


def logprobs_of(scores: torch.Tensor) -> torch.Tensor:
    """Float32 log-probabilities, (n, vocabulary), on the host. Raises WorkerError when the scores are not numbers."""
    logprobs = torch.log_softmax(scores.detach().to("cpu", torch.float32), dim=-1)
    if bool(logprobs.amax(-1).isnan().any()):  # a maximum passes NaN on, and is one cheap pass
        raise WorkerError(
            "The model's scores are not numbers (NaN): its weights are damaged, or this number format overflows.",
            "Use bf16 or fp32; where that is what ran, fetch the checkpoint again.",
        )
    return logprobs


def score(command: Score, generator: Generator) -> tuple[PassageScores, ...]:
    """Score every passage of `command`, in its order. One-pass passages are done first: in write mode "text_timed" is
    compared with the rows of "text:0". Raises WorkerError when reference and variant do not fit."""
    done: dict[int, PassageScores] = {}
    order = sorted(range(len(command.passages)), key=lambda index: command.passages[index].path != "one_pass")
    first_text = next((passage.row for passage in command.passages if passage.name == "text:0"), None)
    with Rows(command.reference, write=command.mode == "write") as rows:
        for index in order:
            passage = command.passages[index]
            against = first_text if passage.name == "text_timed" else None
            done[index] = _Scoring(rows, generator, passage, command, against).run()
    return tuple(done[index] for index in sorted(done))


class _Scoring:
    """One passage through one of the two paths."""

    def __init__(self, rows: Rows, generator: Generator, passage: Passage, command: Score, against: int | None) -> None:
        self._rows = rows
        self._generator = generator
        self._passage = passage
        self._write = command.mode == "write"
        self._compare_row = against if self._write else passage.row
        first = passage.row if self._compare_row is None else self._compare_row
        self._count = rows.available(first, len(passage.target_ids))
        self._last = first + self._count
        self._tally = Tally(passage, self._candidates, command.kl_terms)

    def run(self) -> PassageScores:
        if not self._passage.context_ids:
            raise WorkerError(f'The passage "{self._passage.name}" has no context.', "Start the comparison again.")
        self._generator.check_length(len(self._passage.context_ids), len(self._passage.target_ids))
        if self._count:
            (self._timed if self._passage.path == "timed" else self._one_pass)()
        return self._tally.scores()

    def _take(self, position: int, logprobs: torch.Tensor) -> None:
        """Account for (n, vocabulary) log-probabilities of the positions from `position` on."""
        self._rows.check_width(logprobs)
        if self._write:
            self._rows.write(self._passage.row + position, logprobs)
        if self._compare_row is None:
            self._tally.add_identical(logprobs)
        elif len(logprobs) == 1:
            self._tally.add(self._rows.row(self._compare_row + position, self._last), logprobs)
        else:
            self._tally.add(self._rows.read(self._compare_row + position, len(logprobs)), logprobs)

    def _candidates(self, position: int, logprobs: torch.Tensor) -> tuple[Candidate, ...]:
        before = (*self._passage.context_ids, *self._passage.target_ids[:position])[-1]
        return candidates(logprobs, before, self._generator.loaded.tokenizer)

    def _timed(self) -> None:
        ids = self._tensor(self._passage.context_ids)
        targets = self._passage.target_ids[: self._count]
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        self._generator.generate(inputs, len(targets), (ForcePassage(targets, self._take),))

    def _one_pass(self) -> None:
        passage = self._passage
        ids = self._tensor(passage.context_ids + passage.target_ids[: self._count - 1])
        logits = self._generator.loaded.model(
            input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
        ).logits[0]
        first = len(passage.context_ids) - 1
        for start in range(0, self._count, self._rows.block_rows):
            stop = min(start + self._rows.block_rows, self._count)
            self._take(start, logprobs_of(logits[first + start : first + stop]))

    def _tensor(self, ids: Sequence[int]) -> torch.Tensor:
        return torch.tensor([list(ids)], device=self._generator.loaded.model.device)


def candidates(logprobs: torch.Tensor, before: int, tokenizer: Any) -> tuple[Candidate, ...]:
    """The likeliest tokens after the token `before`, (vocabulary,), with their probabilities, the one that generate()
    takes first: of equal ones, that with the lowest id."""
    values, ids = torch.sort(logprobs, descending=True, stable=True)

    def decode(tokens: Sequence[int]) -> str:
        return str(tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))

    pairs = zip(ids[:_CANDIDATES].tolist(), values[:_CANDIDATES].exp().tolist(), strict=True)
    return tuple(Candidate(token_text(token, before, decode), probability) for token, probability in pairs)
