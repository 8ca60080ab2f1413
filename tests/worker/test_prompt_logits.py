"""For how many positions of a prompt a variant computes logits: read from what the prompt's pass gives back. Graphs are
in test_onnx.py and test_engine_workers.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from driver import facts

from optimizers.protocol import Load
from optimizers.worker import census, generating, loading


@pytest.mark.parametrize(("keeps", "seen"), [(True, "last"), (False, "all")])
def test_for_how_many_positions_of_a_prompt_logits_are_computed(
    keeps: bool, seen: str, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen in what comes back of the prompt's pass; a model without transformers' option computes all."""
    request = loading.prepare(Load(facts(tiny_llama), ("fp32", "sdpa"), 1, 0, 64))
    loaded = loading.load(request, lambda text: None)
    monkeypatch.setattr(loaded.model, "_supports_logits_to_keep", lambda: keeps)
    generator = generating.Generator(loaded)
    assert generator.prompt_logits == ""
    with torch.inference_mode():
        generator.answer(0, "The old captain", 2)
        assert generator.prompt_logits == seen
        assert census.take(generator).census.prompt_logits == seen
