# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: step over a record, and write its numbers, in the compiled modules.

Invariant: no byte at or behind `end` is read, even if a length is wrong.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kafkawire._numbers cimport uvarint_bytes, write_uvarint

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define OTTLA_ADD_OVERFLOWS(a, b, sum) __builtin_add_overflow((a), (b), (sum))
    #define OTTLA_SUB_OVERFLOWS(a, b, difference) __builtin_sub_overflow((a), (b), (difference))
    #else
    static int OTTLA_ADD_OVERFLOWS(int64_t a, int64_t b, int64_t *sum) {
        *sum = (int64_t)((uint64_t)a + (uint64_t)b);
        return (b >= 0) ? (*sum < a) : (*sum >= a);
    }
    static int OTTLA_SUB_OVERFLOWS(int64_t a, int64_t b, int64_t *difference) {
        *difference = (int64_t)((uint64_t)a - (uint64_t)b);
        return (b >= 0) ? (*difference > a) : (*difference <= a);
    }
    #endif
    """
    bint OTTLA_ADD_OVERFLOWS(int64_t a, int64_t b, int64_t *sum) noexcept nogil
    bint OTTLA_SUB_OVERFLOWS(int64_t a, int64_t b, int64_t *difference) noexcept nogil

cdef enum:
    MIN_RECORD_BYTES = 7
    NO_TIMESTAMP = -1

# The result of `walk_record`: a kind of damage, or none.
cdef enum Fault:
    NO_FAULT
    PAST_THE_END
    LONG_VARINT
    NEGATIVE_LENGTH
    WRONG_LENGTH
    BAD_HEADERS

# A record in place: pointers into the section, and sizes of -1 for null.
cdef struct Record:
    uint8_t attributes
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_bytes
    int32_t value_bytes
    int32_t header_count
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers


cdef inline Fault read_uvarint(
    const uint8_t **cursor, const uint8_t *end, uint64_t *result, int last_shift, uint8_t last_byte
) noexcept nogil:
    """Read a number whose last possible byte is at `last_shift`, and is `last_byte` at most."""
    cdef const uint8_t *at = cursor[0]
    cdef uint64_t number = 0
    cdef int shift = 0
    cdef uint8_t byte
    # Nearly all numbers of a record take one or two bytes, and need no loop.
    if at < end and at[0] < 0x80:
        cursor[0] = at + 1
        result[0] = at[0]
        return NO_FAULT
    if end - at > 1 and at[1] < 0x80:
        cursor[0] = at + 2
        result[0] = (at[0] & 0x7F) | <uint64_t>at[1] << 7
        return NO_FAULT
    while True:
        if at >= end:
            return PAST_THE_END
        byte = at[0]
        at += 1
        if shift == last_shift and byte > last_byte:
            return LONG_VARINT
        number |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    cursor[0] = at
    result[0] = number
    return NO_FAULT


cdef inline Fault read_varlong(
    const uint8_t **cursor, const uint8_t *end, int64_t *result
) noexcept nogil:
    cdef uint64_t number = 0
    # The tenth byte has room for one bit.
    cdef Fault fault = read_uvarint(cursor, end, &number, 63, 1)
    result[0] = <int64_t>(number >> 1) ^ -<int64_t>(number & 1)
    return fault


cdef inline Fault read_varint(
    const uint8_t **cursor, const uint8_t *end, int32_t *result
) noexcept nogil:
    cdef uint64_t number = 0
    # The fifth byte has room for four bits.
    cdef Fault fault = read_uvarint(cursor, end, &number, 28, 0x0F)
    result[0] = <int32_t>(number >> 1) ^ -<int32_t>(number & 1)
    return fault


cdef inline Fault read_span(
    const uint8_t **cursor, const uint8_t *end, const uint8_t **span, int32_t *size
) noexcept nogil:
    """Read a length and step over as many bytes; a negative length means null."""
    cdef Fault fault = read_varint(cursor, end, size)
    if fault != NO_FAULT:
        return fault
    span[0] = cursor[0]
    if size[0] > 0:
        if size[0] > end - cursor[0]:
            return PAST_THE_END
        cursor[0] += size[0]
    return NO_FAULT


cdef inline Fault walk_headers(
    const uint8_t **cursor, const uint8_t *end, int32_t count
) noexcept nogil:
    cdef const uint8_t *span
    cdef int32_t size
    cdef Fault fault
    if count < 0 or count > end - cursor[0]:
        return BAD_HEADERS
    for _ in range(count):
        fault = read_span(cursor, end, &span, &size)
        if fault == NO_FAULT:
            if size < 0:
                return NEGATIVE_LENGTH
            fault = read_span(cursor, end, &span, &size)
        if fault != NO_FAULT:
            return fault
    return NO_FAULT


cdef inline Fault walk_record(
    const uint8_t **cursor, const uint8_t *end, Record *record
) noexcept nogil:
    """Step over the record at `cursor`, and fill in the positions of its parts."""
    cdef int32_t size
    cdef const uint8_t *at = cursor[0]
    cdef const uint8_t *record_end
    cdef Fault fault = read_varint(&at, end, &size)
    if fault != NO_FAULT:
        return fault
    if size < 0:
        return NEGATIVE_LENGTH
    if size > end - at:
        return PAST_THE_END
    if size < MIN_RECORD_BYTES - 1:
        return WRONG_LENGTH
    record_end = at + size
    # By the record's length instead of the lengths of its parts, so that the processor can begin
    # the next record while it still adds up this one.
    cursor[0] = record_end
    # Unused in all versions.
    record.attributes = at[0]
    at += 1
    fault = read_varlong(&at, record_end, &record.timestamp_delta)
    if fault == NO_FAULT:
        fault = read_varint(&at, record_end, &record.offset_delta)
    if fault == NO_FAULT:
        fault = read_span(&at, record_end, &record.key, &record.key_bytes)
    if fault == NO_FAULT:
        fault = read_span(&at, record_end, &record.value, &record.value_bytes)
    if fault == NO_FAULT:
        fault = read_varint(&at, record_end, &record.header_count)
    if fault != NO_FAULT:
        return fault
    record.headers = at
    if record.header_count:
        fault = walk_headers(&at, record_end, record.header_count)
        if fault != NO_FAULT:
            return fault
    return NO_FAULT if at == record_end else WRONG_LENGTH


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int varint_bytes(int64_t value) noexcept nogil:
    return uvarint_bytes(zigzag(value))


cdef inline uint8_t *write_varint(uint8_t *at, int64_t value) noexcept nogil:
    return write_uvarint(at, zigzag(value))
