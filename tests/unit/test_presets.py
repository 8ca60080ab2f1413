"""What one press ticks: every name in it exists, nothing that cannot be used is in it, and usual is what it was."""

from __future__ import annotations

from typing import get_args

import pytest

from optimizers import api
from optimizers.planning import parse_stack, preset
from optimizers.planning import presets as room
from optimizers.schema import PresetId
from optimizers.techniques import all_techniques


def test_there_is_one_for_each_name_and_all_that_it_names_exists() -> None:
    assert [one.id for one in room.PRESETS] == list(get_args(PresetId))
    for one in room.PRESETS:
        assert one == preset(one.id)
        assert set(one.ticked) <= set(all_techniques())
        for stack in one.stacks:
            assert "+".join(parse_stack(stack)) == stack  # in slot order, each slot once


def test_what_cannot_be_used_is_left_out() -> None:
    found = preset("fast", {"bf16", "compile", "static_cache", "onnxruntime_int8"})
    assert found.ticked == ("onnxruntime_int8",)
    assert found.stacks == ("bf16+compile+static_cache",)
    assert preset("small", ()).ticked == ()


def test_a_technique_whose_file_is_gone_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = {name: found for name, found in all_techniques().items() if name != "bf16"}
    monkeypatch.setattr(room, "all_techniques", lambda: rest)
    assert preset("cheap").ticked == ("torchao_int8_weight_only",)
    assert preset("fast").stacks == ()


def test_what_is_compared_when_nothing_is_named() -> None:
    assert api.usual() == ("bf16", "torchao_int8_weight_only")
    assert api.usual("ladder") == ("bf16", "compile", "torchao_int8_weight_only")
