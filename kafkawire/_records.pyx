# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: the compiled twin of `records_loops`: the same names, results and errors.

See `native`. The plain twin documents the functions; tests/property/kafkawire/test_records_twins.py compares them.

Invariant: no byte outside the section is read, even if its lengths are wrong.
"""

from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
)
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from kafkawire._header cimport (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    header_fields,
)
from kafkawire._numbers cimport INTERFACE, read_big_endian, write_big_endian
from kafkawire._walk cimport (
    MIN_RECORD_BYTES,
    NO_FAULT,
    NO_TIMESTAMP,
    OTTLA_ADD_OVERFLOWS,
    OTTLA_SUB_OVERFLOWS,
    Fault,
    Record,
    read_span,
    varint_bytes,
    walk_record,
    write_varint,
)

from struct import error as struct_error

from crc32c import crc32c

from kafkawire.errors import CorruptBatchError, EncodeError
from kafkawire.records_header import BatchHeader
from kafkawire.records_loops import MAX_TIMESTAMP_MS, Survey

INTERFACE_VERSION = INTERFACE

# The constructor of a named tuple is a Python function, and takes as long as a small batch.
cdef object new_tuple = tuple.__new__

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030E0000
    /* Tuples cache their hash since 3.14, and tp_alloc leaves a 0 there. */
    #define OTTLA_FORGET_HASH(row) (((PyTupleObject *)(row))->ob_hash = -1)
    #else
    #define OTTLA_FORGET_HASH(row) ((void)0)
    #endif
    """
    void OTTLA_FORGET_HASH(PyObject *row) noexcept nogil

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject *(*tp_alloc)(PyTypeObject *, Py_ssize_t) except NULL
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

cdef tuple FAULT_TEXTS = (
    "no fault",
    "a record runs past the end",
    "a varint has too many bits",
    "a record or a header's key has a negative length",
    "a record does not end where its length says",
    "impossible count of headers",
)


cdef object corrupt(Fault fault, Py_ssize_t index):
    return CorruptBatchError(f"{FAULT_TEXTS[<int>fault]}, record {index}")


cdef inline bytes copy_span(const uint8_t *span, int32_t size):
    return PyBytes_FromStringAndSize(<const char *>span, size)


cdef tuple copy_headers(const Record *record, const uint8_t *end):
    """Return the headers of a record that `walk_record` has accepted."""
    cdef const uint8_t *cursor = record.headers
    cdef const uint8_t *span = NULL
    cdef int32_t size = 0
    cdef list headers = []
    cdef object key
    for _ in range(record.header_count):
        read_span(&cursor, end, &span, &size)
        key = PyUnicode_DecodeUTF8(<const char *>span, size, "replace")
        read_span(&cursor, end, &span, &size)
        headers.append((key, None if size < 0 else copy_span(span, size)))
    return tuple(headers)


def read_rows(
    data,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp_ms,
    append_timestamp_ms,
    row_type,
    tuple before not None,
    tuple after not None,
):
    """See `records_loops.read_rows`."""
    # The call of tp_alloc below is valid only for a tuple class.
    if not (isinstance(row_type, type) and issubclass(row_type, tuple)):
        raise TypeError(f"row_type must be a tuple class, not {row_type!r}")
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if count > view.len // MIN_RECORD_BYTES:
            raise CorruptBatchError(f"{view.len} bytes cannot hold {count} records")
        return read_section(
            <const uint8_t *>view.buf,
            <const uint8_t *>view.buf + view.len,
            count,
            base_offset,
            base_timestamp_ms,
            append_timestamp_ms,
            row_type,
            before,
            after,
        )
    finally:
        PyBuffer_Release(&view)


cdef list read_section(
    const uint8_t *cursor,
    const uint8_t *end,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp_ms,
    object append_timestamp_ms,
    object row_type,
    tuple before,
    tuple after,
):
    cdef Py_ssize_t fields_start = len(before)
    cdef Py_ssize_t after_start = fields_start + 5
    cdef Py_ssize_t after_count = len(after)
    cdef Py_ssize_t width = after_start + after_count
    cdef bint is_plain = row_type is tuple
    cdef bint has_append_time = append_timestamp_ms is not None
    cdef object timestamp = append_timestamp_ms if has_append_time else base_timestamp_ms
    cdef int64_t timestamp_ms
    cdef int64_t last_timestamp_ms = base_timestamp_ms
    cdef list rows = []
    cdef Record record
    cdef Py_ssize_t index, column
    cdef Fault fault
    cdef tuple row
    for index in range(count):
        fault = walk_record(&cursor, end, &record)
        if fault != NO_FAULT:
            raise corrupt(fault, index)
        if not has_append_time:
            if OTTLA_ADD_OVERFLOWS(base_timestamp_ms, record.timestamp_delta, &timestamp_ms):
                raise CorruptBatchError("a timestamp leaves 64 bits")
            # Records of one batch often share a timestamp, and can share the int object too.
            if timestamp_ms != last_timestamp_ms:
                timestamp = timestamp_ms
                last_timestamp_ms = timestamp_ms
        row = PyTuple_New(width) if is_plain else new_row(row_type, width)
        for column in range(fields_start):
            put(row, column, before[column])
        put(row, fields_start, <int64_t>(base_offset + record.offset_delta))
        put(row, fields_start + 1, timestamp)
        put(
            row,
            fields_start + 2,
            None if record.key_bytes < 0 else copy_span(record.key, record.key_bytes),
        )
        put(
            row,
            fields_start + 3,
            None if record.value_bytes < 0 else copy_span(record.value, record.value_bytes),
        )
        put(row, fields_start + 4, copy_headers(&record, end) if record.header_count else ())
        for column in range(after_count):
            put(row, after_start + column, after[column])
        rows.append(row)
    if cursor != end:
        raise CorruptBatchError(f"{count} records end {end - cursor} bytes too early")
    return rows


cdef inline tuple new_row(object row_type, Py_ssize_t width):
    """Return an unfilled tuple of a subclass, without the second tuple that __new__ creates."""
    cdef PyTypeObject *kind = <PyTypeObject *>row_type
    cdef PyObject *row = kind.tp_alloc(kind, width)
    OTTLA_FORGET_HASH(row)
    result = <tuple>row
    # The cast has added a reference.
    Py_DECREF(result)
    return result


cdef inline void put(tuple row, Py_ssize_t column, object field):
    # PyTuple_SET_ITEM steals a reference, which Cython does not know.
    Py_INCREF(field)
    PyTuple_SET_ITEM(row, column, field)


# State of `survey`, which continues from `index`.
cdef struct Found:
    int64_t earliest_ms
    int64_t latest_ms
    bint has_time
    bint overflows
    Py_ssize_t without_key
    Py_ssize_t out_of_place
    Py_ssize_t index
    Fault fault


cdef enum:
    # Sections from this size on take so long that the GIL is released for other threads.
    LONG_SECTION_BYTES = 1 << 20


def survey_records(data, Py_ssize_t count, int64_t base_timestamp_ms):
    """See `records_loops.survey_records`."""
    cdef Py_buffer view
    cdef const uint8_t *end
    cdef Found found
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if count > view.len // MIN_RECORD_BYTES:
            raise CorruptBatchError(f"{view.len} bytes cannot hold {count} records")
        end = <const uint8_t *>view.buf
        if view.len < LONG_SECTION_BYTES:
            survey(&end, end + view.len, count, base_timestamp_ms, &found)
        else:
            with nogil:
                survey(&end, end + view.len, count, base_timestamp_ms, &found)
        if found.fault != NO_FAULT:
            raise corrupt(found.fault, found.index)
        if found.overflows:
            raise CorruptBatchError("a timestamp leaves 64 bits")
        left_bytes = <const uint8_t *>view.buf + view.len - end
        if left_bytes:
            raise CorruptBatchError(f"{count} records end {left_bytes} bytes too early")
    finally:
        PyBuffer_Release(&view)
    cdef tuple result = new_row(Survey, 4)
    put(result, 0, found.earliest_ms)
    put(result, 1, found.latest_ms)
    put(result, 2, found.without_key)
    put(result, 3, found.out_of_place)
    return result


cdef void survey(
    const uint8_t **cursor,
    const uint8_t *end,
    Py_ssize_t count,
    int64_t base_timestamp_ms,
    Found *found,
) noexcept nogil:
    """Walk the records, up to the first invalid one or a timestamp that exceeds 64 bits."""
    cdef int64_t timestamp_ms
    cdef Record record
    found.earliest_ms = found.latest_ms = NO_TIMESTAMP
    found.has_time = found.overflows = False
    found.without_key = found.out_of_place = -1
    found.fault = NO_FAULT
    found.index = 0
    while found.index < count:
        found.fault = walk_record(cursor, end, &record)
        if found.fault != NO_FAULT:
            return
        if OTTLA_ADD_OVERFLOWS(base_timestamp_ms, record.timestamp_delta, &timestamp_ms):
            found.overflows = True
            return
        if timestamp_ms != NO_TIMESTAMP:
            if not found.has_time or timestamp_ms < found.earliest_ms:
                found.earliest_ms = timestamp_ms
                found.has_time = True
            if timestamp_ms > found.latest_ms:
                found.latest_ms = timestamp_ms
        if record.key_bytes < 0 and found.without_key < 0:
            found.without_key = found.index
        if record.offset_delta != found.index and found.out_of_place < 0:
            found.out_of_place = found.index
        found.index += 1


cdef inline uint8_t *write_span(uint8_t *at, const char *span, Py_ssize_t size) noexcept nogil:
    """Write a length and the bytes; a size of -1 means null."""
    at = write_varint(at, size)
    if size <= 0:
        return at
    memcpy(at, span, size)
    return at + size


cdef inline Py_ssize_t span_bytes(Py_ssize_t size) noexcept nogil:
    return varint_bytes(size) + (size if size > 0 else 0)


cdef enum:
    # Attribute bits of batches that are compressed, have log append time, or are markers.
    NOT_PLAIN = 0x2F


def read_plain_batch(
    batch not None,
    Py_ssize_t most_bytes,
    bint needs_key,
    bint times_matter,
    int64_t now_ms,
    int64_t before_max_ms,
    int64_t after_max_ms,
):
    """See `records_loops.read_plain_batch`."""
    cdef int64_t oldest_ms, newest_ms
    if OTTLA_SUB_OVERFLOWS(now_ms, before_max_ms, &oldest_ms):
        oldest_ms = INT64_MIN
    if OTTLA_ADD_OVERFLOWS(now_ms, after_max_ms, &newest_ms):
        newest_ms = INT64_MAX
    cdef Py_buffer view
    cdef const uint8_t *data
    header = None
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>view.buf
        if (
            HEADER_BYTES <= view.len <= most_bytes
            and data[16] == MAGIC
            and read_big_endian(data, 8) == 0
            and <int32_t>read_big_endian(data + 8, 4) == view.len - LOG_OVERHEAD_BYTES
            and is_plain(data, view.len, needs_key, times_matter, oldest_ms, newest_ms)
            and <uint32_t>read_big_endian(data + 17, 4) == crc32c(batch[ATTRIBUTES_POSITION:])
        ):
            header = new_tuple(BatchHeader, header_fields(data))
    finally:
        PyBuffer_Release(&view)
    return header


def assign_offsets(batch not None, int64_t base_offset, int32_t leader_epoch):
    """See `records_header.assign_offsets`."""
    cdef Py_buffer view
    PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE)
    try:
        if view.len < HEADER_BYTES:
            raise struct_error(f"a batch header needs {HEADER_BYTES} bytes")
        write_big_endian(<uint8_t *>view.buf, base_offset, 8)
        write_big_endian(<uint8_t *>view.buf + LOG_OVERHEAD_BYTES, leader_epoch, 4)
    finally:
        PyBuffer_Release(&view)


cdef bint is_plain(
    const uint8_t *batch,
    Py_ssize_t size,
    bint needs_key,
    bint times_matter,
    int64_t oldest_ms,
    int64_t newest_ms,
) noexcept nogil:
    cdef int32_t last_delta = <int32_t>read_big_endian(batch + 23, 4)
    cdef int64_t base_ms = <int64_t>read_big_endian(batch + 27, 8)
    cdef int64_t max_ms = <int64_t>read_big_endian(batch + 35, 8)
    cdef int64_t producer_id = <int64_t>read_big_endian(batch + 43, 8)
    cdef int32_t sequence = <int32_t>read_big_endian(batch + 53, 4)
    cdef int32_t count = <int32_t>read_big_endian(batch + 57, 4)
    cdef const uint8_t *cursor = batch + HEADER_BYTES
    cdef const uint8_t *end = batch + size
    cdef int64_t time_ms
    cdef int64_t latest_ms = NO_TIMESTAMP
    cdef int32_t index
    cdef Record record
    if batch[22] & NOT_PLAIN or count <= 0 or last_delta != count - 1:
        return False
    if sequence < 0 and producer_id >= 0:
        return False
    if count > (end - cursor) // MIN_RECORD_BYTES:
        return False
    for index in range(count):
        if walk_record(&cursor, end, &record) != NO_FAULT:
            return False
        if OTTLA_ADD_OVERFLOWS(base_ms, record.timestamp_delta, &time_ms):
            return False
        if record.offset_delta != index or (needs_key and record.key_bytes < 0):
            return False
        if time_ms == NO_TIMESTAMP:
            continue
        if times_matter and not oldest_ms <= time_ms <= newest_ms:
            return False
        if time_ms > latest_ms:
            latest_ms = time_ms
    if cursor != end:
        return False
    return not times_matter or latest_ms == max_ms


cdef inline object exact_bytes(object value):
    """Return `value` if it is bytes or None, else a copy of its bytes."""
    if value is None or PyBytes_CheckExact(value):
        return value
    return bytes(memoryview(value))


cdef class RecordBuffer:
    """See `records_loops.RecordBuffer`."""

    cdef uint8_t *_bytes
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _reserved_bytes
    cdef public Py_ssize_t limit_bytes
    cdef readonly Py_ssize_t size_bytes
    cdef readonly Py_ssize_t record_count
    cdef readonly int64_t base_timestamp_ms
    cdef readonly int64_t max_timestamp_ms

    def __init__(self, Py_ssize_t reserved_bytes=0, Py_ssize_t limit_bytes=INT32_MAX):
        if not 0 <= reserved_bytes <= INT32_MAX:
            raise ValueError(f"cannot reserve {reserved_bytes} bytes")
        self._reserve(reserved_bytes)
        memset(self._bytes, 0, reserved_bytes)
        self.size_bytes = self._reserved_bytes = reserved_bytes
        self.limit_bytes = limit_bytes
        self.record_count = 0
        self.base_timestamp_ms = self.max_timestamp_ms = NO_TIMESTAMP

    def __dealloc__(self):
        free(self._bytes)

    cdef int _reserve(self, Py_ssize_t size) except -1:
        """Ensure a capacity of `size` bytes in total."""
        cdef Py_ssize_t capacity = self._capacity or 512
        cdef uint8_t *grown
        while capacity < size:
            capacity *= 2
        if capacity != self._capacity:
            grown = <uint8_t *>realloc(self._bytes, capacity)
            if grown == NULL:
                raise MemoryError(f"no memory for a batch of {capacity} bytes")
            self._bytes = grown
            self._capacity = capacity
        return 0

    def append(self, timestamp_ms, key, value, headers=()):
        """See `records_loops.RecordBuffer.append`."""
        cdef int overflow = 0
        cdef int64_t time = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
        if overflow or time < NO_TIMESTAMP or time == INT64_MAX:
            raise EncodeError(f"timestamp {timestamp_ms} is not within -1..{MAX_TIMESTAMP_MS}")
        key = exact_bytes(key)
        value = exact_bytes(value)
        cdef Py_ssize_t key_bytes = -1 if key is None else PyBytes_GET_SIZE(key)
        cdef Py_ssize_t value_bytes = -1 if value is None else PyBytes_GET_SIZE(value)
        cdef bytes encoded_headers = encode_headers(headers) if headers else b"\0"
        cdef Py_ssize_t count = self.record_count
        cdef int64_t timestamp_delta = time - self.base_timestamp_ms if count else 0
        cdef Py_ssize_t size = (
            1
            + varint_bytes(timestamp_delta)
            + varint_bytes(count)
            + span_bytes(key_bytes)
            + span_bytes(value_bytes)
            + PyBytes_GET_SIZE(encoded_headers)
        )
        cdef Py_ssize_t end = self.size_bytes + varint_bytes(size) + size
        if end > self.limit_bytes and count:
            return -1
        if end > INT32_MAX:
            raise EncodeError(f"a batch holds at most {INT32_MAX} bytes, not {end}")
        self._reserve(end)

        cdef uint8_t *at = write_varint(self._bytes + self.size_bytes, size)
        at[0] = 0
        at = write_varint(at + 1, timestamp_delta)
        at = write_varint(at, count)
        at = write_span(at, NULL if key is None else PyBytes_AS_STRING(key), key_bytes)
        at = write_span(at, NULL if value is None else PyBytes_AS_STRING(value), value_bytes)
        memcpy(at, PyBytes_AS_STRING(encoded_headers), PyBytes_GET_SIZE(encoded_headers))

        self.size_bytes = end
        if not count:
            self.base_timestamp_ms = time
        if time > self.max_timestamp_ms:
            self.max_timestamp_ms = time
        self.record_count = count + 1
        return count

    def to_bytearray(self):
        """Return a copy of all bytes, including the reserved ones."""
        return PyByteArray_FromStringAndSize(<const char *>self._bytes, self.size_bytes)

    def records(self):
        """Return a copy of the records alone."""
        return PyBytes_FromStringAndSize(
            <const char *>self._bytes + self._reserved_bytes,
            self.size_bytes - self._reserved_bytes,
        )


cdef bytes encode_headers(object headers):
    """Return the encoded count of headers and headers; the first of two passes finds the size."""
    # As in Python: an iterator is refused, since the caller may have to append the record again.
    cdef Py_ssize_t count = len(headers)
    cdef list pairs = [(key, exact_bytes(value)) for key, value in headers]
    cdef Py_ssize_t size = varint_bytes(count)
    cdef Py_ssize_t key_bytes
    cdef const char *text
    for key, value in pairs:
        PyUnicode_AsUTF8AndSize(key, &key_bytes)
        size += span_bytes(key_bytes)
        size += span_bytes(-1 if value is None else PyBytes_GET_SIZE(value))
    cdef bytes encoded = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t *at = write_varint(<uint8_t *>PyBytes_AS_STRING(encoded), count)
    for key, value in pairs:
        text = PyUnicode_AsUTF8AndSize(key, &key_bytes)
        at = write_span(at, text, key_bytes)
        if value is None:
            at = write_span(at, NULL, -1)
        else:
            at = write_span(at, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return encoded
