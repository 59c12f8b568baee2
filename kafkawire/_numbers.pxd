# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: read and write the protocol's fixed-size numbers, for the compiled modules."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    # Raised together with `native.INTERFACE_VERSION`.
    INTERFACE = 9


cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define OTTLA_BIG_ENDIAN(number) _byteswap_uint64(number)
    #elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define OTTLA_BIG_ENDIAN(number) (number)
    #else
    #define OTTLA_BIG_ENDIAN(number) __builtin_bswap64(number)
    #endif
    static inline uint64_t read_big_endian(const uint8_t *at, int size) {
        uint64_t number = 0;
        memcpy(&number, at, size);
        return OTTLA_BIG_ENDIAN(number) >> (64 - 8 * size);
    }
    static inline uint8_t *write_big_endian(uint8_t *at, uint64_t number, int size) {
        number = OTTLA_BIG_ENDIAN(number << (64 - 8 * size));
        memcpy(at, &number, size);
        return at + size;
    }
    """
    uint64_t read_big_endian(const uint8_t *at, int size) noexcept nogil
    # Writes the lowest `size` bytes; returns the position after them.
    uint8_t *write_big_endian(uint8_t *at, uint64_t number, int size) noexcept nogil


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
