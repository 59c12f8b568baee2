"""Limits of the values that a few bytes can become under a schema (decision).

A peer chooses the bytes, and often the schema, too. Three shapes make small data large: deep
nesting, arrays of items that take no byte, and records that contain many such values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.errors import SchemaError

PARSED: Final = "__fastavro_parsed"
"""The field by which fastavro knows a schema that it has checked."""
MAX_NESTING: Final = 200
"""Limit of brackets within brackets in a schema."""
MAX_DEPTH: Final = 100
"""Limit of types within types; a type within itself counts once."""
MAX_EMPTY_VALUES: Final = 16
"""Limit of values without bytes in one record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The extent of the values of a schema."""

    depth: int = 1
    """Types within types, from 1."""
    takes_bytes: bool = True
    """Whether every value takes at least one byte."""
    empty_values: int = 0
    """Number of values without bytes that one value contains, itself included."""
    is_recursive: bool = False
    """Whether a type contains itself, so that the data alone limits the depth of a value."""


_LEAF: Final = Shape()
_NULL: Final = Shape(takes_bytes=False, empty_values=1)
_ITSELF: Final = Shape(is_recursive=True)


def check_json(schema: Any) -> None:
    """Check a schema, as JSON, before fastavro recurses into it.

    Raises:
        SchemaError: brackets are nested too deeply, or a name is one that fastavro adds itself.
    """
    level = [schema]
    for _ in range(MAX_NESTING):
        level = [child for each in level for child in _children(each)]
        if not level:
            return
    raise SchemaError(f"the schema has brackets that are nested more than {MAX_NESTING} deep")


def _children(node: Any) -> list[Any]:
    if not isinstance(node, dict):
        return node if isinstance(node, list) else []
    if PARSED in node:
        raise SchemaError(f"the schema has a field {PARSED}, which would switch off its checks")
    return list(node.values())


def measure(schema: Any, named: Mapping[str, Any]) -> Shape:
    """Return the shape of a parsed schema; `named` has its records, enums and fixed types.

    Raises:
        SchemaError: a few bytes could become values without limit, or the schema is too deep.
    """
    return _Measure(named).of(schema, 1)


class _Measure:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, Shape] = {}

    def of(self, schema: Any, level: int) -> Shape:
        """Return the shape of `schema`, a type within `level` - 1 others."""
        _check_depth(level)
        if isinstance(schema, str):
            return self._name(schema, level)
        if isinstance(schema, list):
            # The number of the branch is a byte.
            return _around([self.of(each, level + 1) for each in schema])
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, level)
        if kind in ("array", "map"):
            items = self.of(schema["items" if kind == "array" else "values"], level + 1)
            if kind == "array" and not items.takes_bytes:
                raise SchemaError("the schema has an array of items that take no bytes")
            return _around([items])
        if kind == "fixed":
            return _LEAF if schema["size"] else _NULL
        return _LEAF if kind == "enum" else self.of(kind, level + 1)

    def _name(self, name: str, level: int) -> Shape:
        if name not in self._named:
            return _NULL if name == "null" else _LEAF
        known = self._known.get(name)
        return known or self.of(self._named[name], level + 1)

    def _record(self, schema: Mapping[str, Any], level: int) -> Shape:
        name = schema["name"]
        # Until its fields are known; a type within itself stands behind a byte, or never ends.
        self._known[name] = _ITSELF
        fields = [self.of(field["type"], level + 1) for field in schema["fields"]]
        takes_bytes = any(field.takes_bytes for field in fields)
        empty_values = sum(field.empty_values for field in fields) + (not takes_bytes)
        if empty_values > MAX_EMPTY_VALUES:
            raise SchemaError(
                f"record {name} of the schema has more than {MAX_EMPTY_VALUES} values that take "
                "no bytes"
            )
        found = _around(fields, takes_bytes=takes_bytes, empty_values=empty_values)
        self._known[name] = found
        return found


def _around(shapes: Sequence[Shape], *, takes_bytes: bool = True, empty_values: int = 0) -> Shape:
    """Return the shape of a type that contains these."""
    depth = 1 + max((shape.depth for shape in shapes), default=0)
    _check_depth(depth)
    return Shape(
        depth=depth,
        takes_bytes=takes_bytes,
        empty_values=empty_values,
        is_recursive=any(shape.is_recursive for shape in shapes),
    )


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise SchemaError(f"the schema has types that are nested more than {MAX_DEPTH} deep")
