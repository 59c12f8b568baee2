"""Generate the Cython source of the codecs on the hot path, at build time (decision).

Each struct of the messages below gets a function `read_<struct>` or `write_<struct>` for all
versions, from the same declarations as the general codec. `_codecs.pyx` includes them and calls
them; `_cursor.pxd` and `_output.pxd` describe the common form that they handle, and leave all
others to the general codec. `print(codecs_source())` shows the code.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from kafkawire.declaration import Field, Kind, Layout, WireType, layout_of
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkawire.source import Source

READ: Final = (ProduceRequest, FetchRequest)
WRITTEN: Final = (ProduceResponse, FetchResponse)

TUPLES: Final[Mapping[type, tuple[str, ...]]] = {
    ProduceResponse: ("responses",),
    TopicProduceResponse: ("name", "partition_responses"),
    PartitionProduceResponse: (
        "index", "base_offset", "log_append_time_ms", "log_start_offset",
    ),
}  # fmt: skip
"""The structs that are written from a tuple of these fields, or from the only one.

Their other fields have their defaults.
"""

_C_TYPES: Final = {"b": "int8_t", "h": "int16_t", "i": "int32_t", "q": "int64_t"}


def codecs_source() -> str:
    """Return the Cython source that `_codecs.pyx` includes."""
    source = _CodecsSource()
    for request in READ:
        source.codec(layout_of(request), source.reader)
    for response in WRITTEN:
        source.codec(layout_of(response), source.writer)
    source.choice("Read", "Cursor", READ)
    source.choice("Write", "Output", WRITTEN)
    return source.head() + source.text()


def declarations_state() -> int:
    """Return a checksum of the declarations from which the codecs are generated."""
    return zlib.crc32(repr([layout_of(each) for each in (*READ, *WRITTEN)]).encode())


class _CodecsSource(Source):
    """Generator of a function per struct, for all versions of its message."""

    def __init__(self) -> None:
        super().__init__({})
        self._first, self._last = 0, 0

    def head(self) -> str:
        """Return the definitions of the names in `namespace`."""
        lines = [
            f"from {value.__module__} import {name}"
            for name, value in self.namespace.items()
            if isinstance(value, type)
        ]
        for name in self.namespace:
            struct, _, field = name.partition("_")
            if field:
                lines.append(f"cdef object {name} = {struct}().{field}")
        lines.append(f"DECLARATIONS_STATE = {declarations_state()}")
        return "\n".join(lines) + "\n"

    def codec(self, layout: Layout, emit: Callable[[Layout], None]) -> None:
        """Emit the functions of a struct and of all structs in it."""
        if layout.versions is not None:
            self._first, self._last = layout.versions
        for each in layout.fields:
            inner = (each.wire.element or each.wire).layout
            is_default = each.name not in TUPLES.get(layout.type, (each.name,))
            if inner is not None and each.tag is None and not is_default:
                self.codec(inner, emit)
        self.constant(layout.type.__name__, layout.type)
        emit(layout)

    def choice(self, function: str, state: str, messages: Sequence[type]) -> None:
        """Emit the function that returns the one for a message, or NULL, and sets `state`."""
        verb = function.lower()
        self.open(f"cdef {function} choose_{verb}({state} *state, object kind, int version):")
        for message in messages:
            layout, name = layout_of(message), message.__name__
            assert layout.versions is not None, f"{name} is part of messages, not one"
            self.open(
                f"if kind is {name} and {layout.versions[0]} <= version <= {layout.versions[1]}:"
            )
            self.emit("state.version = version")
            self.emit(f"state.is_flexible = version >= {layout.flexible}")
            self.emit(f"return {verb}_{name}")
            self.close()
        self.emit("return NULL")
        self.close()

    def reader(self, layout: Layout) -> None:
        """Emit the function that returns a struct."""
        name = layout.type.__name__
        self.open(f"cdef object read_{name}(Cursor *cursor):")
        self.emit("cdef list items")
        self.emit(f"m = new({name})")
        for each in layout.fields:
            default = f"m.{each.name} = {self.default(layout, each)}"
            if each.tag is None:
                self._by_version(each, "cursor", partial(self._read, each), default)
            else:
                self.emit(default)
        self.emit("read_no_tags(cursor)")
        self.emit("return m")
        self.close()

    def _read(self, each: Field) -> None:
        if each.wire.element is None:
            self.emit(f"m.{each.name} = {_reading(each.wire, self._is_nullable(each))}")
            return
        self.emit(f"m.{each.name} = items = []")
        self.open("for _ in range(read_count(cursor)):")
        self.emit(f"items.append({_reading(each.wire.element, nullable=False)})")
        self.emit("if not cursor.is_plain: break")
        self.close()

    def writer(self, layout: Layout) -> None:
        """Emit the function that writes a struct."""
        name, names = layout.type.__name__, TUPLES.get(layout.type)
        self.open(f"cdef int write_{name}(Output *out, object m) except -1:")
        if names is not None:
            self.emit(f"{', '.join(names)} = m")
        self.emit("make_room(out, 0)")
        for each in layout.fields:
            if names is None:
                self._field(layout, each, f"m.{each.name}")
            elif each.name in names:
                self._field(layout, each, each.name)
            elif each.tag is None:
                default = self.default(layout, each)
                self._by_version(each, "out", partial(self._write, each, default))
        self.emit("write_no_tags(out)")
        self.emit("return 0")
        self.close()

    def _field(self, layout: Layout, each: Field, place: str) -> None:
        """Write a field, or refuse a value that would be lost or is not of the common form."""
        refusal = f"refuse(out, {self.differs(layout, each, place)})"
        if each.tag is None:
            otherwise = "" if each.ignorable else refusal
            self._by_version(each, "out", partial(self._write, each, place), otherwise)
        else:
            self.emit(refusal)

    def _write(self, each: Field, place: str) -> None:
        nullable, element = self._is_nullable(each), each.wire.element
        if element is None:
            self.emit(_writing(each.wire, place, nullable))
        elif place == "()":
            self.emit("write_length(out, 0, 4)")
        else:
            self.emit(f"items = {place}")
            count = "-1 if items is None else len(items)" if nullable else "len(items)"
            self.emit(f"write_length(out, {count}, 4)")
            self.open(f"for item in items{' or ()' if nullable else ''}:")
            self.emit(_writing(element, "item", nullable=False))
            self.close()

    def _by_version(
        self, each: Field, state: str, emit: Callable[[], None], otherwise: str = ""
    ) -> None:
        """Emit lines for the versions that have a field, and `otherwise` for the others."""
        tests = []
        if each.since > self._first:
            tests.append(f"{state}.version >= {each.since}")
        if each.until is not None and each.until < self._last:
            tests.append(f"{state}.version <= {each.until}")
        if not tests:
            emit()
            return
        self.open(f"if {' and '.join(tests)}:")
        emit()
        self.close()
        if otherwise:
            self.emit(f"else: {otherwise}")

    def _is_nullable(self, each: Field) -> bool:
        """Whether a field may be null in all versions that have it."""
        return each.is_nullable_in(max(each.since, self._first))


def _reading(wire: WireType[object], nullable: bool) -> str:
    """Return an expression that reads a value other than an array."""
    if wire.kind is Kind.FIXED:
        return f"<{_C_TYPES[wire.code]}>read_number(cursor, {wire.size_bytes})"
    if wire.kind is Kind.STRING:
        return f"read_string(cursor, {nullable})"
    return f"read_{wire.name}(cursor)"


def _writing(wire: WireType[object], place: str, nullable: bool) -> str:
    """Return a statement that writes a value other than an array."""
    if wire.kind is Kind.FIXED:
        return f"write_number(out, <uint64_t><{_C_TYPES[wire.code]}>{place}, {wire.size_bytes})"
    if wire.kind is Kind.STRING:
        return f"write_string(out, {place}, {nullable})"
    return f"write_{wire.name}(out, {place})"
