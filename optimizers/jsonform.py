"""Records to JSON and back, every field checked on the way in. Covers any dataclass; names none."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def to_json(record: object, kind: Any = None, indent: int | None = None) -> str:
    """The JSON text of a record; `kind` names a union when the record is one of its members."""
    return _adapter(kind or type(record)).dump_json(record, indent=indent).decode()


def from_json(kind: Any, text: str | bytes) -> Any:
    """The record of type `kind` in `text`, every field checked. Raises pydantic.ValidationError."""
    return _adapter(kind).validate_json(text)
