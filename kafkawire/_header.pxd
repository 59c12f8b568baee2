# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: the layout of a batch header, for the compiled modules."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from kafkawire._numbers cimport read_big_endian


cdef enum:
    HEADER_BYTES = 61
    # Size of base offset and length, which the length field does not count.
    LOG_OVERHEAD_BYTES = 12
    MAGIC = 2
    ATTRIBUTES_POSITION = 21


cdef inline tuple header_fields(const uint8_t *data):
    """Return the fields of `BatchHeader` in order; `data` has at least HEADER_BYTES."""
    return (
        <int64_t>read_big_endian(data, 8),
        <int32_t>read_big_endian(data + 8, 4),
        <int32_t>read_big_endian(data + 12, 4),
        <int8_t>data[16],
        <uint32_t>read_big_endian(data + 17, 4),
        <int16_t>read_big_endian(data + 21, 2),
        <int32_t>read_big_endian(data + 23, 4),
        <int64_t>read_big_endian(data + 27, 8),
        <int64_t>read_big_endian(data + 35, 8),
        <int64_t>read_big_endian(data + 43, 8),
        <int16_t>read_big_endian(data + 51, 2),
        <int32_t>read_big_endian(data + 53, 4),
        <int32_t>read_big_endian(data + 57, 4),
    )
