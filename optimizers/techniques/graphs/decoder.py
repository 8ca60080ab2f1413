"""An ONNX graph of a decoder behind a PreTrainedModel, so that transformers' generate() drives it like any other.

Keys and values live in buffers that the graph reads and writes in place (past and present are one buffer), bound once;
a step binds the new ids, the mask and a row of logits, and copies nothing. Covers greedy decoding, sampling, forced
scoring, one pass without a cache, and padded batches; stepping back in the cache (assisted decoding, beams) is refused.
"""

from __future__ import annotations

import json
import weakref
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from optimizers.errors import WorkerError
from optimizers.techniques.graphs import store
from optimizers.techniques.graphs.export import POSITIONS

_GROWTH = 64
_FLOATS = {"tensor(float)": "float32", "tensor(float16)": "float16"}
_PAST = "past_key_values."


@dataclass(eq=False)
class _Buffers:
    """Room for `capacity` positions of `batch` rows, each layer (batch, heads, capacity, width), bound to a session."""

    batch: int
    capacity: int
    values: dict[str, Any]
    binding: Any


class KeyValues:
    """What generate() holds as its cache: the first `length` positions of the buffers are in use.

    `valid` counts each row's own tokens where the batch is padded, else None. When nobody holds it any more, its
    buffers serve the next request."""

    is_compileable = False

    def __init__(self, buffers: _Buffers, spare: list[_Buffers]) -> None:
        self.buffers = buffers
        self.length = 0
        self.valid: Any = None
        weakref.finalize(self, spare.append, buffers)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions in use; the same in every layer."""
        return self.length


class Graph:
    """A session, what its inputs are called, and the buffers that no request uses now."""

    def __init__(self, folder: Path, threads: int, longest_tokens: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.folder = folder
        self.threads = threads
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        inputs = self.session.get_inputs()
        self.inputs = {item.name for item in inputs}
        self._past = [item for item in inputs if item.name.startswith(_PAST)]
        self.vocabulary = int(self.session.get_outputs()[0].shape[-1])
        said = json.loads((folder / "genai_config.json").read_text("utf-8"))
        self._head_width = int(said["model"]["decoder"]["head_size"])
        self._longest = longest_tokens
        self._spare: list[_Buffers] = []

    def start(self, batch: int, tokens: int) -> KeyValues:
        """Empty keys and values with room for `tokens` positions and for the longest request known."""
        return KeyValues(self._room(batch, max(tokens, self._longest)), self._spare)

    def make_room(self, state: KeyValues, tokens: int) -> None:
        """Move to larger buffers when `tokens` positions do not fit."""
        old = state.buffers
        if tokens <= old.capacity:
            return
        new = self._room(old.batch, max(tokens, 2 * old.capacity))
        for name, value in old.values.items():
            new.values[name][:, :, : state.length] = value[:, :, : state.length]
        state.buffers = new

    def run(self, state: KeyValues, ids: Any, mask: Any, positions: Any) -> Any:
        """Logits (batch, positions, vocabulary) in float32 of the next `ids`, (batch, new); the state moves on.

        `mask` (batch, length + new) counts each row's tokens, wherever its ones stand."""
        import numpy
        import torch

        binding = state.buffers.binding
        feeds = {"input_ids": ids, "attention_mask": mask, POSITIONS: positions}
        if "position_ids" in self.inputs:
            # The first step's padding stands last; later each row goes on where its own tokens end.
            before = mask.sum(1, keepdim=True) - ids.shape[1] if state.length else torch.zeros_like(ids[:, :1])
            feeds["position_ids"] = before + torch.arange(ids.shape[1])
        for name, tensor in feeds.items():
            if name in self.inputs:
                binding.bind_input(name, "cpu", 0, numpy.int64, tuple(tensor.shape), tensor.data_ptr())
        asked = len(positions) if POSITIONS in self.inputs else ids.shape[1]
        logits = torch.empty((len(ids), asked, self.vocabulary), dtype=torch.float32)
        binding.bind_output("logits", "cpu", 0, numpy.float32, tuple(logits.shape), logits.data_ptr())
        self.session.run_with_iobinding(binding)
        state.length += ids.shape[1]
        return logits if POSITIONS in self.inputs else logits[:, positions]

    def _room(self, batch: int, tokens: int) -> _Buffers:
        for index, spare in enumerate(self._spare):
            if spare.batch == batch and spare.capacity >= tokens:
                return self._spare.pop(index)
        self._spare.clear()
        return self._allocate(batch, -(-tokens // _GROWTH) * _GROWTH)

    def _allocate(self, batch: int, capacity: int) -> _Buffers:
        import numpy
        import onnxruntime

        values = {}
        binding = self.session.io_binding()
        for item in self._past:
            shape = (batch, item.shape[1], capacity, self._head_width)
            values[item.name] = numpy.zeros(shape, _FLOATS[item.type])
            bound = onnxruntime.OrtValue.ortvalue_from_numpy(values[item.name])
            binding.bind_ortvalue_input(item.name, bound)
            binding.bind_ortvalue_output(item.name.replace(_PAST, "present."), bound)
        return _Buffers(batch, capacity, values, binding)


class GraphDecoder:
    """What a PreTrainedModel needs to run a graph. Mixed into one by `model_class`, so that importing this is light."""

    main_input_name = "input_ids"
    _is_stateful = True  # generate() then refuses what would step back in the cache
    graph: Graph
    prepare_s: float
    agreement: Any  # a gate.Agreement; transformers resolves these names when the class is made

    def attach(self, graph: Graph, prepare_s: float) -> None:
        """Take the graph; `prepare_s` is how long it took to be written (0 when it was found)."""
        self.graph = graph
        self.prepare_s = prepare_s

    @property
    def disk_bytes(self) -> int:
        """Bytes of the graph and its weights on disk."""
        return store.disk_bytes(self.graph.folder)

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

    def get_input_embeddings(self) -> Any:
        return None

    def get_output_embeddings(self) -> Any:
        return None

    def prepare_inputs_for_generation(
        self, input_ids: Any, next_sequence_length: int | None = None, cache: KeyValues | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """The ids that the cache does not hold yet, and what forward takes."""
        new = input_ids[:, cache.length :] if cache is not None else input_ids
        kept = {name: kwargs.get(name) for name in ("attention_mask", "use_cache")}
        return {"input_ids": new, "cache": cache, "logits_to_keep": 1, **kept}

    def forward(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        cache: KeyValues | None = None,
        use_cache: bool | None = True,
        logits_to_keep: int = 0,
        return_dict: bool | None = True,
    ) -> Any:
        """Logits (batch, asked, vocabulary) for the last `logits_to_keep` positions (0: all), and the cache."""
        import torch
        from transformers.modeling_outputs import ModelOutput

        batch, new = input_ids.shape
        state = self.graph.start(batch, new) if cache is None else cache
        total = state.length + new
        self.graph.make_room(state, total)
        mask = torch.ones((batch, total), dtype=torch.long) if attention_mask is None else attention_mask
        padded = batch > 1 and not bool(mask.all())
        if padded and cache is None:
            logits = self._padded(state, input_ids, mask, logits_to_keep)
        elif padded and new > 1:
            raise WorkerError(
                "Several tokens at a time were asked of a padded batch that has begun already.",
                "Use a batch without padding, or one token at a time.",
            )
        else:
            first = max(0, new - logits_to_keep) if logits_to_keep else 0
            logits = self.graph.run(state, input_ids.contiguous(), mask.contiguous(), torch.arange(first, new))
        return ModelOutput(logits=logits, cache=state) if use_cache is not False else ModelOutput(logits=logits)

    def _padded(self, state: KeyValues, ids: Any, mask: Any, keep: int) -> Any:
        """The first step of a padded batch. The graph counts a row's tokens from its start, so each row's own tokens go
        first and its padding last; the logits go back to where the tokens stood. Later steps need nothing."""
        import torch

        batch, new = ids.shape
        order = mask.argsort(dim=1, descending=True, stable=True)
        moved = ids.gather(1, order).contiguous()
        if keep == 1 and bool(mask[:, -1].all()):
            last = mask.sum(1) - 1
            asked, row = last.unique(return_inverse=True)
            logits = self.graph.run(state, moved, mask.contiguous(), asked)
            return logits[torch.arange(batch), row].unsqueeze(1)
        logits = self.graph.run(state, moved, mask.contiguous(), torch.arange(new))
        back = order.argsort(dim=1)
        placed = logits.gather(1, back.unsqueeze(-1).expand_as(logits))
        return placed[:, -keep:] if keep else placed


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
    model.attach(Graph(folder, threads, longest_tokens), prepare_s)
    if (Path(checkpoint_folder) / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(checkpoint_folder, local_files_only=True)
    return model.eval()
