"""What is really in memory and what really ran, read from the loaded model and from a profile of a tiny request.

Covers bytes as stored (packed and quantized tensors taken apart, tied ones once), which layers a quantizer converted,
and the attention kernel dispatched. Whether that is what was asked for is each technique's `verify`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from optimizers.protocol import CensusTaken
from optimizers.schema import Census, Obstacle, SkippedModule
from optimizers.techniques.graphs import facts
from optimizers.techniques.graphs.backed import GraphBacked
from optimizers.worker import compiling, graph_census
from optimizers.worker.generating import Generator
from optimizers.worker.loading import Loaded

_SDPA = "aten::scaled_dot_product_attention"
_KERNEL = "aten::_scaled_dot_product_"
_FLASH = "flash_attn"
_COMPILED_REGION = "Torch-Compiled Region"
_PROFILED_TOKENS = 2
_SCALE_BYTES = 16  # a packed per-tensor weight keeps a float64 scale and an int64 zero point


def take(generator: Generator) -> CensusTaken:
    """The census, and the first reason why it is not what was asked for: a technique of the stack is not in it, or
    another number of threads computes."""
    census = _census(generator)
    loaded = generator.loaded
    found = (technique.verify(census, loaded.checkpoint) for technique in loaded.techniques)
    obstacle: Obstacle | None = next((reason for reason in found if reason is not None), None)
    return CensusTaken(census, obstacle or other_threads(census.threads, loaded.threads))


def other_threads(found: int, asked: int) -> Obstacle | None:
    """Why a variant that computes with `found` threads is not the one asked for, None when it is."""
    if found == asked:
        return None
    return Obstacle(
        f"The engine was given {asked} thread{'' if asked == 1 else 's'} and computes with {found}.",
        "Ask for another thread count, or leave this variant out.",
    )


def _census(generator: Generator) -> Census:
    loaded = generator.loaded
    if isinstance(loaded.model, GraphBacked):
        return graph_census.take(generator)
    layers = list(_layers(loaded.model))
    asked = loaded.own_quantization is not None or any(item.slot == "weights" for item in loaded.techniques)
    attention, kernel, inference = _dispatched(generator)
    return Census(
        bytes_by_dtype=bytes_by_dtype(loaded.model),
        modules_converted=sum(layer.converted for layer in layers),
        modules_skipped=_skipped(layers) if asked else (),
        attention=attention,
        attention_kernel=kernel,
        inference_mode=inference,
        module_kinds=dict(sorted(Counter(_kinds(loaded.model)).items())),
        threads=torch.get_num_threads(),
        compile=compiling.census(generator.ready),
        quantization=loaded.own_quantization,
        cache=generator.decoding.cache,
        decoding=generator.decoding.mode,
        prompt_logits=generator.prompt_logits,
    )


def bytes_by_dtype(model: Any) -> dict[str, int]:
    """Bytes of every weight and buffer as stored, by dtype; memory that several tensors share (tied weights, slices of
    one block) counts once, for the largest of them, and repeated elements of a view are not stored."""
    if isinstance(model, GraphBacked):
        return facts.read(model.graph.folder).bytes_by_dtype
    found = (part for tensor in _tensors(model) for part in parts_of(tensor))
    totals = _stored([part for part in found if part.numel() and part.device.type != "meta"])
    for weight, bias in _packed(model):
        totals[_name(weight.dtype)] += weight.numel() * weight.element_size()
        totals["float64"] += _SCALE_BYTES
        if bias is not None:
            totals[_name(bias.dtype)] += bias.numel() * bias.element_size()
    return dict(sorted(totals.items()))


def _stored(parts: list[torch.Tensor]) -> Counter[str]:
    """Bytes by dtype of the memory that plain tensors lie in, each byte once."""
    spans = [(str(part.device), part.data_ptr(), part.data_ptr() + _span(part), _name(part.dtype)) for part in parts]
    totals: Counter[str] = Counter()
    reached: dict[str, int] = {}  # on each device: where the memory that is counted already ends
    for device, start, end, dtype in sorted(spans, key=lambda span: (span[0], span[1], -span[2])):
        fresh = end - max(start, reached.get(device, 0))
        if fresh > 0:
            totals[dtype] += fresh
            reached[device] = end
    return totals


def _span(part: torch.Tensor) -> int:
    """Bytes from a tensor's first element to its last: what it takes where its elements lie without gaps, once those
    that it repeats (strides of 0) are left out."""
    steps = zip(part.shape, part.stride(), strict=True)
    return int((sum((size - 1) * stride for size, stride in steps) + 1) * part.element_size())


def weights_bytes(loaded: Loaded) -> int:
    """The sum of `bytes_by_dtype`."""
    return sum(bytes_by_dtype(loaded.model).values())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _tensors(model: Any) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():
        state = getattr(module, "state", None)  # bitsandbytes moves a layer's scales there on first use
        yield from (item for item in (getattr(state, name, None) for name in ("CB", "SCB")) if item is not None)


def parts_of(tensor: Any) -> Iterator[torch.Tensor]:
    """The plain tensors that a tensor consists of: subclasses by their own account, bitsandbytes' by its attributes."""
    state = getattr(tensor, "quant_state", None)
    yield from _state_parts(state)
    for name in ("CB", "SCB"):
        part = getattr(tensor, name, None)
        if isinstance(part, torch.Tensor):
            yield part
    if hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from parts_of(getattr(tensor, name))
    else:
        yield tensor.detach()


def _state_parts(state: Any) -> Iterator[torch.Tensor]:
    """A bitsandbytes QuantState: scales, code book and offset, and the same again where the scales are quantized."""
    if state is None:
        return
    yield from (
        part for part in (getattr(state, name, None) for name in ("absmax", "code", "offset")) if part is not None
    )
    yield from _state_parts(getattr(state, "state2", None))


def _packed(model: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    """Weight and bias of every layer that torch's own quantizer packed away."""
    for module in model.modules():
        unpack = getattr(getattr(module, "_packed_params", None), "_weight_bias", None)
        if callable(unpack):
            yield unpack()


@dataclass(frozen=True)
class _Layer:
    """A layer that multiplies by a weight."""

    name: str
    kind: str
    converted: bool
    head: bool
    tied: bool
    width: int | None = None

    @property
    def why_skipped(self) -> str:
        if self.head:
            tied = ", tied to the input embedding" if self.tied else ""
            return f"output head{tied}: left as it was"
        if self.kind != "Linear":
            return f"{self.kind} layer, not nn.Linear"
        wide = f" of width {self.width}" if self.width else ""
        return f"nn.Linear layer{wide} left as it was"


def _layers(model: Any) -> Iterator[_Layer]:
    head = model.get_output_embeddings()
    embedding = getattr(model.get_input_embeddings(), "weight", None)
    for name, module in model.named_modules():
        weight: Any = getattr(module, "weight", None)
        packed = callable(getattr(getattr(module, "_packed_params", None), "_weight_bias", None))
        two_dimensional = isinstance(weight, torch.Tensor) and weight.dim() == 2
        if not packed and (not two_dimensional or isinstance(module, torch.nn.Embedding)):
            continue
        converted = packed or not weight.is_floating_point() or hasattr(weight, "__tensor_flatten__")
        tied = not packed and weight is embedding
        width = getattr(module, "in_features", None)
        yield _Layer(name, type(module).__name__, converted, module is head, tied, width)


def _skipped(layers: list[_Layer]) -> tuple[SkippedModule, ...]:
    """The layers that were not converted, one entry per cause, the commonest first."""
    causes: dict[str, list[str]] = {}
    for layer in layers:
        if not layer.converted:
            causes.setdefault(layer.why_skipped, []).append(layer.name)
    entries = (SkippedModule(names[0], why, len(names)) for why, names in causes.items())
    return tuple(sorted(entries, key=lambda entry: -entry.count))


def _kinds(model: Any) -> Iterator[str]:
    """The kind of every module that holds weights itself, as it calls itself."""
    for module in model.modules():
        packed = callable(getattr(getattr(module, "_packed_params", None), "_weight_bias", None))
        if packed or any(True for _ in module.parameters(recurse=False)):
            yield str(module._get_name())


def _dispatched(generator: Generator) -> tuple[str, str, bool]:
    """Attention, its kernel, and whether outputs are inference tensors: from the profile of a request of two tokens,
    which passes through the prompt's step and a cached one."""
    model = generator.loaded.model
    ids = torch.zeros(1, 4, dtype=torch.long, device=model.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        output = generator.generate(inputs, _PROFILED_TOKENS)
    counts = {event.key: event.count for event in profiled.key_averages()}
    asked = getattr(model.config.get_text_config(decoder=True), "_attn_implementation", None)
    return *attention_in(counts, asked), output.is_inference()


def attention_in(counts: dict[str, int], asked: str | None) -> tuple[str, str]:
    """Attention ("sdpa", "eager", "flash_attention_2", "flex_attention" or "none") and its kernel, from the profiler's
    names and how often each ran in a request of two tokens. `asked` matters only for flex attention, which has no name
    there when it is compiled; where it falls back, every layer has a softmax of its own."""
    flash = next((key for key in counts if _FLASH in key), None)
    if flash is not None:
        return "flash_attention_2", flash
    if _SDPA in counts:
        kernels = Counter({key.removeprefix(_KERNEL): n for key, n in counts.items() if key.startswith(_KERNEL)})
        return "sdpa", kernels.most_common(1)[0][0] if kernels else "unknown"
    softmaxes = counts.get("aten::softmax", 0)
    compiled = any(key.startswith(_COMPILED_REGION) for key in counts)
    if asked == "flex_attention" and compiled and softmaxes <= _PROFILED_TOKENS:  # drawing a token takes one
        return "flex_attention", "compiled by torch.compile"
    return ("eager", "matmul and softmax") if softmaxes else ("none", "none")
