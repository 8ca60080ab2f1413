"""How well a model foretells a text, by the bytes of that text: what models with different tokens can be compared by.

Each stretch is scored in the tokens that this model's own tokenizer makes of it, given the text before it; the sum of
their log-probabilities (nats, from float32 log-probabilities) belongs to exactly the stretch's bytes, whatever the
tokens. Comparing with another model's sums is `analysis/`'s business; scoring against a baseline's probabilities is in
`scoring.py`.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from optimizers.protocol import ScoreText, Stretch
from optimizers.scores import StretchScore
from optimizers.worker.generating import Generator
from optimizers.worker.scoring import ForcePassage, logprobs_of

_BLOCK_ROWS = 64
# Stands for a log-probability of minus infinity, so that a sum is always a number.
_LOWEST = -1e4


def score_text(command: ScoreText, generator: Generator) -> tuple[StretchScore, ...]:
    """Each stretch's score, in order; one that has no tokens or does not fit the model's context is left out."""
    found = (_scored(stretch, generator) for stretch in command.stretches)
    return tuple(score for score in found if score is not None)


def _scored(stretch: Stretch, generator: Generator) -> StretchScore | None:
    context, targets = in_tokens(stretch, generator)
    limit = generator.loaded.context_length
    if not context or not targets or (limit and len(context) + len(targets) > limit):
        return None
    path = _timed if stretch.path == "timed" else _one_pass
    return StretchScore(
        name=stretch.name,
        path=stretch.path,
        logprob=math.fsum(path(context, targets, generator)),
        bytes=len(stretch.text.encode()),
        tokens=len(targets),
        spelled=_spelled(stretch.text, targets, generator.loaded.tokenizer),
    )


def in_tokens(stretch: Stretch, generator: Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens before a stretch and its own. Before it stand the lead and what the tokenizer puts at the head of a
    text. The stretch is cut out of the tokens of lead and stretch together where the lead's tokens begin them, so that
    its first word is written as it is inside a text; else it is tokenized apart."""
    lead, whole = generator.tokenize(stretch.lead), generator.tokenize(stretch.lead + stretch.text)
    targets = whole[len(lead) :] if whole[: len(lead)] == lead else generator.tokenize(stretch.text)
    return (*_head(stretch.lead, lead, generator.loaded.tokenizer), *lead), targets


def _head(text: str, plain: tuple[int, ...], tokenizer: Any) -> tuple[int, ...]:
    """The special tokens that the tokenizer puts before a text."""
    full = tuple(tokenizer(text)["input_ids"])
    starts = range(len(full) - len(plain) + 1)
    return next((full[:start] for start in starts if full[start : start + len(plain)] == plain), ())


def _spelled(text: str, targets: tuple[int, ...], tokenizer: Any) -> bool:
    """Whether the tokens give the text back, spaces aside."""
    back = str(tokenizer.decode(list(targets), skip_special_tokens=False, clean_up_tokenization_spaces=False))
    return "".join(back.split()) == "".join(text.split())


def _timed(context: tuple[int, ...], targets: tuple[int, ...], generator: Generator) -> list[float]:
    found: list[float] = []

    def take(step: int, logprobs: torch.Tensor) -> None:
        found.append(max(_LOWEST, float(logprobs[0, targets[step]])))

    ids = torch.tensor([context], device=generator.loaded.model.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    generator.generate(inputs, len(targets), (ForcePassage(targets, take),))
    return found


def _one_pass(context: tuple[int, ...], targets: tuple[int, ...], generator: Generator) -> list[float]:
    model = generator.loaded.model
    ids = torch.tensor([context + targets[:-1]], device=model.device)
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits[0, len(context) - 1 :]
    found: list[float] = []
    for start in range(0, len(targets), _BLOCK_ROWS):
        logprobs = logprobs_of(logits[start : start + _BLOCK_ROWS])
        own = torch.tensor(targets[start : start + _BLOCK_ROWS]).unsqueeze(1)
        found += logprobs.gather(1, own).squeeze(1).clamp(min=_LOWEST).tolist()
    return found
