"""What several techniques share: obstacles, warnings, proofs and the precision of a stack, all pure. It holds no
technique of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from optimizers.schema import Census, Checkpoint, EngineState, Machine, Obstacle
from optimizers.techniques.base import LoadContext, Technique

BF16_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16", "svebf16"})
FP16_INSTRUCTIONS = frozenset({"avx512_fp16", "amx_fp16", "fphp", "asimdhp"})
INT8_INSTRUCTIONS = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "i8mm", "asimddp"})

_FLOATS = ("float32", "float16", "bfloat16", "float64")
_STORED = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_HEAD = "output head"


def has_any(machine: Machine, instructions: frozenset[str]) -> bool:
    """Whether the processor has one of these instruction sets."""
    return not instructions.isdisjoint(machine.instruction_sets)


def lacks_attention(checkpoint: Checkpoint | None, kind: str) -> Obstacle | None:
    """The obstacle when transformers has no such kind of attention for the model, `kind` being a technique's id."""
    if checkpoint is None or not checkpoint.attentions or kind in checkpoint.attentions:
        return None
    return Obstacle(
        f"transformers has no {kind} for {checkpoint.architecture}.",
        f"Use what it has: {', '.join(checkpoint.attentions)}.",
    )


def lacks_package(machine: Machine, package: str) -> Obstacle | None:
    """The obstacle when a Python package is not installed."""
    if machine.packages.get(package) is not None:
        return None
    return Obstacle(f"The Python package {package} is not installed.", f"Install it: pip install {package}")


def lacks_engine(machine: Machine, name: str) -> Obstacle | None:
    """The obstacle when an engine's environment is not here and may not be installed."""
    engine = _engine(machine, name)
    if engine is not None and (engine.installed or engine.allowed):
        return None
    title = engine.title if engine else name
    return Obstacle(
        f"{title} needs an environment of its own, which is not installed, and installing it is not allowed here.",
        "Run Levers on your own machine, or ask the operator of this page, who can set LEVERS_ALLOW_ENGINES=1.",
    )


def installs_engine(name: str) -> Callable[[Machine, Checkpoint | None], str | None]:
    """`warn` of a technique with an engine: what its first use installs, and how large that is."""

    def warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
        engine = _engine(machine, name)
        if engine is None or engine.installed:
            return None
        return (
            f"The first use installs {engine.title} in an environment of its own "
            f"(about {engine.size_bytes / 1e6:.0f} MB, once)."
        )

    return warn


def _engine(machine: Machine, name: str) -> EngineState | None:
    return next((engine for engine in machine.engines if engine.id == name), None)


def already_quantized(checkpoint: Checkpoint | None) -> Obstacle | None:
    """The obstacle when the checkpoint brings a quantization of its own."""
    if checkpoint is None or checkpoint.quantization is None:
        return None
    return _overruled(checkpoint.quantization)


def _overruled(method: str) -> Obstacle:
    return Obstacle(
        f"The checkpoint is already quantized ({method}), and its own quantization wins.",
        "Pick the unquantized checkpoint of this model to compare quantizers on it.",
    )


def processors_only(machine: Machine, name: str) -> Obstacle | None:
    """The obstacle of what runs on processors only, where the comparison runs on a GPU."""
    if not machine.gpus:
        return None
    return Obstacle(
        f"{name} runs on processors only, and the comparison runs on this machine's GPU ({machine.gpus[0].name}).",
        "To compare on the processor, start Levers with the environment variable CUDA_VISIBLE_DEVICES set to nothing.",
    )


def weights_need(package: str | None) -> Callable[[Machine, Checkpoint | None], Obstacle | None]:
    """`why_not` of a technique that quantizes: its package, and a checkpoint that is still plain."""

    def why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
        missing = lacks_package(machine, package) if package else None
        return missing or already_quantized(checkpoint)

    return why_not


def stored_as(dtype: str) -> Callable[[Census, Checkpoint], Obstacle | None]:
    """`verify` of a precision: most bytes of floating-point weights are in `dtype`.

    Under a quantizer, whose scales are floating-point numbers too, it is enough that `dtype` is there."""

    def verify(census: Census, checkpoint: Checkpoint) -> Obstacle | None:
        if census.quantization is not None:
            return Obstacle(
                f"The checkpoint is already quantized ({census.quantization}): its quantized weights stay as stored, "
                "whatever number format is asked for.",
                "Compare it as stored (library default), or pick the unquantized checkpoint.",
            )
        floats = {name: count for name, count in census.bytes_by_dtype.items() if name in _FLOATS}
        if not floats or max(floats, key=lambda name: floats[name]) == dtype:
            return None
        if census.modules_converted and dtype in floats:
            return None
        found = max(floats, key=lambda name: floats[name])
        return Obstacle(
            f"{dtype} was asked for, but most of the weights in memory are {found}.",
            "Look at the census for the types in memory; the library overruled the request for this model.",
        )

    return verify


def linears_converted(name: str, cure: str) -> Callable[[Census, Checkpoint], Obstacle | None]:
    """`verify` of a quantizer: the model's layers were converted, not none and not the output head alone.

    `cure` is the remedy when the layers are of a kind that this quantizer does not know."""

    def verify(census: Census, checkpoint: Checkpoint) -> Obstacle | None:
        if census.quantization is not None:
            return _overruled(census.quantization)
        layers = [entry for entry in census.modules_skipped if not entry.why.startswith(_HEAD)]
        left = sum(entry.count for entry in layers)
        if census.modules_converted > 1 or (census.modules_converted == 1 and not left):
            return None
        if not layers:
            return Obstacle(f"{name} found no layer to convert in this model.", "Leave it out for this model.")
        most = layers[0]
        extent = "nothing but the output head changed" if census.modules_converted else "nothing changed"
        return Obstacle(
            f"{name} converts nn.Linear layers, and this model keeps its weights elsewhere: {most.count} layers were "
            f"passed over ({most.why}; for example {most.name}), so {extent}.",
            cure,
        )

    return verify


def attention_ran(kind: str, name: str) -> Callable[[Census, Checkpoint], Obstacle | None]:
    """`verify` of an attention: the profiler saw `kind` dispatched, and a fused kernel where it stands for one."""

    def verify(census: Census, checkpoint: Checkpoint) -> Obstacle | None:
        if census.attention != kind:
            return Obstacle(
                f"{name} was asked for, but the model ran {census.attention} attention ({census.attention_kernel}).",
                "This model's code does not support it; compare with the attention that it does run.",
            )
        if kind == "sdpa" and census.attention_kernel == "attention_math":
            return Obstacle(
                "Fused attention was asked for, but PyTorch fell back to its unfused kernel (math) for this model's "
                "head size, mask or number format.",
                "Try another precision; otherwise this model gains nothing from it here.",
            )
        return None

    return verify


def slow_int8(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    """The warning of techniques that compute in int8 on a processor without instructions for it."""
    if machine.gpus or has_any(machine, INT8_INSTRUCTIONS):
        return None
    return "This processor has no instructions for 8-bit arithmetic (VNNI): expect it to be slower, not faster."


def four_bit_errors(message: str) -> Obstacle | None:
    """`explain` of bitsandbytes' 4-bit kinds: their kernel for processors packs rows by 32 and scales by 64."""
    if "divisible by block_n" not in message and "is invalid for input of size" not in message:
        return None
    return Obstacle(
        "This model has layers whose width bitsandbytes' 4-bit kernel for processors cannot divide (outputs by 32, "
        "inputs by 64).",
        "Use bitsandbytes 8-bit or torchao for this model.",
    )


def made_for_gpus(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    """The warning of bitsandbytes on a machine without a GPU."""
    if machine.gpus:
        return None
    return "bitsandbytes is made for GPUs: on a processor it saves memory and is often slower."


LINEAR_ONLY = "Convert them to nn.Linear first, or use bitsandbytes, which converts Conv1D layers as well."


def lacks_gpu(machine: Machine, name: str, least: tuple[int, int], remedy: str) -> Obstacle | None:
    """The obstacle of what needs an NVIDIA GPU of compute capability `least` or higher."""
    needs = f"{name} needs an NVIDIA GPU of compute capability {least[0]}.{least[1]} or higher"
    if not machine.gpus:
        return Obstacle(f"{needs}, and this machine has no GPU.", remedy)
    best = max(machine.gpus, key=lambda gpu: gpu.compute_capability)
    if best.compute_capability < least:
        has = ".".join(map(str, best.compute_capability))
        return Obstacle(f"{needs}, and the {best.name} has {has}.", remedy)
    return None


def in_precision(context: LoadContext, techniques: Iterable[Technique]) -> LoadContext:
    """The context with the precision that the stack's own technique tells from_pretrained, else with the stored one."""
    stored = _STORED.get(context.precision, context.precision)
    said = [technique.options(context).dtype for technique in techniques if technique.slot == "precision"]
    return replace(context, precision=next((name for name in said if name not in (None, "auto")), None) or stored)
