"""A measured variant of a finished run as a script that does the same without this program.

Covers putting it together. What it says to from_pretrained and generate() is what the variant's techniques declare, the
very declarations that a worker reads; each technique's file holds what is to be said beside that (`base.Recipe`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optimizers.errors import TakeawayError
from optimizers.results import ModelFacts, Run, VariantResult
from optimizers.schema import Checkpoint
from optimizers.takeaway.head import head
from optimizers.takeaway.text import literal, plain
from optimizers.takeaway.weights import weights
from optimizers.techniques import all_techniques
from optimizers.techniques.base import GenerationOptions, LoadContext, LoadOptions, Recipe, Technique
from optimizers.techniques.shared import in_precision
from optimizers.techniques.shared_calls import Named
from optimizers.techniques.shared_decoding import CACHE_STEP, keywords, merged, packs, step_mode

_DTYPES = ("float32", "float16", "bfloat16", "float64")
_SHOWN_KEYS = 8

_STOPS = """\
# Every token that ends an answer, wherever the checkpoint says so. What else it suggests (temperature, penalties) is
# left out, as it was when this was measured.
stops = set()
for place in (model.generation_config, model.config, model.config.get_text_config(decoder=True), tokenizer):
    found = getattr(place, "eos_token_id", None)
    stops.update(found if isinstance(found, list) else [] if found is None else [found])
pad = min(stops, default=None) if tokenizer.pad_token_id is None else tokenizer.pad_token_id
model.generation_config = GenerationConfig()
"""
_PROMPT = """\
if tokenizer.chat_template:
    messages = [{"role": "user", "content": PROMPT}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, return_tensors="pt")
else:
    prompt = tokenizer(PROMPT, return_tensors="pt")
"""
_PRINT = """\
length = next((at for at, token in enumerate(new) if token in stops), len(new))
print(tokenizer.decode(new[:length], skip_special_tokens=True))
"""


@dataclass(frozen=True)
class _Stack:
    """A variant's techniques, and what they say: to from_pretrained, to generate(), and beside both."""

    context: LoadContext
    options: tuple[LoadOptions, ...]
    generation: GenerationOptions
    recipes: tuple[Recipe, ...]

    @property
    def loader(self) -> Recipe | None:
        """The recipe that loads in a way of its own."""
        return next((recipe for recipe in self.recipes if recipe.load), None)

    @property
    def packed(self) -> bool:
        """Whether compiled code holds the weights."""
        return self.generation.compile_mode is not None and packs(self.context.device, self.context.precision)


def recipe(run: Run, key: str) -> str:
    """The script of the variant of this key. Raises TakeawayError for a run that goes on, and for a variant that there
    is not, that was not measured, or whose techniques this program does not have."""
    variant = _measured(run, key)
    model = variant.model or run.model
    stack = _stack(run, variant, model)
    found = weights(model)
    above = head(
        run,
        variant,
        model,
        packages=("torch", "transformers", *found.packages, *_packages(stack)),
        engine=next((one.engine for one in stack.recipes if one.engine), None),
        first=found.first,
        notes=[note for one in stack.recipes for note in one.notes],
    )
    sections = (
        above,
        imports([*found.imports, *_needed(stack)]),
        _settings(run, stack),
        found.lines,
        _load(stack),
        _PROMPT.splitlines(),
        _answer(stack),
        _PRINT.splitlines(),
    )
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def imports(wanted: Iterable[str]) -> list[str]:
    """Import lines, each module once, in order."""
    plainly: set[str] = set()
    names: dict[str, set[str]] = {}
    for line in wanted:
        module, _, found = line.removeprefix("from ").partition(" import ")
        if found:
            names.setdefault(module, set()).update(found.split(", "))
        else:
            plainly.add(line)
    return [*sorted(plainly), *(f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names))]


def _measured(run: Run, key: str) -> VariantResult:
    if run.status == "running":
        raise TakeawayError(f"The run {plain(run.id, 60)} still goes on.", "Wait until it is over, or stop it.")
    measured = [item.key for item in run.variants if item.status == "measured"]
    more = ", ..." if len(measured) > _SHOWN_KEYS else ""
    others = f"Measured in this run: {', '.join(plain(name, 100) for name in measured[:_SHOWN_KEYS])}{more}."
    remedy = others if measured else "Take another run: nothing was measured in this one."
    variant = next((item for item in run.variants if item.key == key), None)
    if variant is None:
        raise TakeawayError(f"The run {plain(run.id, 60)} has no variant {plain(key, 100)!r}.", remedy)
    if variant.status != "measured":
        status = variant.status.replace("_", " ")
        why = f" {plain(variant.reason)}" if variant.reason else ""
        raise TakeawayError(f"The variant {plain(key, 100)} was not measured ({status}).{why}", remedy)
    return variant


def _stack(run: Run, variant: VariantResult, model: ModelFacts) -> _Stack:
    techniques = [_technique(name) for name in variant.techniques]
    context = in_precision(_context(run, variant, model), techniques)
    generation = merged(technique.generation(context) for technique in techniques)
    return _Stack(
        context,
        tuple(technique.options(context) for technique in techniques if technique.load is None),
        generation,
        tuple(technique.recipe(context, generation) for technique in techniques),
    )


def _technique(name: str) -> Technique:
    known = all_techniques()
    if name not in known:
        raise TakeawayError(
            f"This variant used a technique that this Levers does not have: {plain(name, 60)!r}.",
            "Use the version of Levers that measured it.",
        )
    return known[name]


def _context(run: Run, variant: VariantResult, model: ModelFacts) -> LoadContext:
    """What the techniques were told when the variant was loaded, as far as a run tells it."""
    stored = model.stored_dtype
    checkpoint = Checkpoint(
        id=model.id,
        source="folder",
        folder="",
        revision=model.revision,
        architecture=model.architecture,
        model_type="",
        task="text_generation",
        parameters=model.parameters,
        linear_parameters=0,
        disk_bytes=model.disk_bytes,
        stored_dtype=stored,
        context_length=model.context_length,
        vocab_size=0,
        hidden_size=0,
        layers=0,
        tied_embeddings=False,
        has_chat_template=False,
        has_pad_token=False,
        linear_widths=model.linear_widths,
    )
    return LoadContext(
        checkpoint=checkpoint,
        precision=stored if stored in _DTYPES else _DTYPES[0],  # it becomes code where no technique says another
        threads=variant.threads or (variant.census.threads if variant.census else 1),
        longest_tokens=0,
        instruction_sets=run.machine.instruction_sets,
        seed=run.workload.seed,
        device=variant.memory.device if variant.memory else "cpu",
    )


def _packages(stack: _Stack) -> list[str]:
    gpu = ["accelerate"] if stack.context.device == "cuda" else []
    return [*(package for one in stack.recipes for package in one.packages), *gpu]


def _needed(stack: _Stack) -> list[str]:
    """The import lines of everything but the weights."""
    lines = ["import torch", *(line for one in stack.recipes for line in one.imports)]
    lines += [line for option in stack.options if option.quantization for line in option.quantization.imports()]
    if stack.loader is None:
        lines.append("from transformers import AutoModelForCausalLM, AutoTokenizer")
    if not _answers(stack):
        lines.append("from transformers import GenerationConfig")
    if stack.generation.compile_mode is not None:
        lines.append("from transformers import CompileConfig")
    if stack.packed:
        lines.append("from torch._inductor import config as inductor")
    return lines


def _settings(run: Run, stack: _Stack) -> list[str]:
    lines = [
        f"PROMPT = {literal(run.workload.prompts[0] if run.workload.prompts else '')}",
        f"NEW_TOKENS = {run.workload.max_new_tokens}  # at the most",
        f"THREADS = {stack.context.threads}",
    ]
    if stack.generation.sampling is not None:
        lines.append(f"SEED = {stack.generation.sampling.seed}")
    if stack.loader is None:
        lines += ["", "torch.set_num_threads(THREADS)"]
    if stack.packed:
        lines += [
            "# Compiled code holds the weights, packed for the processor's products: a second copy. It is bound to",
            "# the cache of the first answer; for further ones hand that cache to generate() again, after its reset().",
            "inductor.freezing = True",
        ]
    return lines


def _load(stack: _Stack) -> list[str]:
    """The lines that leave `model`, changed as the stack wants it, and `tokenizer`."""
    if stack.loader is not None:
        return list(stack.loader.load)
    said: dict[str, str] = {}
    if stack.context.device == "cuda":
        said["device_map"] = repr({"": "cuda:0"})
    for option in stack.options:
        if option.dtype is not None:
            said["dtype"] = repr(option.dtype) if option.dtype == "auto" else Named("torch", option.dtype).written()
        if option.attention is not None:
            said["attn_implementation"] = repr(option.attention)
        if option.quantization is not None:
            said["quantization_config"] = option.quantization.written()
    return [
        "tokenizer = AutoTokenizer.from_pretrained(MODEL)",
        *_called("model = AutoModelForCausalLM.from_pretrained", ["MODEL", *_named(said)]),
        *(line for one in stack.recipes for line in one.change),
        "model.eval()",
    ]


def _answers(stack: _Stack) -> Sequence[str]:
    """The lines in place of generate(), none where there are no others."""
    return stack.loader.answer if stack.loader is not None else ()


def _answer(stack: _Stack) -> list[str]:
    """The lines that leave `new`, the ids of the answer."""
    if own := _answers(stack):
        return ['ids = prompt["input_ids"]', *own]
    generation = stack.generation
    said = {name: repr(value) for name, value in keywords(generation).items()}
    if generation.cache == "static":
        said["max_cache_len"] = f"-(-(ids.shape[1] + NEW_TOKENS) // {CACHE_STEP}) * {CACHE_STEP}"
    lines = [*_STOPS.splitlines(), 'ids = prompt["input_ids"].to(model.device)']
    if generation.compile_mode is not None:
        lines.append(f"step = CompileConfig(mode={step_mode(generation.compile_mode, stack.context.device)!r})")
        lines.append("step._compile_all_devices = True  # without it transformers compiles on GPUs only")
        said["compile_config"] = "step"
    given = {"max_new_tokens": "NEW_TOKENS", "eos_token_id": "sorted(stops) or None", "pad_token_id": "pad", **said}
    lines += _called("config = GenerationConfig", _named(given))
    if generation.sampling is not None:
        lines.append("torch.manual_seed(SEED)")
    return [
        *lines,
        "with torch.inference_mode():",
        "    made = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config)",
        "new = made[0, ids.shape[1] :].tolist()",
    ]


def _named(said: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in said.items()]


def _called(what: str, arguments: list[str]) -> list[str]:
    """A call with an argument a line."""
    return [f"{what}(", *(f"    {argument}," for argument in arguments), ")"]
