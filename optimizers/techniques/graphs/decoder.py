"""An ONNX graph of a decoder behind a PreTrainedModel, so that transformers' generate() drives it like any other.

Covers greedy decoding, sampling, forced scoring, one pass without a cache, and padded batches, for both kinds of graph
(builder_graph.py, traced_graph.py); stepping back in the cache (assisted decoding, beams) is refused.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from optimizers.techniques.graphs import builder_graph, traced_graph
from optimizers.techniques.graphs.backed import GraphBacked

Graph = builder_graph.BuilderGraph | traced_graph.TracedGraph
State = builder_graph.KeyValues | traced_graph.GrowingKeyValues


def open_graph(folder: Path, threads: int, longest_tokens: int) -> Graph:
    """The graph in `folder`, whichever kind it is: the builder leaves a configuration beside its graphs."""
    if (folder / builder_graph.CONFIG).is_file():
        return builder_graph.BuilderGraph(folder, threads, longest_tokens)
    return traced_graph.TracedGraph(folder, threads)


class GraphDecoder(GraphBacked):
    """What a PreTrainedModel needs to run a graph. Mixed into one by `model_class`, so that importing this is light."""

    main_input_name = "input_ids"
    _is_stateful = True  # generate() then refuses what would step back in the cache

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cpu")

    @property
    def dtype(self) -> Any:
        import torch

        return torch.float32

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # forward makes its own

    def step(self, ids: Any, mask: Any, state: State | None) -> tuple[Any, State]:
        """Logits of the next `ids`, and the state after them."""
        found = self.forward(ids, mask, state)
        return found.logits, found.cache

    def prepare_inputs_for_generation(
        self, input_ids: Any, next_sequence_length: int | None = None, cache: State | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """The ids that the cache does not hold yet, and what forward takes."""
        new = input_ids[:, cache.length :] if cache is not None else input_ids
        kept = {name: kwargs.get(name) for name in ("attention_mask", "use_cache")}
        return {"input_ids": new, "cache": cache, "logits_to_keep": 1, **kept}

    def forward(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        cache: State | None = None,
        use_cache: bool | None = True,
        logits_to_keep: int = 0,
        return_dict: bool | None = True,
    ) -> Any:
        """Logits (batch, asked, vocabulary) for the last `logits_to_keep` positions (0: all), and the cache."""
        import torch
        from transformers.modeling_outputs import ModelOutput

        batch, new = input_ids.shape
        state = self.graph.start(batch, new) if cache is None else cache
        ones = (batch, state.length + new)
        mask = torch.ones(ones, dtype=torch.long) if attention_mask is None else attention_mask
        logits = self.graph.step(state, input_ids, mask, logits_to_keep)
        return ModelOutput(logits=logits, cache=state) if use_cache is not False else ModelOutput(logits=logits)


@lru_cache(maxsize=1)
def model_class() -> Any:
    """The PreTrainedModel that runs a graph."""
    from transformers import GenerationMixin, PreTrainedModel

    return type("GraphModel", (GraphDecoder, PreTrainedModel, GenerationMixin), {"__module__": __name__})


def load_model(folder: Path, checkpoint_folder: str, threads: int, longest_tokens: int, prepare_s: float) -> Any:
    """The model of the graph in `folder`, with the configuration of the checkpoint that it was made from."""
    from transformers import AutoConfig, GenerationConfig

    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    model = model_class()(AutoConfig.from_pretrained(checkpoint_folder, **where))
    model.attach(open_graph(folder, threads, longest_tokens), prepare_s)
    if (Path(checkpoint_folder) / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(checkpoint_folder, local_files_only=True)
    return model.eval()
