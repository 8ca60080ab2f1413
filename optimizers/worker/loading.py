"""From a folder and a stack of technique ids to a model that can answer.

Covers what from_pretrained is told (only what the stack's techniques say), quieting the libraries, thread counts, and
what the checkpoint lacks (pad token, chat template). Nothing is ever fetched and no code of a checkpoint is run.
Generating is in `generating.py`.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from optimum.exporters.tasks import TasksManager
from safetensors import SafetensorError

from optimizers.errors import CheckpointBroken, CheckpointRefused, ChoiceError
from optimizers.protocol import Load
from optimizers.schema import Checkpoint, Task
from optimizers.techniques import all_techniques
from optimizers.techniques.base import GenerationOptions, LoadContext, LoadOptions, Technique
from optimizers.techniques.graphs import older
from optimizers.techniques.shared import in_precision
from optimizers.techniques.shared_decoding import merged, packs
from optimizers.worker.compiling import compile_for

_NAMED_MISSING = 3


@dataclass
class Loaded:
    """A model that can answer, and what is known about it.

    `own_generation` is the checkpoint's generation config, kept for saving; the model itself carries a plain greedy
    one. `stop_ids` are all of the checkpoint's stop tokens. `own_quantization` is the checkpoint's, None when plain."""

    model: Any
    tokenizer: Any
    checkpoint: Checkpoint
    techniques: tuple[Technique, ...]
    own_generation: Any
    own_quantization: str | None
    stop_ids: frozenset[int]
    pad_id: int | None
    context_length: int
    threads: int
    load_s: float
    prepare_s: float
    notes: tuple[str, ...]
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    longest_tokens: int = 0

    @property
    def prepared(self) -> bool:
        """Whether a technique changed the model after from_pretrained, or loaded another in its place."""
        return any(technique.transform is not None or technique.load is not None for technique in self.techniques)


def vocabulary(loaded: Loaded) -> int:
    """The width of the logits, which may be larger than the tokenizer's vocabulary."""
    head = loaded.model.get_output_embeddings()
    width = getattr(head, "out_features", None)
    return int(width or loaded.model.config.get_text_config(decoder=True).vocab_size)


@dataclass(frozen=True)
class Request:
    """A Load command with its techniques looked up and asked what from_pretrained shall be told; `quantization` is the
    config that one of them makes."""

    command: Load
    techniques: tuple[Technique, ...]
    context: LoadContext
    options: tuple[LoadOptions, ...]
    quantization: Any = None


def prepare(command: Load) -> Request:
    """Set this process up and import all that loading will need, so that load times and memory are the model's own.

    Raises ChoiceError for an unknown technique, ImportError where a technique's library is missing."""
    _prepare_process(command.threads, command.seed)
    techniques = _techniques(command.techniques)
    context = _context(command, techniques)
    options = tuple(technique.options(context) for technique in techniques)
    quantization = next((option.quantization.made() for option in options if option.quantization is not None), None)
    flexible = any(option.attention == "flex_attention" for option in options)
    compiled = any(technique.slot == "compile" for technique in techniques)
    if flexible or compiled:
        compile_for(command.threads, packed=compiled and packs(command.device, context.precision))
    # transformers imports a model's code when its class is first named.
    for name in (_model_class(command.checkpoint.task).__name__, "AutoTokenizer", command.checkpoint.architecture):
        getattr(transformers, name, None)
    return Request(command, techniques, context, options, quantization)


def _prepare_process(threads: int, seed: int) -> None:
    """Give PyTorch `threads` threads and every library silence."""
    torch.set_num_threads(threads)
    if torch.get_num_interop_threads() != 1:  # may be said only once in a process
        torch.set_num_interop_threads(1)
    torch.manual_seed(seed)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    # One line per layer call: 77,000 of them in one scoring.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


def load(request: Request, stage: Callable[[str], None]) -> Loaded:
    """Load what the request names. Raises CheckpointError for a folder that cannot be used.

    `load_s` holds the quantizing too where a library quantizes while it reads; `prepare_s` is a transform's own."""
    folder = Path(request.command.checkpoint.folder)
    stage("reading weights")
    start = time.perf_counter()
    model = _own_loader(request, stage) or _read_model(request)
    tokenizer = older.tokenizer(folder)
    written_s = float(getattr(model, "prepare_s", 0.0))  # a graph that had to be written first
    load_s = time.perf_counter() - start - written_s
    start = time.perf_counter() - written_s
    for technique in request.techniques:
        if technique.transform is not None:
            stage(f"applying {technique.title}")
            model = technique.transform(model, request.context) or model
    return _loaded(request, model.eval(), tokenizer, load_s, time.perf_counter() - start)


def _own_loader(request: Request, stage: Callable[[str], None]) -> Any:
    """The model from a technique that brings a loader of its own, None where none does."""
    found = next((technique.load for technique in request.techniques if technique.load is not None), None)
    return found(request.context, stage) if found is not None else None


def _loaded(request: Request, model: Any, tokenizer: Any, load_s: float, prepare_s: float) -> Loaded:
    command = request.command
    own_generation = model.generation_config
    stops = _stop_ids(model, tokenizer)
    pad_id = tokenizer.pad_token_id
    if pad_id is None and stops:
        pad_id = min(stops) if tokenizer.eos_token_id is None else tokenizer.eos_token_id
    model.generation_config = transformers.GenerationConfig(pad_token_id=pad_id, use_cache=True)
    text_config = model.config.get_text_config(decoder=True)
    known = command.checkpoint.context_length or getattr(text_config, "max_position_embeddings", 0) or 0
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        checkpoint=command.checkpoint,
        techniques=request.techniques,
        own_generation=own_generation,
        own_quantization=_own_quantization(Path(command.checkpoint.folder)),
        stop_ids=stops,
        pad_id=pad_id,
        context_length=int(known),
        threads=command.threads,
        load_s=load_s,
        prepare_s=prepare_s,
        notes=(*getattr(model, "notes", ()), *_notes(model, tokenizer, own_generation)),
        generation=merged(technique.generation(request.context) for technique in request.techniques),
        longest_tokens=command.longest_tokens,
    )


def _techniques(ids: tuple[str, ...]) -> tuple[Technique, ...]:
    known = all_techniques()
    for unknown in (name for name in ids if name not in known):
        raise ChoiceError(f'There is no technique called "{unknown}".', f"Known ones: {', '.join(known)}.")
    return tuple(known[name] for name in ids)


def _context(command: Load, techniques: tuple[Technique, ...]) -> LoadContext:
    """What the techniques may know."""
    context = LoadContext(
        checkpoint=command.checkpoint,
        precision=command.checkpoint.stored_dtype,
        threads=command.threads,
        longest_tokens=command.longest_tokens,
        instruction_sets=command.instruction_sets,
        seed=command.seed,
        device=command.device,
    )
    return in_precision(context, techniques)


def _model_class(task: Task) -> Any:
    """The Auto class that loads models for a task, by Optimum's table."""
    return TasksManager.get_model_class_for_task(task.replace("_", "-"))


def _read_model(request: Request) -> Any:
    checkpoint, device = request.command.checkpoint, request.command.device
    folder = Path(checkpoint.folder)
    said: dict[str, Any] = {} if device == "cpu" else {"device_map": {"": f"{device}:0"}}
    for option in request.options:
        if option.dtype is not None:
            said["dtype"] = option.dtype if option.dtype == "auto" else getattr(torch, option.dtype)
        if option.attention is not None:
            said["attn_implementation"] = option.attention
    if request.quantization is not None:
        # Never passed as None: that breaks loading a checkpoint that is quantized already.
        said["quantization_config"] = request.quantization
    try:
        model, report = _model_class(checkpoint.task).from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **said,
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise _unreadable(folder, error) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise CheckpointBroken(
            f"The checkpoint in {folder} lacks {len(missing)} of the model's weights, for example "
            f"{', '.join(missing[:_NAMED_MISSING])}.",
            "Fetch the checkpoint again, or pick one made for text generation.",
        )
    return model


def _unreadable(folder: Path, error: Exception) -> Exception:
    """The error that says what to do, for the ones from_pretrained is known to raise; any other unchanged."""
    text = str(error)
    if isinstance(error, SafetensorError):
        return CheckpointBroken(
            f"The weights in {folder} cannot be read; the file may be cut short ({text}).",
            "Fetch the checkpoint again.",
        )
    if "trust_remote_code" in text:
        return CheckpointRefused(
            f"The checkpoint in {folder} runs only with code of its own, which Levers does not execute.",
            "Pick a model whose architecture is part of transformers.",
        )
    if "no file named model.safetensors" in text:
        return CheckpointRefused(
            f"The checkpoint in {folder} has no weights in the safetensors format.",
            "Save it again with save_pretrained, which writes safetensors.",
        )
    if "Unrecognized configuration class" in text:
        return CheckpointRefused(
            f"The checkpoint in {folder} is not a causal language model.", "Pick a model made for text generation."
        )
    return error


def _own_quantization(folder: Path) -> str | None:
    """The method by which the checkpoint itself says that it is quantized."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    own = config.get("quantization_config")
    return str(own.get("quant_method", "unnamed")) if isinstance(own, dict) else None


def _stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends an answer, by any of the places where a checkpoint may say so."""
    text_config = model.config.get_text_config(decoder=True)
    places = (model.generation_config, model.config, text_config, tokenizer)
    found: set[int] = set()
    for place in places:
        value = getattr(place, "eos_token_id", None)
        found.update(value if isinstance(value, (list, tuple)) else [] if value is None else [value])
    return frozenset(int(token) for token in found)


def _notes(model: Any, tokenizer: Any, generation: Any) -> tuple[str, ...]:
    notes = []
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if model.config.get_text_config(decoder=True).tie_word_embeddings and _own_weights(head, embedding):
        notes.append(
            "The output head shared the input embedding's weights; this variant keeps a converted copy of its own."
        )
    if getattr(model.config, "auto_map", None):
        notes.append("The checkpoint names program code of its own; the same model in transformers ran instead of it.")
    if not tokenizer.chat_template:
        notes.append("The model has no chat template: it gets each prompt as it is written (raw prompt).")
    if tokenizer.pad_token_id is None:
        notes.append(
            "The tokenizer has no padding token: the end-of-sequence token, if there is one, stands in, with an "
            "explicit attention mask."
        )
    penalties = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1.0}
    kept_out = [name for name, plain in penalties.items() if getattr(generation, name, None) not in (None, plain)]
    if kept_out:
        notes.append(
            f"The checkpoint asks for {', '.join(kept_out)}; every variant answers by plain greedy decoding instead."
        )
    return tuple(notes)


def _own_weights(head: Any, embedding: Any) -> bool:
    return head is not None and getattr(head, "weight", None) is not embedding.weight
