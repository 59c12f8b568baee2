"""Find the field with a value that cannot be written (decision).

The compiled writers rely on Python's own checks, and the errors of `struct` or of a missing method
do not name the field. After a failed write, this module therefore walks the message again, slowly.
"""

from struct import error as StructError  # noqa: N812
from struct import pack

from kafkawire.declaration import Kind, Layout, WireType
from kafkawire.primitives import MAX_STRING_BYTES


def find_misfit(layout: Layout, value: object, version: int) -> str | None:
    """Return the path, value and problem of the first field that cannot be written.

    The result is None if every field by itself is valid.
    """
    for each in layout.fields:
        if not each.is_in(version):
            continue
        part = getattr(value, each.name, None)
        if part is None and each.is_nullable_in(version):
            continue
        found = _misfit(each.wire, part, version)
        if found is not None:
            return f"{each.name}{found}"
    return None


def _misfit(wire: WireType[object], value: object, version: int) -> str | None:
    if value is None:
        return " must not be None"
    if wire.layout is not None:
        found = find_misfit(wire.layout, value, version)
        return None if found is None else f".{found}"
    if wire.element is not None:
        return _array_misfit(wire.element, value, version)
    if wire.kind is Kind.FIXED:
        return _number_misfit(wire, value)
    if wire.kind is Kind.STRING:
        return _string_misfit(value)
    return None


def _array_misfit(element: WireType[object], values: object, version: int) -> str | None:
    if not isinstance(values, (list, tuple)):
        return f" must be a list or tuple, got {values!r}"
    for index, value in enumerate(values):
        found = _misfit(element, value, version)
        if found is not None:
            return f"[{index}]{found}"
    return None


def _number_misfit(wire: WireType[object], value: object) -> str | None:
    try:
        pack(">" + wire.code, value)
    except (StructError, OverflowError, TypeError):
        return f" must be {wire.name}, got {value!r}"
    return None


def _string_misfit(value: object) -> str | None:
    if not isinstance(value, str):
        return f" must be a string, got {value!r}"
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        return f" must be text that UTF-8 can hold, got {value!r}"
    if size_bytes > MAX_STRING_BYTES:
        return f" must have at most {MAX_STRING_BYTES} bytes, got {size_bytes}"
    return None
