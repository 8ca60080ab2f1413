"""Which attentions transformers has for a model: its source says what its classes would say if they were imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizers.checkpoints import attentions as module
from optimizers.checkpoints.attentions import attentions

SOURCE = """
class BasePreTrainedModel(PreTrainedModel):
    _supports_sdpa = True
    _supports_flash_attn = False
    _supports_flex_attn: bool = True

class XModel(BasePreTrainedModel):
    pass

class XForCausalLM(BasePreTrainedModel, GenerationMixin):
    _supports_flash_attn = True

class Odd(BasePreTrainedModel):
    _supports_sdpa = is_there()
"""


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [
        ("llama", "LlamaForCausalLM"),
        ("gpt2", "GPT2LMHeadModel"),
        ("bloom", "BloomForCausalLM"),
        ("gpt_oss", "GptOssForCausalLM"),
    ],
)
def test_the_source_says_what_the_class_says(model_type: str, architecture: str) -> None:
    import transformers

    found = getattr(transformers, architecture)
    flags = {
        "eager": True,
        "sdpa": found._supports_sdpa,
        "flash_attention_2": found._supports_flash_attn,
        "flex_attention": found._supports_flex_attn,
    }
    assert attentions(model_type, architecture) == tuple(name for name, there in flags.items() if there)


@pytest.mark.parametrize(
    ("architecture", "kinds"),
    [
        ("XModel", ("eager", "sdpa", "flex_attention")),
        ("XForCausalLM", ("eager", "sdpa", "flash_attention_2", "flex_attention")),
        ("Odd", ("eager", "flex_attention")),
        ("Nothing", ()),
    ],
)
def test_a_class_says_it_or_its_base_does(architecture: str, kinds: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "modeling_x.py"
    path.write_text(SOURCE)
    assert module._in_source(path, architecture) == kinds


@pytest.mark.parametrize("model_type", ["", "no-such-model", "../bloom", "a b", "llama.modeling_llama"])
def test_a_type_that_is_none_is_not_known(model_type: str) -> None:
    assert attentions(model_type, "LlamaForCausalLM") == ()
