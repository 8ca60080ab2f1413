"""Optimum's ONNX Runtime route: the model exported by Optimum and run by its ORTModelForCausalLM, in fp32.

The graph is traced from PyTorch and has no fused attention; keys and values grow by a copy at each step, and arrays
are handed back and forth between PyTorch and the session, as the class does by itself on a processor. It needs an older
transformers than the program does, so its worker runs in an engine's environment. Before anything is measured the
loaded graph must agree with the program's own PyTorch, on a single prompt and on a padded batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optimizers.schema import Checkpoint, Explanation, Machine, Obstacle, Promise
from optimizers.techniques.base import Effort, GenerationOptions, LoadContext, LoadOptions, Recipe, Technique
from optimizers.techniques.graphs import written
from optimizers.techniques.graphs.loading import import_early
from optimizers.techniques.graphs.recipes import TAKEN_SLOTS, conflicts, graph_ran
from optimizers.techniques.shared import (
    already_quantized,
    installs_engine,
    lacks_engine,
    lacks_package,
    processors_only,
)

_TITLE = "ONNX Runtime through Optimum"
_ENGINE = written.OPTIMUM
_SOURCE = "Optimum documentation, ONNX Runtime: huggingface.co/docs/optimum-onnx"

_EXPORT_S_PER_PARAMETER = 5e-7
_NO_STEPS_BACK = "Prompt lookup takes guesses back, which Optimum's model class does not support."

# Decoders of which Optimum 2.1 with transformers 4.57 wrote a graph that agrees with PyTorch in transformers 5 (KL
# under 1e-7, alone and in a padded batch, on small random models with fewer heads for keys and values where that is
# possible). Left out: those that it cannot export (Ernie 4.5, HunYuan), those whose grouped heads its model class
# miscounts (Gemma 2, OLMo, OLMo 2, Phi, Phi 3, Falcon), and Gemma 3, whose rotary embeddings differ between layers.
ARCHITECTURES = frozenset(
    {
        "ArceeForCausalLM",
        "BloomForCausalLM",
        "CodeGenForCausalLM",
        "CohereForCausalLM",
        "GPT2LMHeadModel",
        "GPTJForCausalLM",
        "GPTNeoForCausalLM",
        "GPTNeoXForCausalLM",
        "GemmaForCausalLM",
        "GlmForCausalLM",
        "GraniteForCausalLM",
        "HeliumForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "MptForCausalLM",
        "NemotronForCausalLM",
        "OPTForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "SmolLM3ForCausalLM",
        "StableLmForCausalLM",
    }
)


def _why_not(machine: Machine, checkpoint: Checkpoint | None) -> Obstacle | None:
    missing = lacks_package(machine, "onnxruntime") or lacks_engine(machine, _ENGINE)
    missing = missing or processors_only(machine, _TITLE)
    if missing is not None or checkpoint is None:
        return missing
    return already_quantized(checkpoint) or _unknown(checkpoint)


def _unknown(checkpoint: Checkpoint) -> Obstacle | None:
    if checkpoint.architecture in ARCHITECTURES:
        return None
    known = ", ".join(sorted(name.removesuffix("ForCausalLM").removesuffix("LMHeadModel") for name in ARCHITECTURES))
    return Obstacle(
        f"Optimum's graph of a {checkpoint.architecture} is not known to agree with PyTorch.",
        f"Pick a model of one of these kinds: {known}.",
    )


def _options(context: LoadContext) -> LoadOptions:
    """Nothing for from_pretrained, but both libraries are imported now, as the program's and not the model's share."""
    from optimizers.techniques.graphs import optimum

    optimum.model_class()
    return import_early(context)


def _load(context: LoadContext, stage: Callable[[str], None]) -> Any:
    from optimizers.techniques.graphs import optimum

    return optimum.load(context, stage)


def _recipe(context: LoadContext, generation: GenerationOptions) -> Recipe:
    return written.optimum()


TECHNIQUE = Technique(
    id="optimum_onnxruntime",
    slot="runtime",
    title=_TITLE,
    summary="The model exported to ONNX and run by Optimum's model class, the way that its documentation shows.",
    about=Explanation(
        "The usual road to ONNX: the model is traced as PyTorch runs it and exported operator by operator, then ONNX "
        "Runtime fuses what it recognizes, and Optimum's class drives it as a transformers model. Less is fused than "
        "in a graph written for the architecture. It needs an older transformers, so it runs in an environment of its "
        "own, which the first use installs.",
        _SOURCE,
    ),
    promises=(
        Promise(
            "Faster inference than the framework it came from", "faster than PyTorch", _SOURCE, "decode", 1.0, None
        ),
    ),
    also_fills=TAKEN_SLOTS,
    why_not=_why_not,
    warn=installs_engine(_ENGINE),
    options=_options,
    load=_load,
    recipe=_recipe,
    verify=graph_ran(quantized=False),
    holds_scores=True,
    slow_to_prepare=True,
    effort=Effort(once_s_per_parameter=_EXPORT_S_PER_PARAMETER),
    engine=_ENGINE,
    conflicts={**conflicts("optimum_onnxruntime"), "prompt_lookup": _NO_STEPS_BACK},
)
