"""The graph that was loaded against PyTorch's own figures, before anything of it is charted.

The reference is PyTorch's fp32 log-probabilities of two short texts, each alone, kept beside the graph when it was
written. An fp32 graph must agree with it on one text, in the prompt's step and in single steps, and on both as a padded
batch. A quantized graph differs by what it is (the run's quality figures say how much); there the padded batch must
agree with the same texts alone, and a traced graph is held to fp32's measure before it is quantized (export.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizers.errors import WorkerError
from optimizers.techniques.graphs.names import REFERENCE

LIMIT = 0.001
# Products of whole numbers round their inputs, so that a difference in the last bit of a sum over masked positions can
# move a value by a step: on SmolLM2-135M in 8 or 4 bits padding changed a traced graph by 0.0008, and single steps
# instead of one pass by 0.004. Padding on the wrong side changes it by 0.03 and more.
QUANTIZED_LIMIT = 0.01
_STEPS = 4
_LONGEST = 300


@dataclass(frozen=True)
class Agreement:
    """Mean KL divergence in nats: of the graph from PyTorch on a single text (`single`), on a padded batch (`batch`),
    and of the padded batch from the same texts alone (`padding`)."""

    single: float
    batch: float
    padding: float


def check(model: Any, folder: Path, quantized: bool) -> Agreement:
    """How far the graph is from PyTorch. Raises WorkerError when that is more than a right graph can be."""
    try:
        found = measure(model, folder)
    except RuntimeError as error:  # what ONNX Runtime raises when a node cannot run
        raise WorkerError(
            f"The ONNX graph does not run: {str(error).splitlines()[0][:_LONGEST]}",
            "Leave ONNX Runtime out for this model.",
        ) from error
    wrong = found.padding if quantized else max(found.single, found.batch)
    limit = QUANTIZED_LIMIT if quantized else LIMIT
    if not wrong < limit:  # also when it is not a number
        against = "the same texts one by one" if quantized else "PyTorch in fp32"
        where = "in a padded batch" if quantized or found.single < LIMIT else "on a single prompt"
        raise WorkerError(
            f"The ONNX graph is not the model: {where} its probabilities are {wrong:.2g} nats (mean KL divergence) "
            f"from {against}, and a right graph stays under {limit}.",
            "It is not measured. Leave ONNX Runtime out for this model.",
        )
    return found


def measure(model: Any, folder: Path) -> Agreement:
    """The figures of `check`, whatever they are."""
    import torch
    from safetensors.numpy import load_file

    kept = {name: torch.from_numpy(value) for name, value in load_file(folder / REFERENCE).items()}
    texts = [kept["ids_0"], kept["ids_1"]]
    truth = [kept["logprobs_0"], kept["logprobs_1"]]
    with torch.inference_mode():
        alone = [_alone(model, ids) for ids in texts]
        together = _padded(model, texts)
    single = [_kl(truth[index], alone[index]) for index in (0, 1)]
    batch = [_kl(truth[index][: len(rows)], rows) for index, rows in enumerate(together)]
    padding = [_kl(alone[index][: len(rows)], rows) for index, rows in enumerate(together)]
    return Agreement(*(float(torch.cat(parts).mean()) for parts in (single, batch, padding)))


def _kl(base: Any, own: Any) -> Any:
    """KL(base || own) of each row of log-probabilities, in nats."""
    return (base.double().exp() * (base.double() - own.double())).sum(-1)


def _alone(model: Any, ids: Any) -> Any:
    """Log-probabilities (tokens, vocabulary): the prompt in one step, the last tokens one by one."""
    import torch

    mask = torch.ones((1, len(ids)), dtype=torch.long)
    return torch.log_softmax(_stepped(model, ids[None], mask)[0].float(), -1)


def _padded(model: Any, texts: list[Any]) -> list[Any]:
    """The same for both texts at once, the shorter one padded on the left."""
    import torch

    longest = max(len(ids) for ids in texts)
    pads = [longest - len(ids) for ids in texts]
    ids = torch.stack([torch.cat([row.new_zeros(pad), row]) for row, pad in zip(texts, pads, strict=True)])
    mask = torch.stack([(torch.arange(longest) >= pad).long() for pad in pads])
    logprobs = torch.log_softmax(_stepped(model, ids, mask).float(), -1)
    return [logprobs[index, pad:] for index, pad in enumerate(pads)]


def _stepped(model: Any, ids: Any, mask: Any) -> Any:
    """Logits (batch, tokens, vocabulary): all but the last tokens in one step, those one by one."""
    import torch

    first = ids.shape[1] - _STEPS
    logits, state = model.step(ids[:, :first], mask[:, :first], None)
    rows = [logits]
    for at in range(first, ids.shape[1]):
        logits, state = model.step(ids[:, at : at + 1], mask[:, : at + 1], state)
        rows.append(logits)
    return torch.cat(rows, 1)
