"""Which kinds of attention transformers has for a model, read from the source text of the installed transformers.

Importing the model's class would bring torch. What a class does not say of itself its bases in the same file do; one
that says nothing has none but the plain kind. Whether a kernel then runs is the worker's to see.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path

PLAIN = "eager"
_FLAGS = {
    "_supports_sdpa": "sdpa",
    "_supports_flash_attn": "flash_attention_2",
    "_supports_flex_attn": "flex_attention",
}


def attentions(model_type: str, architecture: str) -> tuple[str, ...]:
    """The kinds that the class `architecture` takes, "eager" first; () where its source is not found."""
    path = _source(model_type)
    return _in_source(path, architecture) if path is not None else ()


def _source(model_type: str) -> Path | None:
    folder = model_type.replace("-", "_")
    spec = importlib.util.find_spec("transformers") if folder.isidentifier() else None
    places = (spec.submodule_search_locations or []) if spec else []
    paths = (Path(place) / "models" / folder / f"modeling_{folder}.py" for place in places)
    return next((path for path in paths if path.is_file()), None)


@functools.cache
def _in_source(path: Path, architecture: str) -> tuple[str, ...]:
    classes = {node.name: node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef)}
    if architecture not in classes:
        return ()
    said = {flag: _said(flag, architecture, classes) for flag in _FLAGS}
    return (PLAIN, *(kind for flag, kind in _FLAGS.items() if said[flag]))


def _said(flag: str, name: str, classes: dict[str, ast.ClassDef]) -> bool | None:
    """What a class or the nearest of its bases in this file says of the flag; None where none does."""
    if name not in classes:
        return None
    for node in classes[name].body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == flag for target in targets):
                return isinstance(node.value, ast.Constant) and node.value.value is True
    bases = (base.id for base in classes[name].bases if isinstance(base, ast.Name))
    return next((found for base in bases if (found := _said(flag, base, classes)) is not None), None)
