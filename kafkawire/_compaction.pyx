# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: the compiled twin of `compaction_loops`: the same names, results and errors.

The plain module documents the contracts of the functions, and
tests/property/kafkawire/test_compaction_twins.py keeps the twins consistent. Keys are identified by
128-bit SipHash-2-4 under a random key of the caller: a hostile producer cannot construct two keys
with the same hash to remove the records of another one.

Invariant: no byte outside the section is read, even if its lengths are wrong.

Source: Aumasson and Bernstein, SipHash: a fast short-input PRF.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafkawire._numbers cimport INTERFACE
from kafkawire._walk cimport (
    MIN_RECORD_BYTES,
    NO_FAULT,
    NO_TIMESTAMP,
    OTTLA_ADD_OVERFLOWS,
    OTTLA_SUB_OVERFLOWS,
    Fault,
    Record,
    varint_bytes,
    walk_record,
    write_varint,
)

from kafkawire.compaction_loops import Choice
from kafkawire.errors import CorruptBatchError

INTERFACE_VERSION = INTERFACE
BYTES_PER_SLOT = sizeof(Slot)

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define OTTLA_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define OTTLA_PREFETCH(address) ((void)0)
    #endif
    """
    void OTTLA_PREFETCH(const void *address) noexcept nogil

cdef enum:
    # Number of records that are looked up together, to prefetch their slots in parallel.
    AHEAD = 16

cdef struct Hash:
    uint64_t low
    uint64_t high

# A free slot has `offset_plus_one` 0.
cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t offset_plus_one

# A record that waits for its slot.
cdef struct Pending:
    Hash hash
    Slot *slot
    int64_t offset
    int64_t timestamp_ms
    bint has_key
    bint has_value


cdef inline uint64_t rotate(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline void sip_round(uint64_t *v) noexcept nogil:
    v[0] += v[1]
    v[1] = rotate(v[1], 13) ^ v[0]
    v[0] = rotate(v[0], 32)
    v[2] += v[3]
    v[3] = rotate(v[3], 16) ^ v[2]
    v[0] += v[3]
    v[3] = rotate(v[3], 21) ^ v[0]
    v[2] += v[1]
    v[1] = rotate(v[1], 17) ^ v[2]
    v[2] = rotate(v[2], 32)


cdef inline Hash sip_hash(const uint8_t *at, Py_ssize_t size, const uint64_t *seed) noexcept nogil:
    cdef uint64_t[4] v
    cdef uint64_t word
    cdef const uint8_t *tail = at + (size & ~<Py_ssize_t>7)
    cdef Hash result
    v[0] = seed[0] ^ 0x736f6d6570736575ULL
    v[1] = seed[1] ^ 0x646f72616e646f6dULL ^ 0xee
    v[2] = seed[0] ^ 0x6c7967656e657261ULL
    v[3] = seed[1] ^ 0x7465646279746573ULL
    while at < tail:
        memcpy(&word, at, 8)
        v[3] ^= word
        sip_round(v)
        sip_round(v)
        v[0] ^= word
        at += 8
    word = 0
    memcpy(&word, at, size & 7)
    word |= <uint64_t>size << 56
    v[3] ^= word
    sip_round(v)
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xee
    sip_round(v)
    sip_round(v)
    sip_round(v)
    sip_round(v)
    result.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xdd
    sip_round(v)
    sip_round(v)
    sip_round(v)
    sip_round(v)
    result.high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return result


cdef class OffsetMap:
    """See `compaction_loops.OffsetMap`."""

    cdef Slot *_slots
    cdef uint64_t[2] _seed
    cdef readonly Py_ssize_t slot_count
    cdef readonly Py_ssize_t size
    cdef public int64_t latest_offset

    def __cinit__(self, Py_ssize_t slot_count, bytes seed not None):
        if slot_count < 1:
            raise ValueError(f"a map needs a slot, not {slot_count}")
        if len(seed) != 16:
            raise ValueError(f"a seed has 16 bytes, not {len(seed)}")
        memcpy(self._seed, PyBytes_AS_STRING(seed), 16)
        # The system allocates each page when it is first written.
        self._slots = <Slot *>calloc(slot_count, sizeof(Slot))
        if self._slots == NULL:
            raise MemoryError(f"{slot_count * sizeof(Slot)} bytes for a map of keys")
        self.slot_count = slot_count
        self.size = 0
        self.latest_offset = -1

    def __dealloc__(self):
        free(self._slots)

    def put(self, bytes key not None, int64_t offset):
        """Set the offset of the last record of `key`; return False if a new key has no slot."""
        cdef Hash hash = self.hash_of(<const uint8_t *>PyBytes_AS_STRING(key), len(key))
        return self.insert(hash, self.home(hash), offset)

    def get(self, bytes key not None):
        """Return the offset that was put last for `key`, or -1."""
        cdef Hash hash = self.hash_of(<const uint8_t *>PyBytes_AS_STRING(key), len(key))
        return self.find(hash, self.home(hash))

    cdef inline Hash hash_of(self, const uint8_t *key, Py_ssize_t size) noexcept nogil:
        return sip_hash(key, size, self._seed)

    cdef inline Slot *home(self, Hash hash) noexcept nogil:
        return self._slots + hash.low % <uint64_t>self.slot_count

    cdef inline Slot *seek(self, Hash hash, Slot *slot) noexcept nogil:
        """Return the slot of a key, or the free slot for it; NULL if the map is full."""
        cdef Slot *end = self._slots + self.slot_count
        cdef Py_ssize_t left = self.slot_count
        while left:
            if slot.offset_plus_one == 0 or (slot.low == hash.low and slot.high == hash.high):
                return slot
            slot += 1
            if slot == end:
                slot = self._slots
            left -= 1
        return NULL

    cdef inline bint insert(self, Hash hash, Slot *slot, int64_t offset) noexcept nogil:
        slot = self.seek(hash, slot)
        if slot == NULL:
            return False
        if slot.offset_plus_one == 0:
            slot.low = hash.low
            slot.high = hash.high
            self.size += 1
        slot.offset_plus_one = offset + 1
        self.latest_offset = offset
        return True

    cdef inline int64_t find(self, Hash hash, Slot *slot) noexcept nogil:
        slot = self.seek(hash, slot)
        return -1 if slot == NULL else slot.offset_plus_one - 1


cdef object corrupt(Py_ssize_t index):
    return CorruptBatchError(f"record {index} of a batch is damaged")


cdef object cut(Py_ssize_t count, Py_ssize_t rest):
    return CorruptBatchError(f"{count} records end {rest} bytes too early")


cdef inline void look_ahead(OffsetMap offsets, const Record *record, Pending *pending) noexcept:
    pending.has_key = record.key_bytes >= 0
    pending.has_value = record.value_bytes >= 0
    if pending.has_key:
        pending.hash = offsets.hash_of(record.key, record.key_bytes)
        pending.slot = offsets.home(pending.hash)
        OTTLA_PREFETCH(pending.slot)


def index_keys(
    data,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t start_offset,
    OffsetMap offsets not None,
    Py_ssize_t limit,
):
    """See `compaction_loops.index_keys`."""
    cdef Py_buffer view
    cdef const uint8_t *cursor
    cdef const uint8_t *end
    cdef Record record
    cdef Pending[AHEAD] waiting
    cdef Py_ssize_t index = 0
    cdef Py_ssize_t waiting_count, number
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if count > view.len // MIN_RECORD_BYTES:
            raise CorruptBatchError(f"{view.len} bytes cannot hold {count} records")
        cursor = <const uint8_t *>view.buf
        end = cursor + view.len
        check_section(cursor, end, count)
        while index < count:
            waiting_count = min(count - index, <Py_ssize_t>AHEAD)
            for number in range(waiting_count):
                walk_record(&cursor, end, &record)
                waiting[number].offset = base_offset + record.offset_delta
                look_ahead(offsets, &record, &waiting[number])
            for number in range(waiting_count):
                if waiting[number].has_key and waiting[number].offset >= start_offset:
                    if offsets.size >= limit:
                        return False
                    if not offsets.insert(
                        waiting[number].hash, waiting[number].slot, waiting[number].offset
                    ):
                        return False
            index += waiting_count
        return True
    finally:
        PyBuffer_Release(&view)


cdef int check_section(const uint8_t *cursor, const uint8_t *end, Py_ssize_t count) except -1:
    """Walk all records once, to find damage before any change."""
    cdef Record record
    cdef Py_ssize_t index
    for index in range(count):
        if walk_record(&cursor, end, &record) != NO_FAULT:
            raise corrupt(index)
    if cursor != end:
        raise cut(count, end - cursor)
    return 0


def choose_records(
    data,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp_ms,
    append_timestamp_ms,
    OffsetMap offsets not None,
    bint drops_tombstones,
):
    """See `compaction_loops.choose_records`."""
    cdef Py_buffer view
    cdef const uint8_t *cursor
    cdef const uint8_t *end
    cdef Record record
    cdef Pending[AHEAD] waiting
    cdef bint has_append_time = append_timestamp_ms is not None
    cdef int64_t append_ms = append_timestamp_ms if has_append_time else 0
    cdef int64_t first_ms = NO_TIMESTAMP
    cdef int64_t latest_ms = NO_TIMESTAMP
    cdef int64_t latest_offset = offsets.latest_offset
    cdef Py_ssize_t index = 0
    cdef Py_ssize_t kept_count = 0
    cdef Py_ssize_t without_key_count = 0
    cdef Py_ssize_t waiting_count, number
    cdef bint has_tombstone = False
    cdef bint is_kept
    cdef bytes kept
    cdef uint8_t *mask
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if count > view.len // MIN_RECORD_BYTES:
            raise CorruptBatchError(f"{view.len} bytes cannot hold {count} records")
        kept = PyBytes_FromStringAndSize(NULL, count)
        mask = <uint8_t *>PyBytes_AS_STRING(kept)
        cursor = <const uint8_t *>view.buf
        end = cursor + view.len
        while index < count:
            waiting_count = min(count - index, <Py_ssize_t>AHEAD)
            for number in range(waiting_count):
                if walk_record(&cursor, end, &record) != NO_FAULT:
                    raise corrupt(index + number)
                if has_append_time:
                    waiting[number].timestamp_ms = append_ms
                elif OTTLA_ADD_OVERFLOWS(
                    base_timestamp_ms, record.timestamp_delta, &waiting[number].timestamp_ms
                ):
                    raise CorruptBatchError("a timestamp leaves 64 bits")
                waiting[number].offset = base_offset + record.offset_delta
                look_ahead(offsets, &record, &waiting[number])
            for number in range(waiting_count):
                if waiting[number].offset > latest_offset:
                    is_kept = True
                elif not waiting[number].has_key:
                    is_kept = False
                    without_key_count += 1
                else:
                    is_kept = (waiting[number].has_value or not drops_tombstones) and (
                        waiting[number].offset
                        >= offsets.find(waiting[number].hash, waiting[number].slot)
                    )
                mask[index + number] = is_kept
                if is_kept:
                    if not kept_count:
                        first_ms = waiting[number].timestamp_ms
                    kept_count += 1
                    has_tombstone = has_tombstone or not waiting[number].has_value
                    if waiting[number].timestamp_ms > latest_ms:
                        latest_ms = waiting[number].timestamp_ms
            index += waiting_count
        if cursor != end:
            raise cut(count, end - cursor)
    finally:
        PyBuffer_Release(&view)
    return Choice(kept, kept_count, has_tombstone, first_ms, latest_ms, without_key_count)


def rewrite_records(
    data,
    bytes kept not None,
    int64_t base_timestamp_ms,
    append_timestamp_ms,
    int64_t new_base_timestamp_ms,
):
    """See `compaction_loops.rewrite_records`."""
    cdef Py_buffer view
    cdef Py_ssize_t count = len(kept)
    cdef bint has_append_time = append_timestamp_ms is not None
    cdef int64_t append_ms = append_timestamp_ms if has_append_time else 0
    cdef bint is_same_base = not has_append_time and base_timestamp_ms == new_base_timestamp_ms
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if count > view.len // MIN_RECORD_BYTES:
            raise CorruptBatchError(f"{view.len} bytes cannot hold {count} records")
        return rewrite(
            <const uint8_t *>view.buf,
            <const uint8_t *>view.buf + view.len,
            kept,
            base_timestamp_ms,
            has_append_time,
            append_ms,
            new_base_timestamp_ms,
            is_same_base,
        )
    finally:
        PyBuffer_Release(&view)


cdef bytes rewrite(
    const uint8_t *cursor,
    const uint8_t *end,
    bytes kept,
    int64_t base_timestamp_ms,
    bint has_append_time,
    int64_t append_ms,
    int64_t new_base_timestamp_ms,
    bint is_same_base,
):
    cdef Py_ssize_t count = len(kept)
    cdef const uint8_t *mask = <const uint8_t *>PyBytes_AS_STRING(kept)
    # A record can grow by its timestamp (at most ten bytes), and then by its length (five bytes).
    cdef bytearray output = bytearray((end - cursor) + (0 if is_same_base else 15 * count))
    cdef uint8_t *start = output
    cdef uint8_t *at = start
    cdef const uint8_t *begin
    cdef const uint8_t *rest
    cdef Record record
    cdef int64_t timestamp_ms, delta
    cdef Py_ssize_t index, rest_bytes
    cdef Py_ssize_t size
    for index in range(count):
        begin = cursor
        if walk_record(&cursor, end, &record) != NO_FAULT:
            raise corrupt(index)
        if has_append_time:
            timestamp_ms = append_ms
        elif OTTLA_ADD_OVERFLOWS(base_timestamp_ms, record.timestamp_delta, &timestamp_ms):
            raise CorruptBatchError("a timestamp leaves 64 bits")
        if not mask[index]:
            continue
        if is_same_base:
            memcpy(at, begin, cursor - begin)
            at += cursor - begin
            continue
        if OTTLA_SUB_OVERFLOWS(timestamp_ms, new_base_timestamp_ms, &delta):
            raise CorruptBatchError("a timestamp is too far from its base")
        rest = behind_timestamp(begin)
        rest_bytes = cursor - rest
        size = 1 + varint_bytes(delta) + rest_bytes
        at = write_varint(at, size)
        at[0] = 0
        at = write_varint(at + 1, delta)
        memcpy(at, rest, rest_bytes)
        at += rest_bytes
    if cursor != end:
        raise cut(count, end - cursor)
    return PyBytes_FromStringAndSize(<const char *>start, at - start)


cdef inline const uint8_t *behind_timestamp(const uint8_t *at) noexcept nogil:
    """Return the position of the offset delta of a sound record."""
    while at[0] > 0x7F:
        at += 1
    # Skip the last byte of the length, and the attributes.
    at += 2
    while at[0] > 0x7F:
        at += 1
    return at + 1
