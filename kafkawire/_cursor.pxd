# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: read the values of a message, in the compiled codecs.

These functions handle only the common form: no tagged fields, no very long values. At any other
form, and at malformed bytes, the message stops being plain and all further values are empty. The
general codec then reads it again, so that only one place rejects input.

Invariant: no byte from `end` on is read, even if a length is wrong.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from kafkawire._numbers cimport read_big_endian

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject *, object, void *)
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)

cdef enum:
    MAX_STRING_BYTES = 0x7FFF

# The rest of a message. `at` only grows, up to `end`; `items_left` limits the elements of arrays.
cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end
    const uint8_t *begin
    # The memoryview of all bytes from `begin` on; borrowed.
    PyObject *body
    int64_t items_left
    int version
    bint is_flexible
    bint is_plain

ctypedef object (*Read)(Cursor *)


cdef inline object new(object kind):
    """Return an object with unset fields."""
    return (<PyTypeObject *>kind).tp_new(<PyTypeObject *>kind, (), NULL)


cdef inline bint give_up(Cursor *cursor) noexcept:
    cursor.is_plain = False
    cursor.at = cursor.end
    return False


cdef inline bint has(Cursor *cursor, int64_t size) noexcept:
    """Whether `size` more bytes exist, as in a plain message."""
    return cursor.end - cursor.at >= size or give_up(cursor)


cdef inline uint64_t read_number(Cursor *cursor, int size) noexcept:
    if not has(cursor, size):
        return 0
    cursor.at += size
    return read_big_endian(cursor.at - size, size)


cdef inline int64_t read_length(Cursor *cursor, int fixed_bytes, bint nullable) noexcept:
    """Read a length or count; -1 means null."""
    cdef int64_t length = 0
    cdef int shift
    cdef uint8_t byte
    if not cursor.is_flexible:
        if fixed_bytes == 2:
            length = <int16_t>read_number(cursor, 2)
        else:
            length = <int32_t>read_number(cursor, 4)
    else:
        for shift in range(0, 28, 7):
            byte = <uint8_t>read_number(cursor, 1)
            length |= <int64_t>(byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            give_up(cursor)
        length -= 1
    if length < -nullable:
        give_up(cursor)
        return 0
    return length


cdef inline int64_t read_count(Cursor *cursor) noexcept:
    """Read the number of elements of an array, each of which takes a byte or more."""
    cdef int64_t count = read_length(cursor, 4, False)
    if count > cursor.items_left or not has(cursor, count):
        give_up(cursor)
        return 0
    cursor.items_left -= count
    return count


cdef inline object read_string(Cursor *cursor, bint nullable):
    cdef int64_t length = read_length(cursor, 2, nullable)
    if length < 0:
        return None
    if length > MAX_STRING_BYTES or not has(cursor, length):
        give_up(cursor)
        return None
    try:
        text = PyUnicode_DecodeUTF8(<const char *>cursor.at, length, NULL)
    except UnicodeDecodeError:
        give_up(cursor)
        return None
    cursor.at += length
    return text


cdef inline object read_records(Cursor *cursor):
    """Return a view of the body, or None for null."""
    cdef int64_t length = read_length(cursor, 4, True)
    cdef Py_ssize_t start = cursor.at - cursor.begin
    if length < 0 or not has(cursor, length):
        return None
    cursor.at += length
    return (<object>cursor.body)[start : start + length]


cdef inline void read_no_tags(Cursor *cursor) noexcept:
    if cursor.is_flexible and read_number(cursor, 1):
        give_up(cursor)
