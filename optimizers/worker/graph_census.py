"""The census of a model that is an ONNX graph: from the graph's file and the session, and from one tiny request.

Covers operators, providers, bytes, what was quantized, and how the graph compared with PyTorch when it was loaded.
"""

from __future__ import annotations

import torch

from optimizers.schema import Census
from optimizers.techniques.graphs import facts
from optimizers.techniques.graphs.gate import Agreement
from optimizers.worker.generating import Generator

_TOKENS = 2


def take(generator: Generator) -> Census:
    """What the loaded graph is and where it runs."""
    loaded = generator.loaded
    graph = loaded.model.graph
    found = facts.read(graph.folder)
    ids = torch.zeros(1, 4, dtype=torch.long)
    output = generator.generate({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, _TOKENS)
    return Census(
        bytes_by_dtype=found.bytes_by_dtype,
        modules_converted=found.converted,
        modules_skipped=found.skipped if found.converted else (),
        attention=found.attention,
        attention_kernel="ONNX Runtime",
        inference_mode=output.is_inference(),
        module_kinds=found.operators,
        threads=graph.session.get_session_options().intra_op_num_threads,
        providers=tuple(graph.session.get_providers()),
        quantization=loaded.own_quantization,
        cache=generator.decoding.cache,
        decoding=generator.decoding.mode,
        operators=found.operators,
        checked=in_words(loaded.model.agreement),
        prompt_logits=generator.prompt_logits,
    )


def in_words(agreement: Agreement) -> str:
    """The gate's figures as a sentence."""
    return (
        f"Held against PyTorch in fp32 when it was loaded: mean KL divergence {agreement.single:.2g} nats on single "
        f"prompts, {agreement.batch:.2g} on a padded batch; padding itself changed {agreement.padding:.2g}."
    )
