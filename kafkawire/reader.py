"""Generate the source of a function that reads a declared message, and compile it (decision).

There is one straight-line function per (message, version). Nested structs are inlined as loops,
runs of fixed-size fields are one `struct` call, and the first byte of a compact length is part of
the run before it. `print(reader_source(layout, version))` shows the code.

Invariants of the generated code: it compares a length with the remaining bytes, and with the limit
on elements, before it allocates anything; the position only grows; on malformed input it raises
DecodeError, IndexError, ValueError or struct.error, which `schema.decode` turns into a single
DecodeError.
"""

from collections.abc import Callable
from struct import Struct, calcsize
from typing import Final, TypeAlias, cast

from kafkawire import primitives
from kafkawire.declaration import Field, Kind, Layout, WireType
from kafkawire.primitives import Buffer
from kafkawire.source import LENGTH_CODE, Source

Reader: TypeAlias = Callable[[Buffer, int], object]
"""Takes the input, and the limit on the elements of all arrays together."""

_HELPERS: Final[dict[str, object]] = {
    name: getattr(primitives, name)
    for name in (
        "bad_length", "bad_tag_size", "continue_uvarint", "long_string", "malformed_text",
        "read_uvarint", "short", "skip_tags", "too_many", "too_many_items", "too_many_tags",
        "trailing", "uuid_from_bytes",
    )
} | {"new": object.__new__}  # fmt: skip


def compile_reader(layout: Layout, version: int) -> Reader:
    """Return the function that reads its complete input as this message and version."""
    title = f"reader of {layout.type.__name__} v{version}"
    return cast(Reader, _ReaderSource(layout, version).compile("read", title))


def reader_source(layout: Layout, version: int) -> str:
    """Return the Python source that `compile_reader` compiles."""
    return _ReaderSource(layout, version).text()


def min_size_bytes(wire: WireType[object], version: int, *, flexible: bool) -> int:
    """Return the minimum size of a value of this type; at least 1.

    The count of an array is checked against this. A struct without any field in some version takes
    no bytes, but counts as 1, so that no array is longer than its input.
    """
    if wire.layout is not None:
        sizes = [
            1 if each.wire.layout and each.nullable is not None
            else min_size_bytes(each.wire, version, flexible=flexible)
            for each in wire.layout.fields
            if each.is_in(version) and each.tag is None
        ]  # fmt: skip
        return max(sum(sizes) + flexible, 1)
    if wire.size_bytes:
        return wire.size_bytes
    return 1 if flexible else _LENGTH_BYTES[wire.kind]


_LENGTH_BYTES: Final = {kind: calcsize(">" + code) for kind, code in LENGTH_CODE.items()}


class _ReaderSource(Source):
    """Generator of one reader.

    `_run` holds the pending fixed-size fields as (target, code), and `_after_run` the lines that
    convert the raw fields to values.
    """

    def __init__(self, layout: Layout, version: int) -> None:
        super().__init__(_HELPERS)
        self._version = version
        self._flexible = layout.is_flexible_in(version)
        self._run: list[tuple[str, str]] = []
        self._after_run: list[str] = []
        self._message(layout)

    def _message(self, layout: Layout) -> None:
        self.open("def read(buf, items_left):")
        if _holds_records(layout, self._version):
            self.emit("if type(buf) is not memoryview: buf = memoryview(buf)")
        else:
            # Slicing bytes is cheaper than slicing a memoryview, and these messages are small.
            self.emit("if type(buf) is not bytes: buf = bytes(buf)")
        self.emit("end = len(buf)")
        self.emit("p = 0")
        result = self._struct(layout)
        self._flush()
        self.emit("if p != end: raise trailing(end - p)")
        self.emit(f"return {result}")

    def _struct(self, layout: Layout) -> str:
        """Read all fields of a struct into a new object; return the variable that holds it."""
        target = self.name("m")
        self.emit(f"{target} = new({self.constant(layout.type.__name__, layout.type)})")
        tagged: list[Field] = []
        for each in layout.fields:
            place = f"{target}.{each.name}"
            if not each.is_in(self._version):
                self.emit(f"{place} = {self.default(layout, each)}")
            elif each.tag is not None:
                self.emit(f"{place} = {self.default(layout, each)}")
                tagged.append(each)
            else:
                self._value(each.wire, place, each.name, each.is_nullable_in(self._version))
        if self._flexible:
            self._tags(target, tagged)
        return target

    def _tags(self, target: str, tagged: list[Field]) -> None:
        count = self.name("n")
        self._fixed(count, "B")
        self._flush()
        if not tagged:
            self.emit(f"if {count}: p = skip_tags(buf, p, {count}, end)")
            return
        self.open(f"if {count}:")
        limit = primitives.MAX_TAGGED_FIELDS
        self.emit(f"if {count} > {limit}: raise too_many_tags({count})")
        self.open(f"for _ in range({count}):")
        tag, size, stop = self.name("tag"), self.name("size"), self.name("stop")
        self.emit(f"{tag}, p = read_uvarint(buf, p)")
        self.emit(f"{size}, p = read_uvarint(buf, p)")
        self.emit(f"{stop} = p + {size}")
        self.emit(f'if {stop} > end: raise short(f"tagged field {{{tag}}}", {size}, end - p)')
        for position, each in enumerate(tagged):
            self.open(f"{'el' if position else ''}if {tag} == {each.tag}:")
            place = f"{target}.{each.name}"
            self._value(each.wire, place, each.name, each.is_nullable_in(self._version))
            self._flush()
            self.emit(f"if p != {stop}: raise bad_tag_size({tag}, p, {stop})")
            self.close()
        self.emit(f"else: p = {stop}")
        self.close(2)

    def _value(self, wire: WireType[object], target: str, label: str, nullable: bool) -> None:
        if wire.kind is Kind.FIXED:
            self._fixed(target, wire.code)
        elif wire.kind is Kind.UUID:
            raw = self.name("id")
            self._fixed(raw, wire.code)
            self._after_run.append(f"{target} = uuid_from_bytes({raw})")
        elif wire.layout is not None:
            self._single_struct(wire.layout, target, nullable)
        else:
            self._sized(wire, target, label, nullable)

    def _single_struct(self, layout: Layout, target: str, nullable: bool) -> None:
        if not nullable:
            self.emit(f"{target} = {self._struct(layout)}")
            return
        present = self.name("n")
        self._fixed(present, "b")
        self._flush()
        self.emit(f"if {present} < 0: {target} = None")
        self.open("else:")
        value = self._struct(layout)
        self._flush()
        self.emit(f"{target} = {value}")
        self.close()

    def _sized(self, wire: WireType[object], target: str, label: str, nullable: bool) -> None:
        """Read a value that starts with its length: a string, bytes, records or an array."""
        length = self.name("n")
        if self._flexible:
            self._fixed(length, "B")
            self._flush()
            self.open(f"if {length} > 127:")
            self.emit(f"{length}, p = continue_uvarint({length}, buf, p)")
            if wire.kind is Kind.STRING:
                limit = primitives.MAX_STRING_BYTES + 1
                self.emit(f"if {length} > {limit}: raise long_string({label!r}, {length} - 1)")
            self.close()
            self.emit(f"{length} -= 1")
        else:
            self._fixed(length, LENGTH_CODE[wire.kind])
            self._flush()
        self.open(f"if {length} >= 0:")
        if wire.element is not None:
            self._array(wire.element, target, label, length)
        else:
            self._slice(wire, target, label, length)
        self.close()
        if nullable:
            self.emit(f"elif {length} == -1: {target} = None")
        self.emit(f"else: raise bad_length({label!r}, {length})")

    def _slice(self, wire: WireType[object], target: str, label: str, length: str) -> None:
        stop = self.name("e")
        self.emit(f"{stop} = p + {length}")
        self.emit(f"if {stop} > end: raise short({label!r}, {length}, end - p)")
        piece = f"buf[p:{stop}]"
        if wire.kind is Kind.STRING:
            self.emit(f'try: {target} = str({piece}, "utf-8")')
            replaced = f"malformed_text({label!r}, {piece})"
            self.emit(f"except UnicodeDecodeError: {target} = {replaced}")
        else:
            value = f"bytes({piece})" if wire.kind is Kind.BYTES else piece
            self.emit(f"{target} = {value}")
        self.emit(f"p = {stop}")

    def _array(self, element: WireType[object], target: str, label: str, count: str) -> None:
        size_bytes = min_size_bytes(element, self._version, flexible=self._flexible)
        check = count if size_bytes == 1 else f"{count} * {size_bytes}"
        self.emit(f"if {check} > end - p: raise too_many({label!r}, {count}, end - p)")
        self.emit(f"items_left -= {count}")
        self.emit(f"if items_left < 0: raise too_many_items({label!r})")
        if element.code in primitives.NUMBER_CODES:
            read = self.constant(
                f"read_{element.name}s", primitives.number_array_reader(element.code)
            )
            self.emit(f"{target} = {read}(buf, p, {count})")
            self.emit(f"p += {check}")
            return
        items = self.name("a")
        self.emit(f"{target} = {items} = []")
        self.open(f"for _ in range({count}):")
        item = self.name("v")
        if element.layout is not None:
            item = self._struct(element.layout)
        else:
            self._value(element, item, label, nullable=False)
        self._flush()
        self.emit(f"{items}.append({item})")
        self.close()

    def _fixed(self, target: str, code: str) -> None:
        self._run.append((target, code))

    def _flush(self) -> None:
        """Read all pending fixed-size fields in one call."""
        if not self._run:
            return
        targets = ", ".join(target for target, _ in self._run)
        codes = "".join(code for _, code in self._run)
        self._run.clear()
        if codes == "B":
            self.emit(f"{targets} = buf[p]")
            self.emit("p += 1")
            return
        shape = Struct(">" + codes)
        unpack = self.constant("unpack_" + codes.replace("?", "t"), shape.unpack_from)
        comma = "" if "," in targets else ","
        self.emit(f"{targets}{comma} = {unpack}(buf, p)")
        self.emit(f"p += {shape.size}")
        for line in self._after_run:
            self.emit(line)
        self._after_run.clear()


def _holds_records(layout: Layout, version: int) -> bool:
    return any(
        each.wire.kind is Kind.RECORDS
        or (each.wire.layout is not None and _holds_records(each.wire.layout, version))
        or (
            each.wire.element is not None
            and each.wire.element.layout is not None
            and _holds_records(each.wire.element.layout, version)
        )
        for each in layout.fields
        if each.is_in(version)
    )
