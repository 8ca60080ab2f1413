"""What a library is asked for, said once: a worker makes it, a recipe writes it as code, so that the two cannot differ.

Covers names in a module (a torch dtype) and calls with literals, names and further calls as arguments. Nothing is
imported before something is made. It holds no technique of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Named:
    """Something that a module has by this name, written with the module before it: torch.bfloat16."""

    module: str
    name: str

    def made(self) -> Any:
        """The thing itself. Raises ImportError where its library is missing."""
        return getattr(importlib.import_module(self.module), self.name)

    def written(self) -> str:
        return f"{self.module}.{self.name}"

    def imports(self) -> tuple[str, ...]:
        """The import lines that `written` needs."""
        return (f"import {self.module}",)


@dataclass(frozen=True)
class Call:
    """A call of what a module has by this name: Int8WeightOnlyConfig()."""

    module: str
    name: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)

    def made(self) -> Any:
        """What the call gives. Raises ImportError where its library is missing."""
        called = getattr(importlib.import_module(self.module), self.name)
        return called(*map(_made, self.arguments), **{name: _made(value) for name, value in self.named.items()})

    def written(self) -> str:
        said = [*map(written, self.arguments), *(f"{name}={written(value)}" for name, value in self.named.items())]
        return f"{self.name}({', '.join(said)})"

    def imports(self) -> tuple[str, ...]:
        """The import lines that `written` needs."""
        said = (*self.arguments, *self.named.values())
        inner = (value.imports() for value in said if isinstance(value, Call | Named))
        return (f"from {self.module} import {self.name}", *(line for lines in inner for line in lines))


def written(value: Any) -> str:
    """A call, a name or a literal as code."""
    return value.written() if isinstance(value, Call | Named) else repr(value)


def _made(value: Any) -> Any:
    return value.made() if isinstance(value, Call | Named) else value
