"""What generate() is told beside the length of an answer: its cache, its compiled step, how the next token is chosen.

Covers the merged GenerationOptions of a stack as transformers' GenerationConfig, and what generate() then really built,
which it alone knows. Compiling is in `compiling.py`, asking is in `generating.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from transformers import GenerationConfig

from optimizers.techniques.base import GenerationOptions
from optimizers.techniques.shared_decoding import CACHE_STEP, keywords
from optimizers.worker.compiling import compile_config

_MODES = {"greedy_search": "greedy", "sample": "sampling", "assisted_generation": "prompt_lookup"}


def cache_tokens(longest_tokens: int) -> int:
    """The length of a static cache that holds the longest request: the next multiple of 64."""
    return -(-max(1, longest_tokens) // CACHE_STEP) * CACHE_STEP


class Decoding:
    """How one loaded model decodes. `cache` and `mode` are what generate() built and did when it last ran: "dynamic",
    "static", "none" or "own" (a state that the model keeps by itself), and "greedy", "sampling" or "prompt_lookup"."""

    def __init__(self, model: Any, options: GenerationOptions, longest_tokens: int, pad_id: int | None) -> None:
        self.options = options
        self.cache = ""
        self.mode = ""
        self._pad_id = pad_id
        self._cache_tokens = cache_tokens(longest_tokens)
        self._kept: Any = None
        self._compile = compile_config(options.compile_mode, model.device.type) if options.compile_mode else None
        self._watch(model)

    def config(self, max_new_tokens: int, forced: bool) -> GenerationConfig:
        """The config of one request of exactly so many tokens. `forced`: each token is looked at or given from outside,
        one by one, which guessing ahead does not allow; prompt lookup then decodes plainly."""
        options = self.options
        if self._kept is not None:
            options = dataclasses.replace(options, cache=None)
        if forced:
            options = dataclasses.replace(options, prompt_lookup_tokens=None)
        said = keywords(options)
        if options.cache == "static":
            said["max_cache_len"] = self._cache_tokens
        if self._compile is not None:
            said["compile_config"] = self._compile
        return GenerationConfig(max_new_tokens=max_new_tokens, eos_token_id=None, pad_token_id=self._pad_id, **said)

    def begin(self) -> dict[str, Any]:
        """Before each request: chance starts from the same place, so that the request can be repeated. Returns what
        generate() is given beside its config: compiled code with packed weights is bound to the tensors of one cache,
        so the first request's serves all."""
        if self.options.sampling is not None:
            torch.manual_seed(self.options.sampling.seed)
        if self._kept is None:
            return {}
        with torch.inference_mode():
            self._kept.reset()
        return {"cache": self._kept}

    def _watch(self, model: Any) -> None:
        """See which cache generate() makes, and by which of its methods it decodes
        (GenerationMixin._prepare_cache_for_generation)."""
        original = model._prepare_cache_for_generation

        def watched(config: Any, model_kwargs: dict[str, Any], mode: Any, *more: Any, **named: Any) -> Any:
            result = original(config, model_kwargs, mode, *more, **named)
            self.cache = _kind(model_kwargs.get("cache"), config.use_cache)
            if self._compile is not None and self.cache == "static":
                self._kept = model_kwargs.get("cache")
            self.mode = _MODES.get(str(getattr(mode, "value", mode)), str(getattr(mode, "value", mode)))
            return result

        model._prepare_cache_for_generation = watched


def _kind(cache: Any, wanted: bool) -> str:
    if cache is None:
        return "own" if wanted else "none"
    name = type(cache).__name__
    return name.removesuffix("Cache").lower() or name
