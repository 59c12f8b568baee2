# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: traverse a message, and write values with a length, in the compiled codecs.

These functions handle only the common form: no tagged fields, no null, no very long values. All
other forms, and malformed bytes, are left to the general codec, so that only one place rejects
input.

Invariant: no byte from `end` on is read, even if a length is wrong.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kafkawire._numbers cimport read_big_endian, write_big_endian, write_uvarint

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject *, object, void *)
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    MAX_STRING_BYTES = 0x7FFF
    NOT_PLAIN = -2

# The rest of a message. `at` only grows, up to `end`; `items_left` limits the elements of arrays.
cdef struct Cursor:
    int64_t items_left
    const uint8_t *at
    const uint8_t *end
    bint is_flexible


cdef inline object new(object kind):
    """Return an object with unset fields."""
    return (<PyTypeObject *>kind).tp_new(<PyTypeObject *>kind, (), NULL)


cdef inline bint has(const Cursor *cursor, Py_ssize_t size) noexcept:
    return cursor.end - cursor.at >= size


cdef inline int64_t read_length(Cursor *cursor, int plain_bytes) noexcept:
    """Read a length or count; NOT_PLAIN if it is truncated, null, negative or very long."""
    cdef int64_t length = 0
    cdef int shift
    cdef uint8_t byte
    if not cursor.is_flexible:
        if not has(cursor, plain_bytes):
            return NOT_PLAIN
        if plain_bytes == 2:
            length = <int16_t>read_big_endian(cursor.at, 2)
        else:
            length = <int32_t>read_big_endian(cursor.at, 4)
        cursor.at += plain_bytes
        return length if length >= 0 else NOT_PLAIN
    for shift in range(0, 28, 7):
        if not has(cursor, 1):
            return NOT_PLAIN
        byte = cursor.at[0]
        cursor.at += 1
        length |= <int64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return length - 1 if length else NOT_PLAIN
    return NOT_PLAIN


cdef inline int64_t read_count(Cursor *cursor) noexcept:
    """Read the number of elements of an array; NOT_PLAIN as for a length, or if it is too high."""
    cdef int64_t count = read_length(cursor, 4)
    if count > cursor.items_left:
        return NOT_PLAIN
    cursor.items_left -= count
    return count


cdef inline object read_string(Cursor *cursor):
    """Read a string; None if it is not plain."""
    cdef int64_t length = read_length(cursor, 2)
    if length == NOT_PLAIN or length > MAX_STRING_BYTES or not has(cursor, length):
        return None
    try:
        text = PyUnicode_DecodeUTF8(<const char *>cursor.at, length, NULL)
    except UnicodeDecodeError:
        return None
    cursor.at += length
    return text


cdef inline bint skip_no_tags(Cursor *cursor) noexcept:
    """Skip an empty tagged section; return False if there is none."""
    if not cursor.is_flexible:
        return True
    if not has(cursor, 1) or cursor.at[0]:
        return False
    cursor.at += 1
    return True


cdef inline bint skip_null(Cursor *cursor) noexcept:
    """Skip a null string; return False if there is none."""
    cdef int size = 1 if cursor.is_flexible else 2
    if not has(cursor, size):
        return False
    if cursor.is_flexible:
        if cursor.at[0]:
            return False
    elif <int16_t>read_big_endian(cursor.at, 2) != -1:
        return False
    cursor.at += size
    return True


cdef inline uint8_t *write_length(
    uint8_t *at, Py_ssize_t length, int plain_bytes, bint is_flexible
) noexcept:
    if is_flexible:
        return write_uvarint(at, length + 1)
    return write_big_endian(at, length, plain_bytes)


cdef inline uint8_t *write_no_tags(uint8_t *at, bint is_flexible) noexcept:
    if is_flexible:
        at[0] = 0
        return at + 1
    return at
