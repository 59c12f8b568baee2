# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: the compiled twin of `plain_codecs`: the same names, results and errors.

It handles the common requests of producers: versions 3 to 11, without transactions, and without
forms that `_cursor` leaves to the general codec. tests/property/kafkawire/test_produce_twins.py
keeps the twins consistent.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_Check, PyMemoryView_FromObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kafkawire._cursor cimport (
    NOT_PLAIN,
    Cursor,
    PyUnicode_AsUTF8AndSize,
    has,
    new,
    read_count,
    read_length,
    read_string,
    skip_no_tags,
    skip_null,
    write_length,
)
from kafkawire._numbers cimport INTERFACE, read_big_endian, uvarint_bytes, write_big_endian

from kafkawire import plain_codecs
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.schema import UNLIMITED_ITEMS

INTERFACE_VERSION = INTERFACE

cdef enum:
    FIRST_READ_VERSION = 3
    FIRST_FLEXIBLE_VERSION = 9
    LAST_VERSION = 11
    # A row of a response, from the partition to the log start offset. From version 8 on two empty
    # values follow; in flexible versions they are compact, and followed by no tagged fields.
    ROW_BYTES = 30
    ROW_BYTES_V3 = 22


def decode_produce(body, int version, int64_t max_items=UNLIMITED_ITEMS):
    """See `plain_codecs.decode_produce`."""
    cdef Py_buffer buffer
    cdef Cursor cursor
    message = None
    if FIRST_READ_VERSION <= version <= LAST_VERSION:
        if not PyMemoryView_Check(body):
            body = PyMemoryView_FromObject(body)
        PyObject_GetBuffer(body, &buffer, PyBUF_SIMPLE)
        try:
            cursor.at = <const uint8_t *>buffer.buf
            cursor.end = cursor.at + buffer.len
            cursor.is_flexible = version >= FIRST_FLEXIBLE_VERSION
            cursor.items_left = max_items
            message = read_request(&cursor, body, cursor.at)
        finally:
            PyBuffer_Release(&buffer)
    if message is not None:
        return message
    return plain_codecs.decode_produce(body, version, max_items)


cdef object read_request(Cursor *cursor, object body, const uint8_t *begin):
    cdef int64_t count
    cdef list topics = []
    if not skip_null(cursor) or not has(cursor, 6):
        return None
    message = new(ProduceRequest)
    message.transactional_id = None
    message.acks = <int16_t>read_big_endian(cursor.at, 2)
    message.timeout_ms = <int32_t>read_big_endian(cursor.at + 2, 4)
    cursor.at += 6
    count = read_count(cursor)
    if count == NOT_PLAIN:
        return None
    for _ in range(count):
        topic = read_topic(cursor, body, begin)
        if topic is None:
            return None
        topics.append(topic)
    message.topic_data = topics
    return message if skip_no_tags(cursor) and cursor.at == cursor.end else None


cdef object read_topic(Cursor *cursor, object body, const uint8_t *begin):
    cdef list partitions = []
    cdef int64_t count, length
    name = read_string(cursor)
    if name is None:
        return None
    topic = new(TopicProduceData)
    topic.name = name
    count = read_count(cursor)
    if count == NOT_PLAIN:
        return None
    for _ in range(count):
        if not has(cursor, 4):
            return None
        data = new(PartitionProduceData)
        data.index = <int32_t>read_big_endian(cursor.at, 4)
        cursor.at += 4
        length = read_length(cursor, 4)
        if length == NOT_PLAIN or not has(cursor, length):
            return None
        data.records = body[cursor.at - begin : cursor.at - begin + length]
        cursor.at += length
        if not skip_no_tags(cursor):
            return None
        partitions.append(data)
    topic.partition_data = partitions
    return topic if skip_no_tags(cursor) else None


def encode_accepted(list topics not None, int version):
    """See `plain_codecs.encode_accepted`."""
    cdef bint is_flexible = version >= FIRST_FLEXIBLE_VERSION
    cdef Py_ssize_t size = 4 + uvarint_bytes(len(topics) + 1) + 1 if is_flexible else 8
    cdef Py_ssize_t text_bytes
    cdef Py_ssize_t row_bytes = bytes_of_row(version)
    cdef const char *text
    for name, rows in topics:
        text = PyUnicode_AsUTF8AndSize(name, &text_bytes)
        size += text_bytes + len(<list?>rows) * row_bytes
        if is_flexible:
            size += uvarint_bytes(text_bytes + 1) + uvarint_bytes(len(<list>rows) + 1) + 1
        else:
            size += 6
    cdef bytes body = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(body)
    at = write_length(at, len(topics), 4, is_flexible)
    for name, rows in topics:
        text = PyUnicode_AsUTF8AndSize(name, &text_bytes)
        at = write_length(at, text_bytes, 2, is_flexible)
        memcpy(at, text, text_bytes)
        at = write_length(at + text_bytes, len(<list>rows), 4, is_flexible)
        for row in <list>rows:
            at = write_row(at, row, version)
        if is_flexible:
            at[0] = 0
            at += 1
    # No throttling, no tagged fields.
    memset(at, 0, 5 if is_flexible else 4)
    return body


cdef inline Py_ssize_t bytes_of_row(int version) noexcept:
    if version >= FIRST_FLEXIBLE_VERSION:
        return ROW_BYTES + 3
    if version >= 8:
        return ROW_BYTES + 6
    return ROW_BYTES if version >= 5 else ROW_BYTES_V3


cdef uint8_t *write_row(uint8_t *at, tuple row, int version) except NULL:
    partition, base_offset, time_ms, start_offset = row
    at = write_big_endian(at, <int32_t>partition, 4)
    # No error.
    at = write_big_endian(at, 0, 2)
    at = write_big_endian(at, <int64_t>base_offset, 8)
    at = write_big_endian(at, <int64_t>time_ms, 8)
    if version < 5:
        return at
    at = write_big_endian(at, <int64_t>start_offset, 8)
    if version < 8:
        return at
    # No record errors, no error message.
    if version >= FIRST_FLEXIBLE_VERSION:
        at[0] = 1
        at[1] = at[2] = 0
        return at + 3
    memset(at, 0, 4)
    return write_big_endian(at + 4, <int16_t>-1, 2)
