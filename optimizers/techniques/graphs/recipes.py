"""Which graphs can be written: recipes, the architectures that the builder knows, and what stands in the way. Pure.

The builder is onnxruntime-genai's, which writes a decoder's graph with fused operators directly instead of tracing it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from optimizers.schema import Census, Checkpoint, Machine, Obstacle, Slot
from optimizers.techniques.shared import already_quantized, lacks_package, processors_only

# A graph has its own attention, weights and cache, and is compiled ahead: one runtime fills all of these slots.
TAKEN_SLOTS: tuple[Slot, ...] = ("attention", "weights", "compile", "cache")

PACKAGES = ("onnxruntime", "onnxruntime-genai")

# Writing a graph of 135 million parameters took 7 to 10 seconds, and checking it against PyTorch a few more.
GRAPH_S_PER_PARAMETER = 1e-7

# Decoders of which builder.py of onnxruntime-genai 0.18 wrote a graph that agrees with PyTorch (KL under 1e-6, alone
# and in a padded batch, on small random models: tests/worker/test_onnx_architectures.py). It lists more: those for GPUs
# only, with code of their own or a recurrent state are left out, and so are OLMo (KL 0.23), Phi and Nemotron (partial
# rotary embeddings: the graph does not run) and Gemma 3 (its configuration in transformers 5 is not understood).
ARCHITECTURES = frozenset(
    {
        "Ernie4_5ForCausalLM",
        "Gemma2ForCausalLM",
        "GemmaForCausalLM",
        "GraniteForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Phi3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "SmolLM3ForCausalLM",
    }
)


@dataclass(frozen=True)
class Recipe:
    """How a graph is written: the builder's precision and its extra options, each "name=value"."""

    precision: Literal["fp32", "int8", "int4"]
    options: tuple[str, ...] = ()

    @property
    def quantized(self) -> bool:
        return self.precision != "fp32"


def why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    """What stands in the way of every graph: a package, a checkpoint that is quantized, an unknown architecture."""
    missing = next((found for package in PACKAGES if (found := lacks_package(machine, package))), None)
    missing = missing or processors_only(machine, "ONNX Runtime, as installed here,")
    if missing is not None or checkpoint is None:
        return missing
    return already_quantized(checkpoint) or _unknown(checkpoint)


def _unknown(checkpoint: Checkpoint) -> Obstacle | None:
    if checkpoint.architecture in ARCHITECTURES:
        return None
    known = ", ".join(sorted(name.removesuffix("ForCausalLM") for name in ARCHITECTURES))
    return Obstacle(
        f"There is no graph builder here for {checkpoint.architecture}: Levers writes ONNX graphs with "
        "onnxruntime-genai's model builder, which does not know this architecture.",
        f"Pick a model of one of these kinds: {known}.",
    )


def graph_ran(quantized: bool) -> Callable[[Census, Checkpoint], Obstacle | None]:
    """`verify` of a graph: ONNX Runtime has it, and, where it is quantized, low-bit products are in it."""

    def verify(census: Census, checkpoint: Checkpoint) -> Obstacle | None:
        if not census.providers:
            return Obstacle(
                "An ONNX graph was asked for, but the model runs in PyTorch.", "Leave ONNX Runtime out for this model."
            )
        if quantized and not census.operators.get("MatMulNBits"):
            return Obstacle(
                "Quantized weights were asked for, but the graph holds no low-bit product (MatMulNBits).",
                "Use the unquantized ONNX Runtime variant for this model.",
            )
        return None

    return verify


_NO_KERNELS = (
    "ONNX Runtime has no {name} kernels for a decoder on a processor: its graphs compute in fp32 here. Write "
    "fp32+{graph} instead."
)
_STORED = (
    "An ONNX graph is written in a number format of its own, so it is not the library default. Write fp32+{graph}."
)
_NO_STEPS_BACK = (
    "Prompt lookup takes guesses back, and the graph writes its keys and values in place, without steps back."
)


def conflicts(graph: str) -> dict[str, str]:
    """The techniques that do not go with a graph, each with its sentence."""
    halves = {name: _NO_KERNELS.format(name=name, graph=graph) for name in ("bf16", "fp16")}
    others = {"library_default": _STORED.format(graph=graph), "prompt_lookup": _NO_STEPS_BACK}
    return {**halves, **others}
