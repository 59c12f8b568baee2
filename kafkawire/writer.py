"""Generate the source of a function that writes a declared message, and compile it (decision).

This mirrors `reader`: there is one straight-line function per (message, version). Runs of
fixed-size fields are packed in one call, together with compact lengths below 128 and empty tagged
sections. `print(writer_source(layout, version))` shows the code.

A writer is called as `write(out, message, parts)`. It appends to `out` and returns the bytearray
that holds the end of the message. If `parts` is None, that is `out`. Otherwise each non-empty
`records` value is appended to `parts` uncopied, after the bytes before it, and a new bytearray
follows.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias, cast

from kafkawire import primitives
from kafkawire.declaration import Field, Kind, Layout, WireType
from kafkawire.errors import EncodeError
from kafkawire.primitives import Records
from kafkawire.source import LENGTH_CODE, Source

Parts: TypeAlias = list[Records]
Writer: TypeAlias = Callable[[bytearray, object, Parts | None], bytearray]


def absent(field: str, version: int) -> EncodeError:
    """Return the error for a value that this version cannot carry and that must not be lost."""
    return EncodeError(f"{field} is set, but version {version} does not have it")


_HELPERS: Final[dict[str, object]] = {
    "absent": absent,
    "records_size_bytes": primitives.records_size_bytes,
    "string_length": primitives.string_length,
    "uvarint": primitives.uvarint,
}


def compile_writer(layout: Layout, version: int) -> Writer:
    """Return the function that appends a message in this version to a bytearray."""
    title = f"writer of {layout.type.__name__} v{version}"
    return cast(Writer, _WriterSource(layout, version).compile("write", title))


def writer_source(layout: Layout, version: int) -> str:
    """Return the Python source that `compile_writer` compiles."""
    return _WriterSource(layout, version).text()


class _WriterSource(Source):
    """Generator of one writer; `_run` holds pending (expression, code), or (None, "x") for a 0."""

    def __init__(self, layout: Layout, version: int) -> None:
        super().__init__(_HELPERS)
        self._version = version
        self._flexible = layout.is_flexible_in(version)
        self._out = "out"
        self._run: list[tuple[str | None, str]] = []
        self.open("def write(out, m, parts):")
        self._struct(layout, "m")
        self._flush()
        self.emit("return out")

    def _struct(self, layout: Layout, source: str) -> None:
        tagged: list[Field] = []
        for each in layout.fields:
            place = f"{source}.{each.name}"
            if not each.is_in(self._version):
                if not each.ignorable:
                    self._refuse(layout, each, place)
            elif each.tag is not None:
                tagged.append(each)
            else:
                self._value(each.wire, place, nullable=each.is_nullable_in(self._version))
        if self._flexible:
            self._tags(layout, source, tagged)

    def _refuse(self, layout: Layout, each: Field, place: str) -> None:
        test = self.differs(layout, each, place)
        label = f"{layout.type.__name__}.{each.name}"
        self.emit(f"if {test}: raise absent({label!r}, {self._version})")

    def _tags(self, layout: Layout, source: str, tagged: list[Field]) -> None:
        if not tagged:
            self._run.append((None, "x"))
            return
        self._flush()
        tests = [self.differs(layout, each, f"{source}.{each.name}") for each in tagged]
        self.open(f"if {' or '.join(f'({test})' for test in tests)}:")
        count = " + ".join(f"bool({test})" for test in tests)
        self.emit(f"{self._out}.append({count})")
        for each, test in sorted(
            zip(tagged, tests, strict=True), key=lambda pair: pair[0].tag or 0
        ):
            self.open(f"if {test}:")
            self._tagged_value(each, f"{source}.{each.name}")
            self.close()
        self.close()
        self.emit(f"else: {self._out}.append(0)")

    def _tagged_value(self, each: Field, place: str) -> None:
        outer, self._out = self._out, self.name("tagged")
        self.emit(f"{self._out} = bytearray()")
        self._value(each.wire, place, nullable=each.is_nullable_in(self._version))
        self._flush()
        inner, self._out = self._out, outer
        self.emit(f"{outer} += uvarint({each.tag}) + uvarint(len({inner})) + {inner}")

    def _value(self, wire: WireType[object], place: str, *, nullable: bool) -> None:
        if wire.kind is Kind.FIXED:
            self._run.append((place, wire.code))
        elif wire.kind is Kind.UUID:
            self._run.append((f"{place}.bytes", wire.code))
        elif wire.layout is not None:
            self._single_struct(wire.layout, place, nullable)
        elif wire.kind is Kind.ARRAY:
            self._array(wire, place, nullable)
        else:
            self._bytes(wire, place, nullable)

    def _single_struct(self, layout: Layout, place: str, nullable: bool) -> None:
        value = self.name("v")
        self.emit(f"{value} = {place}")
        if not nullable:
            self._struct(layout, value)
            return
        self._flush()
        self.emit(f'if {value} is None: {self._out} += b"\\xff"')
        self.open("else:")
        self._run.append(("1", "b"))
        self._struct(layout, value)
        self._flush()
        self.close()

    def _bytes(self, wire: WireType[object], place: str, nullable: bool) -> None:
        """Write a string, bytes or records, with the length first."""
        value, length = self.name("v"), self.name("n")
        self.emit(f"{value} = {place}")
        if nullable:
            null_length = 0 if self._flexible else -1
            self.open(f"if {value} is None:")
            self.emit(f'{value} = b""')
            self.emit(f"{length} = {null_length}")
            self.close()
            self.open("else:")
        if wire.kind is Kind.STRING:
            self.emit(f"{value} = {value}.encode()")
        size = f"records_size_bytes({value})" if wire.kind is Kind.RECORDS else f"len({value})"
        self.emit(f"{length} = {size}{' + 1' if self._flexible else ''}")
        if nullable:
            self.close()
        self._length(length, LENGTH_CODE[wire.kind], is_string=wire.kind is Kind.STRING)
        if wire.kind is Kind.RECORDS:
            self._records(value, length)
        else:
            self.emit(f"{self._out} += {value}")

    def _records(self, value: str, length: str) -> None:
        assert self._out == "out", "records are never in a tagged field"
        self.open(f"if parts is not None and {length} > {1 if self._flexible else 0}:")
        self.emit("parts.append(out)")
        self.emit(f"parts.append({value})")
        self.emit("out = bytearray()")
        self.close()
        self.emit(f"elif {length} > {1 if self._flexible else 0}: out += {value}")

    def _array(self, wire: WireType[object], place: str, nullable: bool) -> None:
        assert wire.element is not None
        items = self.name("a")
        self.emit(f"{items} = {place}")
        if wire.element.code in primitives.NUMBER_CODES and not nullable:
            self._flush()
            write = self._number_array(wire.element)
            self.emit(f"{self._out} += {write}({items})")
            return
        length = self.name("n")
        extra = " + 1" if self._flexible else ""
        if nullable:
            self.open(f"if {items} is None:")
            self.emit(f"{items} = ()")
            self.emit(f"{length} = {0 if self._flexible else -1}")
            self.close()
            self.emit(f"else: {length} = len({items}){extra}")
        else:
            self.emit(f"{length} = len({items}){extra}")
        self._length(length, "i", is_string=False)
        item = self.name("m")
        self.open(f"for {item} in {items}:")
        if wire.element.layout is not None:
            self._struct(wire.element.layout, item)
        else:
            self._value(wire.element, item, nullable=False)
        self._flush()
        self.close()

    def _number_array(self, element: WireType[object]) -> str:
        name = f"write_{'compact_' if self._flexible else ''}{element.name}s"
        writer = primitives.number_array_writer(element.code, compact=self._flexible)
        return self.constant(name, writer)

    def _length(self, length: str, code: str, *, is_string: bool) -> None:
        """Write a length, together with the fixed-size fields before it."""
        if not self._flexible:
            self._run.append((length, code))
            self._flush()
            return
        long = f"{'string_length' if is_string else 'uvarint'}({length})"
        if not self._run:
            self.emit(f"if {length} < 128: {self._out}.append({length})")
            self.emit(f"else: {self._out} += {long}")
            return
        before = self._pack(self._run)
        together = self._pack([*self._run, (length, "B")])
        self._run.clear()
        self.emit(f"{self._out} += {together} if {length} < 128 else {before} + {long}")

    def _flush(self) -> None:
        if self._run:
            self.emit(f"{self._out} += {self._pack(self._run)}")
            self._run.clear()

    def _pack(self, run: list[tuple[str | None, str]]) -> str:
        """Return the expression for the bytes of `run`."""
        values = [value for value, _ in run if value is not None]
        codes = "".join(code for _, code in run)
        if not values:
            return repr(bytes(len(codes)))
        pack = self.constant("pack_" + codes.replace("?", "t"), Struct(">" + codes).pack)
        return f"{pack}({', '.join(values)})"
