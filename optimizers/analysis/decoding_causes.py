"""Why a promise of compiling, caching or another way of decoding did not come true: sentences from evidence in the run.

Each rule reads the census, the requests and the checkpoint's shape, and says nothing where they hold no evidence. The
rules for number formats and memory are in `promises.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from optimizers.results import VariantResult
from optimizers.schema import Plan

SHORT_TOKENS = 256
LARGE_HEAD = 0.15
FEW_GUESSES = 1.2

Cause = Callable[[VariantResult, Plan], "str | None"]


def _compiled(result: VariantResult) -> bool:
    return result.census is not None and result.census.compile is not None and result.census.compile.graphs > 0


def recompiled(result: VariantResult, plan: Plan) -> str | None:
    """Graphs compiled while requests ran."""
    found = result.census.compile if result.census else None
    late = max(found.late_graphs, found.recompiles) if found else 0
    return f"The step was compiled anew {late} times while requests ran, because shapes changed." if late else None


def graph_breaks(result: VariantResult, plan: Plan) -> str | None:
    """Places where the compiler went back to Python."""
    found = result.census.compile if result.census else None
    if not found or not found.graph_breaks:
        return None
    return f"The compiler went back to plain Python at {found.graph_breaks} places of the step."


def reading_weights(result: VariantResult, plan: Plan) -> str | None:
    """What compiling leaves as it was: with one request at a time a step is mostly the reading of weights."""
    one = plan.choice.workload.batch_size == 1
    if not _compiled(result) or plan.machine.gpus or not one or result.memory is None:
        return None
    megabytes = f"{result.memory.weights_bytes / 1e6:.0f} MB"
    return (
        f"With one request at a time each token reads most of the {megabytes} of weights; "
        "compiling saves the work around that, not the reading."
    )


def output_head(result: VariantResult, plan: Plan) -> str | None:
    """A head that is a large part of a step and that a quantizer left as it was."""
    checkpoint, census = plan.checkpoint, result.census
    left = [skip for skip in census.modules_skipped if skip.why.startswith("output head")] if census else []
    share = checkpoint.vocab_size * checkpoint.hidden_size / checkpoint.parameters if checkpoint.parameters else 0
    if not left or not census or not census.modules_converted or share < LARGE_HEAD:
        return None
    return f"The output head, {share:.0%} of the parameters and part of every step, stays as it was."


def short_texts(result: VariantResult, plan: Plan) -> str | None:
    """Texts so short that reading them again costs little."""
    if not result.census or result.census.cache != "none" or not result.points:
        return None
    length = result.points[0].prompt_tokens + plan.choice.workload.max_new_tokens
    if length >= SHORT_TOKENS:
        return None
    return f"The texts are short ({length} tokens at most, typically): reading them again for each token costs little."


def few_guesses(result: VariantResult, plan: Plan) -> str | None:
    """Guesses that were seldom right."""
    if not result.census or result.census.decoding != "prompt_lookup" or result.latency is None:
        return None
    each = result.latency.tokens_per_step
    if each is None or each >= FEW_GUESSES:
        return None
    return f"A step gave {each:.2f} tokens on average: these answers seldom repeat the words before them."


def cheap_choice(result: VariantResult, plan: Plan) -> str | None:
    """Drawing a token, next to computing the scores that it is drawn from."""
    if not result.census or result.census.decoding != "sampling":
        return None
    return "Choosing a token is little work next to computing the scores that it is chosen by."


SPEED: tuple[Cause, ...] = (
    recompiled,
    graph_breaks,
    few_guesses,
    short_texts,
    cheap_choice,
    output_head,
    reading_weights,
)
