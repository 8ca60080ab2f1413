"""Every warning that a reader needs, in one place, each with its remedy.

Covers what the run itself shows; what a worker said is passed on as id "note". Sentences about the plan and the run as
a whole are in `Run.notes`; those about variants that are other models come from `other_models.py`. Ids are stable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from optimizers.analysis import effort, other_models, quality
from optimizers.analysis.quality_words import numeric_floor
from optimizers.analysis.requests import counted, decode_tokens_per_s, possible
from optimizers.analysis.verdicts import LEAST_FLOOR, LEAST_PAIRS, farthest
from optimizers.results import Caveat, NoiseFloor, VariantResult
from optimizers.schema import Measurement, Record

NOISY = 0.1
NO_REMEDY = "Nothing needs doing; read the figures with it in mind."
# What the checkpoint's facts say already, by words that a worker's note about the same thing holds.
_TOLD_BY_FACTS = {"raw_prompt": "chat template", "no_pad_token": "padding token"}


def caveats(record: Record, variants: Sequence[VariantResult], floor: NoiseFloor) -> tuple[Caveat, ...]:
    """The caveats of a run, those of the whole run first. `variants` and `floor` are computed from `record`."""
    measured = [item for item in record.measurements if item.status == "measured"]
    base = next((item for item in measured if item.variant == record.plan.baseline), None)
    found: list[Caveat] = [
        *_ending(record),
        *_checkpoint(record, measured),
        *_reference(record),
        *_rounds(record, base),
        *effort.caveats(record, measured),
        *_replica(record, base),
        *_noisy(record, base),
        *_disturbed(record, measured),
        *_cut(measured),
        *_sequential(record),
        *_kl_terms(record),
        *_loose_numerics(floor),
        *_prompt_logits(record, measured),
        *_shared_gpu(measured),
        *_energy(measured),
    ]
    own_text = record.plan.choice.workload.text
    noise = quality.logit_noise(base) if base else None
    for item in measured:
        found += _paths(item, noise, own_text.called if own_text else "the text")
        found += _left_out(item)
        found += _decoded(item)
        found += _compiled(item)
    for result in variants:
        found += _ties(result)
        found += _over_limit(result)
    found += other_models.caveats(variants, measured, record.plan.baseline, own_text)
    found += _notes(record, {caveat.id for caveat in found})
    return tuple(dict.fromkeys(found))


def _ending(record: Record) -> Iterator[Caveat]:
    if record.status in ("cancelled", "interrupted", "failed"):
        word = {"cancelled": "stopped", "interrupted": "cut short", "failed": "ended by a failure"}[record.status]
        yield Caveat("unfinished", f"The run was {word}; what was measured until then is shown.", "Run it again.")
    done = {item.variant for item in record.measurements if item.status == "measured"}
    if record.status != "running" and record.plan.baseline not in done:
        text = f"The baseline {record.plan.baseline} was not measured, so nothing can be compared with it."
        yield Caveat("no_baseline", text, "See its row for the reason, or pick another baseline.")


def _checkpoint(record: Record, measured: Sequence[Measurement]) -> Iterator[Caveat]:
    checkpoint = record.plan.checkpoint
    another = {variant.key: variant.checkpoint for variant in record.plan.variants if variant.checkpoint}
    for key, other in another.items():
        if other.low_bit_grid and other.low_bit_grid != checkpoint.low_bit_grid:  # said once for the whole run
            yield Caveat("low_bit_grid", other.low_bit_grid, "Judge 4-bit quality on its original checkpoint.", key)
    if checkpoint.low_bit_grid:
        four_bit = {variant.key for variant in record.plan.variants if variant.four_bit and not variant.checkpoint}
        four = [item.variant for item in measured if item.variant in four_bit]
        lead = f"Do not judge 4-bit quality by {', '.join(four)} here. " if four else ""
        yield Caveat(
            "low_bit_grid",
            lead + checkpoint.low_bit_grid,
            "Use the model's original checkpoint to judge 4-bit quality.",
        )
    if not checkpoint.has_chat_template:
        text = "The checkpoint has no chat template: the prompts went in as raw text, which it continues."
        yield Caveat(
            "raw_prompt", text, "Use an instruction-tuned checkpoint, or word prompts as text to be continued."
        )
    if not checkpoint.has_pad_token:
        text = (
            "The tokenizer has no pad token: the end-of-sequence token, if there is one, stands in, with an explicit "
            "attention mask."
        )
        yield Caveat("no_pad_token", text, NO_REMEDY)


def _rounds(record: Record, base: Measurement | None) -> Iterator[Caveat]:
    if base is None or record.status == "running":
        return
    count = len(counted(base.samples))
    if count < LEAST_PAIRS:
        text = f"A verdict on speed needs {LEAST_PAIRS} rounds; of the baseline's, {count} count."
        yield Caveat("few_rounds", text, "Ask for more rounds or a longer time budget.")
    if len(record.plan.choice.workload.prompts) == 1:
        text = "There is one prompt: how much quality varies from prompt to prompt cannot be said."
        yield Caveat("one_prompt", text, "Give three or more prompts like those you mean to use.")


def _replica(record: Record, base: Measurement | None) -> Iterator[Caveat]:
    if base is None or record.status == "running":
        return
    count = len(counted(record.replica_samples))
    if count == 0:
        text = f"The baseline's second process did not run, so the noise floor is taken as {LEAST_FLOOR:.0%}."
        yield Caveat("no_replica", text, "Run again with more free memory, so that the second process fits.")
    elif count < 2:
        text = f"The baseline's second process answered too little to measure the noise: {LEAST_FLOOR:.0%} is used."
        yield Caveat("noise_unknown", text, "Ask for more rounds or a longer time budget.")


def _noisy(record: Record, base: Measurement | None) -> Iterator[Caveat]:
    rounds = counted(record.replica_samples), counted(base.samples if base else ())
    far = farthest(*rounds, decode_tokens_per_s)
    if far is not None and far > NOISY:
        how_much = f"{far:.0%}" if far < 1 else "100% or more"
        text = (
            f"By these rounds the baseline's two processes may differ by {how_much} in decoding speed: so noisy is it."
        )
        yield Caveat("noisy", text, "Close other programs, or ask for more rounds.")


def _disturbed(record: Record, measured: Sequence[Measurement]) -> Iterator[Caveat]:
    samples = [*record.replica_samples, *(sample for item in measured for sample in item.samples)]
    count = sum(sample.disturbed and not sample.superseded for sample in samples)
    if count:
        total = sum(not sample.superseded for sample in samples)
        text = f"Timed turns disturbed by other work on this machine, also when repeated: {count} of {total}."
        yield Caveat("disturbed", text, "Close other programs and run again.")
    broken = sum(not possible(sample.timing) for sample in samples)
    if broken:
        text = f"Timed turns left out because no clock can have given their times: {broken}."
        yield Caveat("impossible_times", text, "Run again; if it happens again, the machine's clock is at fault.")


def _cut(measured: Sequence[Measurement]) -> Iterator[Caveat]:
    answers = [output for item in measured for output in item.outputs]
    cut = sum(not output.stopped for output in answers)
    if cut:
        text = f"Answers cut at the limit of new tokens before they ended: {cut} of {len(answers)}."
        yield Caveat("cut_answers", text, "Allow more new tokens to see where each answer ends.")


def _sequential(record: Record) -> Iterator[Caveat]:
    if not record.plan.resident and len(record.plan.variants) > 1:
        text = "The variants do not fit in memory together: they ran one after another, so drift between them counts."
        yield Caveat("sequential", text, "Compare fewer or smaller variants at a time, or free memory.")


def _kl_terms(record: Record) -> Iterator[Caveat]:
    if record.plan.choice.workload.kl_terms == "llama_cpp":
        text = (
            "Each KL divergence leaves out the tokens whose log-probability under the baseline is -16 or less, as "
            "llama.cpp's perplexity tool does: it is not the whole sum, and may lie a hair under zero."
        )
        yield Caveat("kl_terms", text, "Hold it against that tool's figures; ask for all terms for the whole sum.")


def _reference(record: Record) -> Iterator[Caveat]:
    """A baseline that is quantized itself."""
    method = record.plan.checkpoint.quantization
    base = next((variant for variant in record.plan.variants if variant.key == record.plan.baseline), None)
    if method:
        text = (
            f"The checkpoint itself is quantized ({method}), and so is the baseline: quality is held against its "
            "quantized weights, not against the model that they were made from."
        )
        yield Caveat("quantized_reference", text, "Use the model's original checkpoint to see what that itself cost.")
    elif base is not None and base.four_bit:
        text = f"The baseline {base.key} has its weights in 4 bits: quality is held against those, not the model's own."
        yield Caveat("quantized_reference", text, "Compare with fp32 or bf16 to see what a variant loses in all.")


def _loose_numerics(floor: NoiseFloor) -> Iterator[Caveat]:
    """A logit floor that is no measure of noise."""
    nats = floor.kl_divergence
    if nats is not None and numeric_floor(nats) is None:
        text = (
            f"The baseline's own probabilities move by a mean KL divergence of {nats:.2g} nats when it computes the "
            "text token by token instead of in one pass: too much to be noise, so no difference is called noise."
        )
        remedy = "Compare with a baseline that does not quantize activations, such as fp32."
        yield Caveat("loose_numerics", text, remedy)


def _prompt_logits(record: Record, measured: Sequence[Measurement]) -> Iterator[Caveat]:
    """Passes over a prompt that compute logits nobody asks for; said once where every variant does."""
    seen = [item for item in measured if item.census and item.census.prompt_logits]
    wasteful = [item for item in seen if item.census and item.census.prompt_logits == "all"]
    own = {variant.key: variant.checkpoint or record.plan.checkpoint for variant in record.plan.variants}
    for item in wasteful[:1] if len(wasteful) == len(seen) else wasteful:
        tokens = max((sample.timing.prompt_tokens for sample in item.samples), default=0)
        vocabulary = own.get(item.variant, record.plan.checkpoint).vocab_size
        alone = len(wasteful) < len(seen)
        text = (
            f"{item.variant if alone else 'Every variant'} computes logits of every position of a prompt, of which "
            f"only the last is needed: for {tokens} tokens {tokens * vocabulary * 4 / 1e6:.3g} MB as 32-bit numbers, "
            "which its time to the first token and its peak memory hold."
        )
        remedy = "Judge it by its decoding, and expect more of both with longer prompts."
        yield Caveat("prompt_logits", text, remedy, item.variant if alone else None)


def _shared_gpu(measured: Sequence[Measurement]) -> Iterator[Caveat]:
    others = max((item.memory.others_bytes or 0 for item in measured if item.memory), default=0)
    if others:
        text = (
            f"Other programs hold {others / 1e9:.2g} GB of the graphics card's memory: what they compute there slows "
            "turns, which nothing here sees, and leaves less memory."
        )
        yield Caveat("shared_gpu", text, "End them, or use a graphics card that nobody else uses.")


def _energy(measured: Sequence[Measurement]) -> Iterator[Caveat]:
    if any(sample.timing.joules is not None for item in measured for sample in item.samples):
        text = (
            "Joules per token are the whole graphics card's, its idle power and whatever others compute on it "
            "included, from a counter that moves every few tens of milliseconds: short requests are coarse."
        )
        yield Caveat("energy", text, "Ask for more new tokens, and use a card that nobody else uses.")


def _paths(item: Measurement, noise: float | None, what: str) -> Iterator[Caveat]:
    found = quality.path_disagreement(item, noise)
    if found:
        text = (
            f"On the first {found.positions} positions of {what}, {item.variant} has a mean KL divergence of "
            f"{found.one_pass:.2g} nats in one pass and {found.timed:.2g} step by step, as answers are made; the "
            "latter is shown."
        )
        yield Caveat("path_disagreement", text, NO_REMEDY, item.variant)


def _left_out(item: Measurement) -> Iterator[Caveat]:
    count, names = quality.left_out(item)
    if count:
        text = f"Positions of {item.variant} without a quality figure: {count} ({', '.join(names)})."
        remedy = (
            "Shorter prompts or fewer new tokens leave fewer out; a variant whose figures are not finite is broken."
        )
        yield Caveat("positions_left_out", text, remedy, item.variant)


def _decoded(item: Measurement) -> Iterator[Caveat]:
    """Ways of decoding whose answers or scores are read in another way."""
    way = item.census.decoding if item.census else ""
    if way == "sampling":
        text = f"The answers of {item.variant} are drawn by chance: they are not compared word by word."
        yield Caveat("drawn", text, "Judge it by KL divergence, which is read from its scores.", item.variant)
    if way == "prompt_lookup":
        text = f"{item.variant} was timed guessing ahead and scored token by token without guesses."
        yield Caveat("scored_plainly", text, NO_REMEDY, item.variant)


def _compiled(item: Measurement) -> Iterator[Caveat]:
    """Where compiled code came from, and whether more was compiled while requests ran. A kernel that is compiled at its
    first use is so in the first request, not while preparing."""
    found = item.census.compile if item.census else None
    if found is None:
        return
    seconds = max(item.cost.prepare_s, item.cost.warm_up_s) if item.cost else 0.0
    if found.from_cache is not None and seconds > 0:
        took = f"Compiling {item.variant} took {seconds:.0f} s"
        text = f"{took}, code from an earlier run included." if found.from_cache else f"{took}, from scratch."
        remedy = NO_REMEDY if found.from_cache else "The code is kept: the next run with such lengths starts sooner."
        yield Caveat("compiled_warm" if found.from_cache else "compiled_cold", text, remedy, item.variant)
    if found.late_graphs:
        text = f"{item.variant} compiled {found.late_graphs} more times while requests ran, which slows those requests."
        yield Caveat("recompiled", text, "Use prompts of like length, or leave compiling out.", item.variant)


def _ties(result: VariantResult) -> Iterator[Caveat]:
    ties = sum(miss.near_tie is True for miss in result.quality.near_misses) if result.quality else 0
    if ties:
        where = f"Answers of {result.key} that part from the baseline's at a near tie"
        text = f"{where}, where either word was as likely: {ties}."
        yield Caveat(
            "near_tie", text, "Judge by KL divergence and same-top, not by the first differing word.", result.key
        )


def _over_limit(result: VariantResult) -> Iterator[Caveat]:
    """Shares of a bound that cannot be: either the machine can do more than was measured, or less was asked of it."""
    near = result.near_limit
    bounds = {"decode passes": near and near.decode, "prompt pass": near and near.prompt}
    over = [f"{name} {bound.share:.2f}" for name, bound in bounds.items() if bound and bound.share > 1]
    if over:
        text = (
            f"{result.key} comes out faster than the machine's measured limit allows ({', '.join(over)} of the bound): "
            "part of its weights stayed in a cache, it computes in fewer bits than the limit was measured in, or the "
            "limit was measured while other work went on."
        )
        remedy = 'Read it as "at the limit"; without the folder "limits" in the cache the machine is measured again.'
        yield Caveat("over_the_limit", text, remedy, result.key)


def _notes(record: Record, known: set[str]) -> Iterator[Caveat]:
    covered = [mark for name, mark in _TOLD_BY_FACTS.items() if name in known]
    said: dict[str, list[str]] = {}
    for item in record.measurements:
        for text in item.notes:
            if not any(mark in text.lower() for mark in covered):
                said.setdefault(text, []).append(item.variant)
    yield from _by_reach(said, len(record.plan.variants))


def _by_reach(said: dict[str, list[str]], variants: int) -> Iterable[Caveat]:
    """A note that every variant carries is about the run."""
    for text, keys in said.items():
        if len(keys) >= variants:
            yield Caveat("note", text, NO_REMEDY)
        else:
            yield from (Caveat("note", text, NO_REMEDY, key) for key in keys)
