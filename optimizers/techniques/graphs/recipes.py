"""Which graphs can be written: recipes, the road that an architecture takes, and what stands in the way. Pure.

The builder is onnxruntime-genai's, which writes a decoder's graph with fused operators directly instead of tracing it.
The exporter is transformers', which traces any decoder whose cache is keys and values, and takes minutes. It was tried
on small random models of GPT-2, GPT-Neo, GPT-NeoX, GPT-J, OPT, Bloom, Falcon, StableLM and Phi: KL under 1e-7, alone
and in a padded batch, and padding left their 8- and 4-bit graphs as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from optimizers.schema import Census, Checkpoint, Machine, Obstacle, Slot
from optimizers.techniques.shared import already_quantized, lacks_package, processors_only, slow_int8

# A graph has its own attention, weights and cache, and is compiled ahead: one runtime fills all of these slots.
TAKEN_SLOTS: tuple[Slot, ...] = ("attention", "weights", "compile", "cache")

Road = Literal["builder", "exporter", "optimum"]
PACKAGES: dict[Road, tuple[str, ...]] = {
    "builder": ("onnxruntime", "onnxruntime-genai"),
    "exporter": ("onnxruntime", "onnxscript"),
}

# Writing a graph of 135 million parameters took 7 to 10 seconds, and checking it against PyTorch a few more.
GRAPH_S_PER_PARAMETER = 1e-7
# Tracing the 30 layers of the same model took 92 to 97 seconds.
_TRACE_S, _TRACE_S_PER_LAYER = 20.0, 2.5

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


# Model types that keep a state of their own between tokens (state-space, recurrent and linear attention layers), by a
# part of their names: those that transformers 5.24 marks as stateful, and XLNet and Reformer.
_OWN_STATE = (
    *("mamba", "jamba", "bamba", "zamba", "rwkv", "xlstm", "recurrent_gemma", "falcon_h1", "granitemoehybrid", "zaya"),
    *("nemotron_h", "lfm2", "minimax", "qwen3_next", "qwen3_5", "qwen4_exp", "olmo_hybrid", "kimi_linear", "lara_mini"),
    *("bailing_hybrid", "deepseek_v4", "glm5_next", "minicpmv4", "xlnet", "reformer"),
)
_WITHOUT = ("minimax_m2", "minimax_m3")


@dataclass(frozen=True)
class Recipe:
    """How a graph is written: its precision, the road, and the builder's extra options, each "name=value"."""

    precision: Literal["fp32", "int8", "int4"]
    options: tuple[str, ...] = ()
    road: Road = "builder"

    @property
    def quantized(self) -> bool:
        return self.precision != "fp32"

    def for_checkpoint(self, checkpoint: Checkpoint) -> Recipe:
        """The recipe on the road that the checkpoint's architecture takes; the builder's options stay on its own."""
        road = road_of(checkpoint)
        return self if road == self.road else replace(self, road=road, options=())


def road_of(checkpoint: Checkpoint) -> Road:
    """Who writes the graph of this architecture."""
    return "builder" if checkpoint.architecture in ARCHITECTURES else "exporter"


def tracing_s(checkpoint: Checkpoint) -> float:
    """Seconds that the exporter takes, roughly; 0 where the builder writes the graph."""
    return 0.0 if road_of(checkpoint) == "builder" else _TRACE_S + checkpoint.layers * _TRACE_S_PER_LAYER


def why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    """What stands in the way of every graph: a package, a checkpoint that is quantized, a state that no graph carries.

    What else the exporter cannot do is found while it traces, and said then."""
    packages = PACKAGES["builder" if checkpoint is None else road_of(checkpoint)]
    missing = next((found for package in packages if (found := lacks_package(machine, package))), None)
    missing = missing or processors_only(machine, "ONNX Runtime, as installed here,")
    if missing is not None or checkpoint is None:
        return missing
    return already_quantized(checkpoint) or _own_state(checkpoint)


def _own_state(checkpoint: Checkpoint) -> Obstacle | None:
    kind = checkpoint.model_type.lower()
    if not any(name in kind for name in _OWN_STATE) or any(name in kind for name in _WITHOUT):
        return None
    return Obstacle(
        f"A {checkpoint.model_type} model keeps a state of its own kind between tokens, and the ONNX graphs here carry "
        "keys and values.",
        "Pick a model that is a transformer throughout, or leave ONNX Runtime out.",
    )


def warn(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    """The warning of a graph that has to be traced."""
    if checkpoint is None or road_of(checkpoint) == "builder":
        return None
    return (
        f"The graph of {checkpoint.architecture} has to be traced by transformers' exporter, which takes minutes the "
        "first time; it is kept for the next run."
    )


def warn_quantized(machine: Machine, checkpoint: Checkpoint | None) -> str | None:
    """The same for a quantized graph, which computes in whole numbers."""
    said = [text for text in (slow_int8(machine, checkpoint), warn(machine, checkpoint)) if text is not None]
    return " ".join(said) or None


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
