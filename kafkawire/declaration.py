"""The declaration of a message, once for all its versions (decision).

    @struct
    class MetadataResponseBroker:
        node_id: int = field(INT32)
        host: str = field(STRING)
        port: int = field(INT32)
        rack: str | None = field(STRING, since=1, nullable=1, default=None, ignorable=True)

`@struct` turns the class into a keyword-only dataclass with slots, in which every field has a
default; `@message(versions=..., flexible=...)` does the same for a complete request or response.
The declaration remains available as `layout_of(class)`; readers and writers are compiled from it.

On purpose, `field` is not declared to type checkers as a field specifier. They treat it as an
ordinary default value, check its type against the annotation, and know that no argument of the
class is required.
"""

import dataclasses
import enum
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar, cast, dataclass_transform, overload

from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.primitives import Records

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Kind(enum.Enum):
    """Layout of a type on the wire."""

    FIXED = enum.auto()
    UUID = enum.auto()
    STRING = enum.auto()
    BYTES = enum.auto()
    RECORDS = enum.auto()
    ARRAY = enum.auto()
    STRUCT = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class WireType(Generic[T_co]):
    """A type of the protocol; `T_co` is the Python type of its values.

    `code` is the `struct` format of a FIXED or UUID type, `element` the type of an ARRAY's
    elements, `layout` the layout of a STRUCT.
    """

    name: str
    kind: Kind
    default: T_co
    code: str = ""
    size_bytes: int = 0
    element: "WireType[object] | None" = None
    layout: "Layout | None" = None


def _number(name: str, code: str, size_bytes: int) -> WireType[int]:
    return WireType(name=name, kind=Kind.FIXED, default=0, code=code, size_bytes=size_bytes)


BOOL: Final[WireType[bool]] = WireType(
    name="bool", kind=Kind.FIXED, default=False, code="?", size_bytes=1
)
INT8: Final = _number("int8", "b", 1)
INT16: Final = _number("int16", "h", 2)
UINT16: Final = _number("uint16", "H", 2)
INT32: Final = _number("int32", "i", 4)
UINT32: Final = _number("uint32", "I", 4)
INT64: Final = _number("int64", "q", 8)
FLOAT64: Final[WireType[float]] = WireType(
    name="float64", kind=Kind.FIXED, default=0.0, code="d", size_bytes=8
)
UUID: Final[WireType[uuid.UUID]] = WireType(
    name="uuid", kind=Kind.UUID, default=ZERO_TOPIC_ID, code="16s", size_bytes=16
)
STRING: Final[WireType[str]] = WireType(name="string", kind=Kind.STRING, default="")
BYTES: Final[WireType[bytes]] = WireType(name="bytes", kind=Kind.BYTES, default=b"")
RECORDS: Final[WireType[Records | None]] = WireType(name="records", kind=Kind.RECORDS, default=None)
"""Record batches: never copied, and null when absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One declared field.

    It is present in the versions `since` to `until` (inclusive), may be null from version
    `nullable` on, and is part of the tagged section if it has a `tag`. A value other than
    `default` in a version without the field is dropped if `ignorable`, and rejected otherwise.
    """

    name: str
    wire: WireType[object]
    since: int
    until: int | None
    nullable: int | None
    tag: int | None
    ignorable: bool
    default: object

    def is_in(self, version: int) -> bool:
        """Whether the field is on the wire in this version."""
        return self.since <= version and (self.until is None or version <= self.until)

    def is_nullable_in(self, version: int) -> bool:
        """Whether the field may be null in this version."""
        return self.nullable is not None and self.nullable <= version


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All fields of a struct or message in the order of the wire.

    `versions` is (first, last) for a message and None for a struct, which shares the versions of
    the messages that contain it; `flexible` is the first flexible version, if any.
    """

    type: type
    fields: tuple[Field, ...]
    versions: tuple[int, int] | None
    flexible: int | None

    def is_flexible_in(self, version: int) -> bool:
        """Whether this version has tagged fields and compact lengths (KIP-482)."""
        return self.flexible is not None and version >= self.flexible


_layouts: Final[dict[type, Layout]] = {}


def layout_of(declared: type) -> Layout:
    """Return the layout of a declared class; raise KeyError for any other class."""
    return _layouts[declared]


_Wire: TypeAlias = WireType[T] | type[T]


class _Unset(enum.Enum):
    UNSET = enum.auto()


_UNSET: Final = _Unset.UNSET


@dataclass(frozen=True, slots=True)
class _Declared:
    """Placeholder that `field` leaves in the class body until the class is built."""

    complete: Callable[[str], Field]


@overload
def field(
    wire: _Wire[T],
    *,
    since: int = ...,
    until: int | None = ...,
    tag: int | None = ...,
    ignorable: bool = ...,
    default: T | _Unset = ...,
) -> T: ...


@overload
def field(
    wire: _Wire[T],
    *,
    nullable: int,
    since: int = ...,
    until: int | None = ...,
    tag: int | None = ...,
    ignorable: bool = ...,
    default: T | _Unset | None = ...,
) -> T | None: ...


def field(
    wire: _Wire[T],
    *,
    since: int = 0,
    until: int | None = None,
    nullable: int | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    default: T | _Unset | None = _UNSET,
) -> T | None:
    """Declare a field (see `Field` for the arguments); `default` defaults to that of the type."""
    resolved = _resolve(wire)

    def complete(name: str) -> Field:
        return Field(
            name=name,
            wire=resolved,
            since=since,
            until=until,
            nullable=0 if resolved.kind is Kind.RECORDS else nullable,
            tag=tag,
            ignorable=ignorable,
            default=resolved.default if default is _UNSET else default,
        )

    # A placeholder, which the decorator replaces by the default.
    return cast(T, _Declared(complete))


def array(element: _Wire[T]) -> WireType[Sequence[T]]:
    """Return the type of an array of `element`, which is a type or a `@struct` class."""
    resolved = _resolve(element)
    return WireType(name=f"[]{resolved.name}", kind=Kind.ARRAY, default=(), element=resolved)


def _resolve(wire: _Wire[T]) -> WireType[object]:
    if isinstance(wire, WireType):
        return wire
    layout = layout_of(wire)
    return WireType(
        name=wire.__name__, kind=Kind.STRUCT, default=_shared_default(layout), layout=layout
    )


@dataclass_transform(kw_only_default=True)
def struct(declared: type[T]) -> type[T]:
    """Make `declared` a struct that messages can contain."""
    return _build(declared, versions=None, flexible=None)


@dataclass_transform(kw_only_default=True)
def message(
    *, versions: tuple[int, int], flexible: int | None = None
) -> Callable[[type[T]], type[T]]:
    """Make the class a message with `versions` (both inclusive), flexible from `flexible` on."""

    def build(declared: type[T]) -> type[T]:
        return _build(declared, versions=versions, flexible=flexible)

    return build


def _build(declared: type[T], *, versions: tuple[int, int] | None, flexible: int | None) -> type[T]:
    fields = []
    for name, value in list(vars(declared).items()):
        if isinstance(value, _Declared):
            fields.append(value.complete(name))
            setattr(declared, name, dataclasses.field(default=fields[-1].default))
    # Letting `dataclass` generate these three would take four fifths of a class's build time.
    declared.__doc__ = declared.__doc__ or "Part of a message."
    setattr(declared, "__eq__", _equals)  # noqa: B010
    setattr(declared, "__repr__", _describe)  # noqa: B010
    built = dataclass(slots=True, kw_only=True, eq=False, repr=False)(declared)
    _layouts[built] = Layout(type=built, fields=tuple(fields), versions=versions, flexible=flexible)
    return built


def _equals(self: object, other: object) -> bool:
    """Whether all fields are equal; an array equals any sequence of equal elements."""
    layout = _layout_of_value(self)
    if layout is None or _layout_of_value(other) is not layout:
        return False
    return all(
        _comparable(getattr(self, each.name)) == _comparable(getattr(other, each.name))
        for each in layout.fields
    )


def _describe(self: object) -> str:
    """Return the class name with the fields that differ from their defaults."""
    layout = _layout_of_value(self)
    assert layout is not None
    shown = [
        f"{each.name}={getattr(self, each.name)!r}"
        for each in layout.fields
        if _comparable(getattr(self, each.name)) != _comparable(each.default)
    ]
    return f"{layout.type.__name__}({', '.join(shown)})"


def _comparable(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _layout_of_value(value: object) -> Layout | None:
    # The shared default of a struct has its own subclass.
    kind = type(value)
    return _layouts.get(kind) or _layouts.get(kind.__base__ or kind)


def _shared_default(layout: Layout) -> object:
    """Return the immutable value that all absent structs of this type share."""

    def refuse(_self: object, name: str, _value: object) -> None:
        raise AttributeError(
            f"{layout.type.__name__}.{name} belongs to the shared default: assign a new struct"
        )

    members = {"__slots__": (), "__setattr__": refuse, "__hash__": object.__hash__}
    value: object = object.__new__(type(layout.type.__name__, (layout.type,), members))
    for each in layout.fields:
        object.__setattr__(value, each.name, each.default)
    return value
