"""Fused attention (SDPA): PyTorch's scaled_dot_product_attention, one kernel in place of several steps."""

from __future__ import annotations

from optimizers.schema import Promise
from optimizers.techniques.base import LoadContext, LoadOptions, Technique
from optimizers.techniques.shared import attention_ran


def _options(context: LoadContext) -> LoadOptions:
    return LoadOptions(attention="sdpa")


TECHNIQUE = Technique(
    id="sdpa",
    slot="attention",
    title="Fused attention (SDPA)",
    summary="Attention in one fused kernel of PyTorch; the same result, with less memory traffic.",
    promises=(
        Promise(
            "Faster than plain attention",
            "faster prompt reading",
            "PyTorch documentation, torch.nn.functional.scaled_dot_product_attention",
            "prefill",
            1.0,
            None,
        ),
    ),
    options=_options,
    verify=attention_ran("sdpa", "Fused attention"),
)
