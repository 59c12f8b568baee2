# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: the compiled twins of codecs in `schema`, `headers` and `plain_codecs`.

The readers and writers are generated from the declarations of the messages at build time
(`hot_codecs`). They handle the common form of each message, described in `_cursor` and `_output`,
and leave all others to the plain functions. tests/property/kafkawire/test_produce_twins.py and
test_fetch_twins.py keep the twins consistent.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_Check, PyMemoryView_FromObject
from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t

from kafkawire._cursor cimport (
    Cursor,
    Read,
    has,
    new,
    read_count,
    read_no_tags,
    read_number,
    read_records,
    read_string,
)
from kafkawire._numbers cimport INTERFACE, write_big_endian
from kafkawire._output cimport (
    Output,
    Write,
    begin,
    end_part,
    make_room,
    refuse,
    release,
    write_length,
    write_no_tags,
    write_number,
    write_records,
    write_string,
    write_uuid,
    written,
)

from kafkawire import headers, plain_codecs, schema
from kafkawire.hot_codecs import declarations_state
from kafkawire.primitives import uuid_from_bytes
from kafkawire.schema import UNLIMITED_ITEMS

INTERFACE_VERSION = INTERFACE

cdef enum:
    SIZE_BYTES = 4
    UUID_BYTES = 16

# The general codec names the wrong field.
cdef tuple MISFIT = (AttributeError, OverflowError, TypeError, UnicodeEncodeError)

# Generated: a function per struct, `choose_read` and `choose_write`.
include "codecs.pxi"

if declarations_state() != DECLARATIONS_STATE:
    raise ImportError("the declarations of messages have changed since the build")


cdef object read_uuid(Cursor *cursor):
    if not has(cursor, UUID_BYTES):
        return None
    cursor.at += UUID_BYTES
    return uuid_from_bytes(
        PyBytes_FromStringAndSize(<const char *>cursor.at - UUID_BYTES, UUID_BYTES)
    )


def decode(message_type, body, int version, int64_t max_items=UNLIMITED_ITEMS):
    """See `schema.decode`."""
    cdef Py_buffer buffer
    cdef Cursor cursor
    cdef Read read = choose_read(&cursor, message_type, version)
    if read is NULL:
        return schema.decode(message_type, body, version, max_items)
    if not PyMemoryView_Check(body):
        body = PyMemoryView_FromObject(body)
    PyObject_GetBuffer(body, &buffer, PyBUF_SIMPLE)
    try:
        cursor.begin = cursor.at = <const uint8_t *>buffer.buf
        cursor.end = cursor.at + buffer.len
        cursor.body = <PyObject *>body
        cursor.items_left = max_items
        cursor.is_plain = True
        message = read(&cursor)
    finally:
        PyBuffer_Release(&buffer)
    if cursor.is_plain and cursor.at == cursor.end:
        return message
    return schema.decode(message_type, body, version, max_items)


def encode_accepted(topics, int version):
    """See `plain_codecs.encode_accepted`."""
    cdef Output out
    cdef bytes body = None
    cdef Write write = choose_write(&out, ProduceResponse, version)
    if write is not NULL:
        begin(&out, None)
        try:
            write(&out, topics)
            body = written(&out)
        except MISFIT:
            out.is_plain = False
        finally:
            release(&out)
        if out.is_plain:
            return body
    return plain_codecs.encode_accepted(topics, version)


def encode_response_parts(api_key, int version, correlation_id, message):
    """See `headers.encode_response_parts`."""
    cdef Output out
    cdef list parts
    cdef Write write = choose_write(&out, type(message), version)
    if write is not NULL:
        parts = []
        begin(&out, parts)
        try:
            write_number(&out, 0, SIZE_BYTES)
            write_number(&out, <uint64_t><int32_t>correlation_id, 4)
            write_no_tags(&out)
            write(&out, message)
            if out.at != out.begin:
                end_part(&out)
        except MISFIT:
            out.is_plain = False
        finally:
            release(&out)
        out.size_bytes -= SIZE_BYTES
        if out.is_plain and out.size_bytes <= INT32_MAX:
            # The first part has not been shared yet, so it can be changed.
            write_big_endian(<uint8_t *>PyBytes_AS_STRING(parts[0]), out.size_bytes, SIZE_BYTES)
            return parts
    return headers.encode_response_parts(api_key, version, correlation_id, message)
