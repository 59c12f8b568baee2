# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: the compiled twin of `plain_codecs`: the same names, results and errors.

It handles the common requests and responses of consumers and followers. Aborted transactions,
diverging epochs, new leaders, and all forms that `_cursor` does not read are left to the general
codec. tests/property/kafkawire/test_fetch_twins.py keeps the twins consistent.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_Check
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_Check,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_Check
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kafkawire._cursor cimport (
    MAX_STRING_BYTES,
    NOT_PLAIN,
    Cursor,
    PyUnicode_AsUTF8AndSize,
    has,
    new,
    read_count,
    read_string,
    skip_no_tags,
    write_length,
    write_no_tags,
)
from kafkawire._numbers cimport INTERFACE, read_big_endian, write_big_endian

from kafkawire import plain_codecs
from kafkawire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kafkawire.primitives import records_size_bytes, uuid_from_bytes
from kafkawire.schema import UNLIMITED_ITEMS

INTERFACE_VERSION = INTERFACE

cdef enum:
    FIRST_VERSION = 4
    FIRST_WITH_LOG_START = 5
    FIRST_WITH_SESSIONS = 7
    FIRST_WITH_LEADER_EPOCH = 9
    FIRST_WITH_RACKS = 11
    FIRST_FLEXIBLE_VERSION = 12
    FIRST_WITH_TOPIC_IDS = 13
    LAST_WITH_REPLICA_ID = 14
    LAST_VERSION = 17
    SIZE_BYTES = 4
    TOPIC_ID_BYTES = 16
    # Upper bounds, for all versions, of the sizes around the topics, around the partitions of a
    # topic (without its name), and of a partition.
    MOST_ENDS_BYTES = 40
    MOST_TOPIC_BYTES = 24
    MOST_PARTITION_BYTES = 56

# Values of fields that a version does not have.
cdef object NO_TOPIC_NAME = FetchTopic().topic
cdef object NO_TOPIC_ID = FetchTopic().topic_id
cdef object NO_REPLICA_STATE = FetchRequest().replica_state
cdef object NO_DIRECTORY_ID = FetchPartition().replica_directory_id
cdef object NO_DIVERGING_EPOCH = PartitionData().diverging_epoch
cdef object NO_LEADER = PartitionData().current_leader
cdef object NO_SNAPSHOT = PartitionData().snapshot_id


def decode_fetch(body, int version, int64_t max_items=UNLIMITED_ITEMS):
    """See `plain_codecs.decode_fetch`."""
    cdef Py_buffer buffer
    cdef Cursor cursor
    message = None
    if FIRST_VERSION <= version <= LAST_VERSION:
        PyObject_GetBuffer(body, &buffer, PyBUF_SIMPLE)
        try:
            cursor.at = <const uint8_t *>buffer.buf
            cursor.end = cursor.at + buffer.len
            cursor.is_flexible = version >= FIRST_FLEXIBLE_VERSION
            cursor.items_left = max_items
            message = read_request(&cursor, version)
        finally:
            PyBuffer_Release(&buffer)
    if message is not None:
        return message
    return plain_codecs.decode_fetch(body, version, max_items)


cdef inline int64_t read_number(Cursor *cursor, int size) noexcept:
    """Return the number of 1, 4 or 8 bytes at the cursor; the caller has checked the size."""
    cdef int64_t number
    if size == 1:
        number = <int8_t>cursor.at[0]
    elif size == 4:
        number = <int32_t>read_big_endian(cursor.at, 4)
    else:
        number = <int64_t>read_big_endian(cursor.at, 8)
    cursor.at += size
    return number


cdef object read_request(Cursor *cursor, int version):
    cdef bint has_replica = version <= LAST_WITH_REPLICA_ID
    cdef bint has_session = version >= FIRST_WITH_SESSIONS
    if not has(cursor, 13 + 4 * has_replica + 8 * has_session):
        return None
    message = new(FetchRequest)
    message.cluster_id = None
    message.replica_id = read_number(cursor, 4) if has_replica else -1
    message.replica_state = NO_REPLICA_STATE
    message.max_wait_ms = read_number(cursor, 4)
    message.min_bytes = read_number(cursor, 4)
    message.max_bytes = read_number(cursor, 4)
    message.isolation_level = read_number(cursor, 1)
    message.session_id = read_number(cursor, 4) if has_session else 0
    message.session_epoch = read_number(cursor, 4) if has_session else -1
    topics = read_topics(cursor, version, FetchTopic, read_partitions)
    if topics is None:
        return None
    message.topics = topics
    message.forgotten_topics_data = ()
    if has_session:
        topics = read_topics(cursor, version, ForgottenTopic, read_numbers)
        if topics is None:
            return None
        message.forgotten_topics_data = topics
    message.rack_id = ""
    if version >= FIRST_WITH_RACKS:
        rack = read_string(cursor)
        if rack is None:
            return None
        message.rack_id = rack
    return message if skip_no_tags(cursor) and cursor.at == cursor.end else None


cdef list read_topics(
    Cursor *cursor, int version, object kind, list (*read_items)(Cursor *, int)
):
    cdef list topics = [], items
    cdef int64_t count = read_count(cursor)
    if count == NOT_PLAIN:
        return None
    for _ in range(count):
        topic = new(kind)
        if version < FIRST_WITH_TOPIC_IDS:
            name = read_string(cursor)
            if name is None:
                return None
            topic.topic = name
            topic.topic_id = NO_TOPIC_ID
        else:
            if not has(cursor, TOPIC_ID_BYTES):
                return None
            topic.topic = NO_TOPIC_NAME
            topic.topic_id = uuid_from_bytes(
                PyBytes_FromStringAndSize(<const char *>cursor.at, TOPIC_ID_BYTES)
            )
            cursor.at += TOPIC_ID_BYTES
        items = read_items(cursor, version)
        if items is None or not skip_no_tags(cursor):
            return None
        topic.partitions = items
        topics.append(topic)
    return topics


cdef list read_partitions(Cursor *cursor, int version):
    cdef list partitions = []
    cdef int64_t count = read_count(cursor)
    cdef bint has_leader_epoch = version >= FIRST_WITH_LEADER_EPOCH
    cdef bint has_last_epoch = version >= FIRST_FLEXIBLE_VERSION
    cdef bint has_log_start = version >= FIRST_WITH_LOG_START
    cdef int size = 16 + 4 * has_leader_epoch + 4 * has_last_epoch + 8 * has_log_start
    if count == NOT_PLAIN:
        return None
    for _ in range(count):
        if not has(cursor, size):
            return None
        partition = new(FetchPartition)
        partition.partition = read_number(cursor, 4)
        partition.current_leader_epoch = read_number(cursor, 4) if has_leader_epoch else -1
        partition.fetch_offset = read_number(cursor, 8)
        partition.last_fetched_epoch = read_number(cursor, 4) if has_last_epoch else -1
        partition.log_start_offset = read_number(cursor, 8) if has_log_start else -1
        partition.partition_max_bytes = read_number(cursor, 4)
        partition.replica_directory_id = NO_DIRECTORY_ID
        if not skip_no_tags(cursor):
            return None
        partitions.append(partition)
    return partitions


cdef list read_numbers(Cursor *cursor, int version):
    cdef list numbers = []
    cdef int64_t count = read_count(cursor)
    if count == NOT_PLAIN or not has(cursor, 4 * count):
        return None
    for _ in range(count):
        numbers.append(read_number(cursor, 4))
    return numbers


def encode_fetched(header, message):
    """See `plain_codecs.encode_fetched`."""
    cdef int version = header.api_version
    cdef list parts = None
    if FIRST_VERSION <= version <= LAST_VERSION:
        try:
            parts = write_response(header.correlation_id, message, version)
        except (AttributeError, OverflowError, TypeError, UnicodeEncodeError):
            # The general codec names the wrong field.
            pass
    return plain_codecs.encode_fetched(header, message) if parts is None else parts


cdef list write_response(int32_t correlation_id, object message, int version):
    """Return the parts of the response; None if it is not plain."""
    cdef Py_ssize_t most_bytes = MOST_ENDS_BYTES
    cdef Py_ssize_t text_bytes
    if message.node_endpoints or (version < FIRST_WITH_SESSIONS and message.session_id):
        return None
    for topic in message.responses:
        PyUnicode_AsUTF8AndSize(topic.topic, &text_bytes)
        if text_bytes > MAX_STRING_BYTES:
            return None
        most_bytes += MOST_TOPIC_BYTES + text_bytes
        most_bytes += MOST_PARTITION_BYTES * <Py_ssize_t>len(topic.partitions)
    cdef uint8_t *room = <uint8_t *>PyMem_Malloc(most_bytes)
    if room is NULL:
        raise MemoryError
    try:
        return fill(room, correlation_id, message, version)
    finally:
        PyMem_Free(room)


cdef list fill(uint8_t *room, int32_t correlation_id, object message, int version):
    cdef bint is_flexible = version >= FIRST_FLEXIBLE_VERSION
    cdef uint8_t *at = write_head(room, correlation_id, message, version)
    cdef const uint8_t *begin = room
    cdef int64_t size_bytes = -SIZE_BYTES
    cdef int64_t records_bytes
    cdef list parts = []
    for topic in message.responses:
        at = write_topic(at, topic, version)
        for data in topic.partitions:
            records_bytes = size_of_records(data.records)
            if not is_plain(data, version) or records_bytes > INT32_MAX:
                return None
            at = write_partition(at, data, version)
            at = write_length(at, records_bytes, 4, is_flexible)
            if records_bytes > 0:
                parts.append(PyBytes_FromStringAndSize(<const char *>begin, at - begin))
                parts.append(data.records)
                size_bytes += at - begin + records_bytes
                begin = at
            at = write_no_tags(at, is_flexible)
        at = write_no_tags(at, is_flexible)
    at = write_no_tags(at, is_flexible)
    if at != begin:
        parts.append(PyBytes_FromStringAndSize(<const char *>begin, at - begin))
        size_bytes += at - begin
    if size_bytes > INT32_MAX:
        return None
    # The first part has not been shared yet, so it can be changed.
    write_big_endian(<uint8_t *>PyBytes_AS_STRING(parts[0]), size_bytes, SIZE_BYTES)
    return parts


cdef uint8_t *write_head(
    uint8_t *room, int32_t correlation_id, object message, int version
) except NULL:
    """Write the fields before the topics, after space for the size."""
    cdef bint is_flexible = version >= FIRST_FLEXIBLE_VERSION
    cdef uint8_t *at = write_big_endian(room + SIZE_BYTES, <uint64_t>correlation_id, 4)
    at = write_no_tags(at, is_flexible)
    at = write_big_endian(at, <int32_t>message.throttle_time_ms, 4)
    if version >= FIRST_WITH_SESSIONS:
        at = write_big_endian(at, <int16_t>message.error_code, 2)
        at = write_big_endian(at, <int32_t>message.session_id, 4)
    return write_length(at, len(message.responses), 4, is_flexible)


cdef uint8_t *write_topic(uint8_t *at, object topic, int version) except NULL:
    """Write the fields before a topic's partitions."""
    cdef bint is_flexible = version >= FIRST_FLEXIBLE_VERSION
    cdef Py_ssize_t text_bytes
    cdef const char *text
    if version < FIRST_WITH_TOPIC_IDS:
        text = PyUnicode_AsUTF8AndSize(topic.topic, &text_bytes)
        at = write_length(at, text_bytes, 2, is_flexible)
        memcpy(at, text, text_bytes)
        at += text_bytes
    else:
        memcpy(at, PyBytes_AS_STRING(<bytes?>topic.topic_id.bytes), TOPIC_ID_BYTES)
        at += TOPIC_ID_BYTES
    return write_length(at, len(topic.partitions), 4, is_flexible)


cdef inline int64_t size_of_records(object records) except? -2:
    """Return the size of the records on the wire; -1 for None, which differs from empty."""
    if records is None:
        return -1
    if PyBytes_Check(records):
        return PyBytes_GET_SIZE(records)
    if PyMemoryView_Check(records) or PyByteArray_Check(records):
        return records_size_bytes(records)
    return records.size_bytes


cdef inline bint is_plain(object data, int version) except -1:
    """Whether a partition has only an error code, its offsets and records."""
    return (
        not data.aborted_transactions
        and data.diverging_epoch is NO_DIVERGING_EPOCH
        and data.current_leader is NO_LEADER
        and data.snapshot_id is NO_SNAPSHOT
        and (version >= FIRST_WITH_RACKS or <int32_t>data.preferred_read_replica == -1)
    )


cdef uint8_t *write_partition(uint8_t *at, object data, int version) except NULL:
    """Write the fields before a partition's records; return the position of their length."""
    at = write_big_endian(at, <int32_t>data.partition_index, 4)
    at = write_big_endian(at, <int16_t>data.error_code, 2)
    at = write_big_endian(at, <int64_t>data.high_watermark, 8)
    at = write_big_endian(at, <int64_t>data.last_stable_offset, 8)
    if version >= FIRST_WITH_LOG_START:
        at = write_big_endian(at, <int64_t>data.log_start_offset, 8)
    at = write_length(
        at, -1 if data.aborted_transactions is None else 0, 4, version >= FIRST_FLEXIBLE_VERSION
    )
    if version >= FIRST_WITH_RACKS:
        at = write_big_endian(at, <int32_t>data.preferred_read_replica, 4)
    return at
