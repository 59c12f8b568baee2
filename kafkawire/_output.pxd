# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: write the values of a message, in the compiled codecs.

A message with a value that these functions do not write is not plain: the general codec then writes
it again, or names the field that does not fit.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kafkawire._cursor cimport MAX_STRING_BYTES
from kafkawire._numbers cimport write_big_endian, write_uvarint

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    # Most messages, and the bytes between two values of records, fit in here.
    FIRST_ROOM_BYTES = 1024
    # More than all numbers and lengths between two strings, or in a struct.
    MOST_NUMBERS_BYTES = 256
    MOST_UVARINT_BYTES = 10
    UUID_BYTES = 16

# The bytes since the last value of records are from `begin` to `at`. The bytes before them are in
# the list `parts` (borrowed), and `size_bytes` counts these.
cdef struct Output:
    uint8_t *at
    uint8_t *end
    uint8_t *begin
    # NULL as long as `first_room` is enough.
    uint8_t *allocated
    PyObject *parts
    int64_t size_bytes
    int version
    bint is_flexible
    bint is_plain
    uint8_t[FIRST_ROOM_BYTES] first_room

ctypedef int (*Write)(Output *, object) except -1


cdef inline void begin(Output *out, list parts) noexcept:
    """Prepare for a message whose records are appended to `parts`. `release` must follow."""
    out.begin = out.at = out.first_room
    out.end = out.begin + FIRST_ROOM_BYTES
    out.allocated = NULL
    out.parts = <PyObject *>parts
    out.size_bytes = 0
    out.is_plain = True


cdef inline void release(Output *out) noexcept:
    PyMem_Free(out.allocated)


cdef inline bytes written(Output *out):
    return PyBytes_FromStringAndSize(<const char *>out.begin, out.at - out.begin)


cdef inline int end_part(Output *out) except -1:
    """Move the bytes since the last records to `parts`."""
    (<list>out.parts).append(written(out))
    out.size_bytes += out.at - out.begin
    out.at = out.begin
    return 0


cdef inline void make_room(Output *out, Py_ssize_t size) noexcept:
    """Make room for `size` bytes, and for the numbers that follow them."""
    cdef Py_ssize_t used, capacity
    cdef uint8_t *allocated
    if out.end - out.at >= size + MOST_NUMBERS_BYTES:
        return
    used = out.at - out.begin
    capacity = 2 * (used + size + MOST_NUMBERS_BYTES)
    allocated = <uint8_t *>PyMem_Malloc(capacity)
    if allocated is NULL:
        out.is_plain = False
        return
    memcpy(allocated, out.begin, used)
    PyMem_Free(out.allocated)
    out.begin = out.allocated = allocated
    out.at = allocated + used
    out.end = allocated + capacity


cdef inline void refuse(Output *out, bint is_uncommon) noexcept:
    if is_uncommon:
        out.is_plain = False


cdef inline bint has_room(Output *out, Py_ssize_t size) noexcept:
    if out.end - out.at >= size:
        return True
    out.is_plain = False
    return False


cdef inline void write_number(Output *out, uint64_t number, int size) noexcept:
    if has_room(out, size):
        out.at = write_big_endian(out.at, number, size)


cdef inline void write_length(Output *out, int64_t length, int fixed_bytes) noexcept:
    """Write a length or count; -1 means null."""
    if not out.is_flexible:
        write_number(out, length, fixed_bytes)
    elif has_room(out, MOST_UVARINT_BYTES):
        out.at = write_uvarint(out.at, length + 1)


cdef inline void write_raw(Output *out, const char *data, Py_ssize_t size) noexcept:
    make_room(out, size)
    if has_room(out, size):
        memcpy(out.at, data, size)
        out.at += size


cdef inline int write_string(Output *out, object text, bint nullable) except -1:
    cdef Py_ssize_t size
    cdef const char *data
    if nullable and text is None:
        write_length(out, -1, 2)
        return 0
    data = PyUnicode_AsUTF8AndSize(text, &size)
    refuse(out, size > MAX_STRING_BYTES)
    write_length(out, size, 2)
    write_raw(out, data, size)
    return 0


cdef inline int write_uuid(Output *out, object value) except -1:
    write_raw(out, PyBytes_AS_STRING(<bytes?>value.bytes), UUID_BYTES)
    return 0


cdef inline int write_records(Output *out, object records) except -1:
    """Write the length of the records, and pass them through."""
    cdef int64_t size_bytes = -1
    if isinstance(records, (bytes, bytearray)):
        size_bytes = len(records)
    elif isinstance(records, memoryview):
        size_bytes = records.nbytes
    elif records is not None:
        size_bytes = records.size_bytes
    write_length(out, size_bytes, 4)
    refuse(out, size_bytes > INT32_MAX)
    if size_bytes > 0:
        end_part(out)
        (<list>out.parts).append(records)
        out.size_bytes += size_bytes
    return 0


cdef inline void write_no_tags(Output *out) noexcept:
    if out.is_flexible:
        write_number(out, 0, 1)
