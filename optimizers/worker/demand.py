"""What one pass over one token asks of the machine at the least, counted in the loaded model.

Covers bytes of weights as stored and of keys and values, and the number format of products. Nothing is said of models
whose passes read other weights from token to token (mixtures of experts).
"""

from __future__ import annotations

from typing import Any

import torch

from optimizers.limits import Demand
from optimizers.techniques.graphs import facts
from optimizers.techniques.graphs.backed import GraphBacked
from optimizers.worker import census
from optimizers.worker.generating import Generator

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_LATENT = "kv_lora_rank"  # keys and values kept in another form
_FULL = "full_attention"
_MASKS = "bool"  # not weights: what is read of them does not grow with the model


def count(generator: Generator) -> Demand | None:
    """The demand; None where it differs from token to token."""
    model = generator.loaded.model
    config = model.config.get_text_config(decoder=True)
    if any(getattr(config, name, None) for name in _EXPERTS):
        return None
    graph = isinstance(model, GraphBacked)
    computes_in = torch.float32 if graph else model.dtype
    kept = graph or generator.decoding.cache in ("dynamic", "static")
    return Demand(
        weights_bytes=_weights_read(model),
        cache_bytes_per_token=_values_kept(config) * computes_in.itemsize if kept else 0,
        computes_in=str(computes_in).removeprefix("torch."),
    )


def _weights_read(model: Any) -> int:
    """All weights as stored, but of each table of embeddings one row, unless the output head reads it as a whole; masks
    are none."""
    if isinstance(model, GraphBacked):
        return facts.read(model.graph.folder).read_bytes
    total = sum(size for name, size in census.bytes_by_dtype(model).items() if name != _MASKS)
    head = getattr(model.get_output_embeddings(), "weight", None)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding) and module.weight is not head:
            table = sum(part.numel() * part.element_size() for part in census.parts_of(module.weight))
            total -= table - table // module.num_embeddings
    return total


def _values_kept(config: Any) -> int:
    """Values that each token leaves in the cache for every later pass to read: keys and values of all layers that look
    at the whole text; 0 where the config does not say."""
    if getattr(config, _LATENT, None):
        return 0
    kinds = getattr(config, "layer_types", None)
    layers = sum(kind == _FULL for kind in kinds) if kinds else int(getattr(config, "num_hidden_layers", 0) or 0)
    if not kinds and getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        return 0
    heads = int(getattr(config, "num_attention_heads", 0) or 0)
    hidden = int(getattr(config, "hidden_size", 0) or 0)
    width = getattr(config, "head_dim", None) or (hidden // heads if heads else 0)
    return 2 * layers * (_shared_heads(config) or heads) * int(width)


def _shared_heads(config: Any) -> int:
    """Heads of keys and values, where the config says that they are fewer than attention's: it names them, or all share
    one (Falcon's first form; its second repeats them before they are kept)."""
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False):
        return 1
    return int(getattr(config, "num_key_value_heads", None) or 0)
