"""What the techniques of cache and compiling share: obstacles, warnings, proofs, what compiling is but for its mode,
and what a stack tells generate(), in words that a worker and a recipe both use. All pure. It holds no technique.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from optimizers.schema import Census, Checkpoint, Explanation, Machine, Obstacle, Promise
from optimizers.techniques.base import Effort, GenerationOptions, Technique

# Models whose state transformers keeps in a form of their own (GenerationMixin._supports_default_dynamic_cache).
_OWN_STATE = ("reformer", "minimax", "xlnet", "rwkv", "xlstm")
_WITH_CACHE = ("minimax_m2", "minimax_m3")
# transformers never compiles these (PreTrainedModel.get_compiled_call).
_NEVER_COMPILED = ("llama4",)

_LEAST_TOKENS = 32
# Static caches grow by this step, so that a compiled step fits many workloads and its cached code is found again.
CACHE_STEP = 64
# CUDA graphs take the work of launching kernels away, on a GPU; a processor has nothing of the kind.
_MODES = {
    ("default", "cuda"): "reduce-overhead",
    ("max-autotune", "cpu"): "max-autotune-no-cudagraphs",
}

_BITSANDBYTES = "transformers does not compile models that bitsandbytes quantized."
COMPILE_CONFLICTS: Mapping[str, str] = {
    "no_cache": "A compiled step needs a cache of fixed length: without a cache every step has another shape.",
    "int8_dynamic": "torch.compile goes back to plain Python at each of PyTorch's dynamic int8 layers.",
    "bnb_int8": _BITSANDBYTES,
    "bnb_nf4": _BITSANDBYTES,
    "bnb_fp4": _BITSANDBYTES,
}


def no_static_cache(checkpoint: Checkpoint | None) -> Obstacle | None:
    """The obstacle when transformers keeps no cache of fixed length for this kind of model."""
    if checkpoint is None:
        return None
    kind = checkpoint.model_type.lower()
    if any(name in kind for name in _OWN_STATE) and not any(name in kind for name in _WITH_CACHE):
        return Obstacle(
            f"A {checkpoint.model_type} model keeps its state in a form of its own: transformers has no cache of fixed "
            "length for it.",
            "Pick a model of another kind for this technique.",
        )
    return None


def why_not_compiled(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    """The obstacle to compiling the decoding step: no compiler, a hosting that forbids it, the kind of model."""
    if machine.hosted == "ZeroGPU":
        return Obstacle(
            "On ZeroGPU each call runs in a process of its own that may not compile.",
            "Run Levers on a machine of your own, or on a Space with hardware of its own.",
        )
    if machine.cpp_compiler is None:
        return Obstacle(
            "There is no C++ compiler on the path, and torch.compile writes C++ that has to be compiled.",
            "Install one (g++ or clang++, on Debian: apt install g++), or name it in the variable CXX.",
        )
    if checkpoint is not None and any(name in checkpoint.model_type.lower() for name in _NEVER_COMPILED):
        return Obstacle(
            f"transformers does not compile {checkpoint.model_type} models.", "Pick a model of another kind."
        )
    return no_static_cache(checkpoint)


def warn_compiling(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    """What compiling costs, said before the run."""
    return (
        "The first run compiles, for a minute or more; that time is shown apart and pays only after many tokens. The "
        "compiled code is kept for the next run."
    )


def step_was_compiled(census: Census, checkpoint: Checkpoint) -> Obstacle | None:
    """`verify` of compiling: at least one graph was compiled, and the cache has a fixed length."""
    if census.compile is None or census.compile.graphs == 0:
        return Obstacle(
            "Compiling was asked for, and nothing was compiled: transformers leaves out models, caches and quantizers "
            "that it cannot compile.",
            "Look at the cache in the census; use the static cache and weights of torchao, or none.",
        )
    return None


def cache_was(kind: str, name: str) -> Callable[[Census, Checkpoint], Obstacle | None]:
    """`verify` of a cache: generate() made a cache of this kind."""

    def verify(census: Census, checkpoint: Checkpoint) -> Obstacle | None:
        if census.cache == kind:
            return None
        found = {"own": "a state of the model's own", "none": "no cache", "": "a cache that was not seen"}
        return Obstacle(
            f"{name} was asked for, and the model used {found.get(census.cache, f'a {census.cache} cache')}.",
            "Leave it out for this model.",
        )

    return verify


def compiled(
    id_: str,
    mode: str,
    title: str,
    summary: str,
    about: Explanation,
    claim: str,
    promised: str,
    effort: Effort,
) -> Technique:
    """The technique of a decoding step compiled by torch.compile in this mode. It needs a cache of fixed length, which
    it brings along."""
    return Technique(
        id=id_,
        slot="compile",
        title=title,
        summary=summary,
        about=about,
        promises=(Promise(claim, promised, "PyTorch documentation, torch.compile", "decode", 1.5, None),),
        brings=("static_cache",),
        why_not=why_not_compiled,
        warn=warn_compiling,
        least_tokens=_LEAST_TOKENS,
        generation=lambda context: GenerationOptions(compile_mode=mode),
        verify=step_was_compiled,
        slow_to_prepare=True,
        conflicts=COMPILE_CONFLICTS,
        explain=compiler_errors,
        effort=effort,
    )


def compiler_errors(message: str) -> Obstacle | None:
    """`explain` of compiling: what the C++ compiler lacked."""
    if "Python.h" in message:
        return Obstacle(
            "The C++ compiler did not find Python's headers, which compiled code needs.",
            "Install them (on Debian: apt install python3-dev).",
        )
    if "InvalidCxxCompiler" in message or "No working C++ compiler found" in message:
        return Obstacle("The C++ compiler on the path does not work.", "Install g++ or clang++.")
    return None


def merged(options: Iterable[GenerationOptions]) -> GenerationOptions:
    """What all techniques of a stack say together; they fill different slots, so that no field is said twice."""
    said = {
        name: value
        for option in options
        for name, value in ((field.name, getattr(option, field.name)) for field in dataclasses.fields(option))
        if value is not None
    }
    return GenerationOptions(**said)


def keywords(options: GenerationOptions) -> dict[str, Any]:
    """What a GenerationConfig is told of these options, all of it literals: without the length of a static cache and
    what a step is compiled with, which hang on the request and on the device."""
    said: dict[str, Any] = {"do_sample": False, "use_cache": options.cache != "none"}
    if options.cache == "static":
        said["cache_implementation"] = "static"
    if options.compile_mode is None:
        said["disable_compile"] = True
    if options.sampling is not None:
        chosen = options.sampling
        said |= {"do_sample": True, "temperature": chosen.temperature, "top_p": chosen.top_p, "top_k": 0}
    if options.prompt_lookup_tokens is not None:
        said["prompt_lookup_num_tokens"] = options.prompt_lookup_tokens
    return said


def step_mode(mode: str, device: str) -> str:
    """The mode of torch.compile on a device for the mode that a technique names."""
    return _MODES.get((mode, device), mode)


def packs(device: str, precision: str) -> bool:
    """Whether weights are to be packed into compiled code. On a processor and in bf16 only: in fp32 it gains nothing
    for a second copy of the weights (and 8-bit weights would become constants in fp32), in fp16 it is slower."""
    return device == "cpu" and precision == "bfloat16"
