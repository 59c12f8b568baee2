# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: read and write the protocol's fixed-size numbers, for the compiled modules."""

from libc.stdint cimport uint8_t, uint64_t

cdef enum:
    # Raised together with `native.INTERFACE_VERSION`.
    INTERFACE = 4


cdef inline uint64_t read_big_endian(const uint8_t *at, int size) noexcept nogil:
    cdef uint64_t number = 0
    cdef int index
    for index in range(size):
        number = number << 8 | at[index]
    return number


cdef inline uint8_t *write_big_endian(uint8_t *at, uint64_t number, int size) noexcept nogil:
    """Write the lowest `size` bytes; return the position after them."""
    cdef int index
    for index in range(size - 1, -1, -1):
        at[index] = number & 0xFF
        number >>= 8
    return at + size


cdef inline uint8_t *write_uvarint(uint8_t *at, uint64_t number) noexcept nogil:
    while number > 0x7F:
        at[0] = number & 0x7F | 0x80
        number >>= 7
        at += 1
    at[0] = number
    return at + 1


cdef inline int uvarint_bytes(uint64_t number) noexcept nogil:
    cdef int size = 1
    while number > 0x7F:
        number >>= 7
        size += 1
    return size
