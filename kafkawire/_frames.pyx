# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: the compiled twins of functions in `headers` and `plain_codecs`.

Common headers are decoded here. All others (another form of header,
tagged fields, malformed bytes) are left to the plain function, so that only one place rejects
input. tests/property/kafkawire/test_frames_twins.py keeps the twins consistent.

Invariant: no byte outside the given buffer is read, even if its lengths are wrong.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from libc.stdint cimport INT16_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkawire._cursor cimport PyUnicode_DecodeUTF8, new
from kafkawire._numbers cimport INTERFACE, read_big_endian, write_big_endian

from kafkawire import headers, plain_codecs
from kafkawire.apis import APIS
from kafkawire.headers import RequestHeader

INTERFACE_VERSION = INTERFACE

cdef enum:
    SIZE_BYTES = 4
    # Key, version, correlation id, length of the client id.
    HEAD_BYTES = 10
    KEY_COUNT = 128
    CONTROLLED_SHUTDOWN = 7
    NOT_ASKED = -1

cdef list API_KEYS = [None] * KEY_COUNT
# The first version of each API with tagged fields in its headers, looked up on first use, because
# the lookup imports the API's messages.
cdef int32_t flexible_requests[KEY_COUNT]
cdef int32_t flexible_responses[KEY_COUNT]
cdef int index
for index in range(KEY_COUNT):
    flexible_requests[index] = flexible_responses[index] = NOT_ASKED
for each in APIS:
    API_KEYS[<int>each] = each


cdef int ask(int key) except -1:
    """Cache the first versions with flexible headers of an API."""
    api = APIS[API_KEYS[key]]
    request, response = api.flexible_from, api.response_header_flexible_from
    flexible_requests[key] = INT16_MAX + 1 if request is None else request
    flexible_responses[key] = INT16_MAX + 1 if response is None else response
    return 0


def split_frames(view not None, Py_ssize_t start, Py_ssize_t end, Py_ssize_t limit, int64_t most):
    """See `plain_codecs.split_frames`."""
    cdef Py_buffer buffer
    cdef const uint8_t *data
    cdef list frames = []
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t frame_end
    cdef int64_t size
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>buffer.buf
        end = min(end, buffer.len)
        while count < limit and start >= 0 and end - start >= SIZE_BYTES:
            size = <int32_t>read_big_endian(data + start, SIZE_BYTES)
            if not 0 <= size <= most or size > end - start - SIZE_BYTES:
                break
            frame_end = start + SIZE_BYTES + size
            frames.append(view[start + SIZE_BYTES : frame_end])
            start = frame_end
            count += 1
    finally:
        PyBuffer_Release(&buffer)
    return frames, start


def decode_request_header(frame):
    """See `headers.decode_request_header`."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(frame, &buffer, PyBUF_SIMPLE)
    try:
        common = read_header(<const uint8_t *>buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)
    return headers.decode_request_header(frame) if common is None else common


cdef object read_header(const uint8_t *data, Py_ssize_t size):
    """Return the header and its end; None if the header is not of the common form."""
    if size < HEAD_BYTES:
        return None
    cdef int16_t key = <int16_t>read_big_endian(data, 2)
    cdef int16_t version = <int16_t>read_big_endian(data + 2, 2)
    cdef int16_t length = <int16_t>read_big_endian(data + 8, 2)
    cdef Py_ssize_t position = HEAD_BYTES
    if not 0 <= key < KEY_COUNT or API_KEYS[key] is None or key == CONTROLLED_SHUTDOWN:
        return None
    if length < -1 or length > size - position:
        return None
    client_id = None
    if length >= 0:
        try:
            client_id = PyUnicode_DecodeUTF8(<const char *>data + position, length, NULL)
        except UnicodeDecodeError:
            return None
        position += length
    if flexible_requests[key] == NOT_ASKED:
        ask(key)
    if version >= flexible_requests[key]:
        if position >= size or data[position]:
            return None
        position += 1
    header = new(RequestHeader)
    header.api_key = API_KEYS[key]
    header.api_version = version
    header.correlation_id = <int32_t>read_big_endian(data + 4, 4)
    header.client_id = client_id
    return header, position


def frame_response(header, bytes body not None):
    """See `plain_codecs.frame_response`."""
    cdef int key = header.api_key
    cdef int version = header.api_version
    if not 0 <= key < KEY_COUNT or API_KEYS[key] is None:
        return plain_codecs.frame_response(header, body)
    if flexible_responses[key] == NOT_ASKED:
        ask(key)
    cdef Py_ssize_t tags_bytes = 1 if version >= flexible_responses[key] else 0
    cdef Py_ssize_t body_bytes = PyBytes_GET_SIZE(body)
    cdef Py_ssize_t size = 4 + tags_bytes + body_bytes
    cdef bytes frame = PyBytes_FromStringAndSize(NULL, SIZE_BYTES + size)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(frame)
    at = write_big_endian(at, size, SIZE_BYTES)
    at = write_big_endian(at, <int32_t>header.correlation_id, 4)
    at[0] = 0
    memcpy(at + tags_bytes, PyBytes_AS_STRING(body), body_bytes)
    return frame
