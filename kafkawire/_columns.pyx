# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decision: the compiled twin of `columns_loops`, `key_hash` and `key_table_loops`.

See `native`. The plain twin documents the functions; tests/property/kafkawire/test_columns_twins.py compares them.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort, realloc
from libc.string cimport memcpy

from kafkawire._header cimport (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    header_fields,
)
from kafkawire._numbers cimport INTERFACE, read_big_endian
from kafkawire._walk cimport (
    MIN_RECORD_BYTES,
    NO_FAULT,
    NO_TIMESTAMP,
    Fault,
    Record,
    walk_record,
)

from crc32c import crc32c

from kafkawire.columns_loops import Column, SectionSurvey, SoundBatch, Spans
from kafkawire.errors import CorruptBatchError
from kafkawire.key_table_loops import KeyLimitError
from kafkawire.records_header import BatchHeader

INTERFACE_VERSION = INTERFACE

# The constructor of a named tuple is a Python function, and takes as long as a small batch.
cdef object new_tuple = tuple.__new__


cdef enum:
    UNKNOWN_KEY = 1
    OTHER_VALUE = 2
    OLDER = 3
    NEWER = 4
    OTHER_TIME = 5
    FIRST_CAPACITY = 4096
    # Load limit of the table; above it, chains of occupied slots grow long.
    MAX_LOAD_PERCENT = 70

cdef uint64_t C1 = 0x87C37B91114253D5
cdef uint64_t C2 = 0x4CF5AD432745937F


cdef inline uint64_t rotate(uint64_t number, int bits) noexcept nogil:
    return (number << bits) | (number >> (64 - bits))


cdef inline uint64_t finish(uint64_t number) noexcept nogil:
    number = (number ^ (number >> 33)) * <uint64_t>0xFF51AFD7ED558CCD
    number = (number ^ (number >> 33)) * <uint64_t>0xC4CEB9FE1A85EC53
    return number ^ (number >> 33)


cdef inline uint64_t read_word(const uint8_t *at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return word


cdef inline uint64_t read_part(
    const uint8_t *start, const uint8_t *at, Py_ssize_t size
) noexcept nogil:
    """Return the 1 to 8 bytes at `at` as a number; `start` is the first byte that may be read."""
    cdef uint64_t word = 0
    cdef Py_ssize_t index
    # A single load that begins before `at`, if enough bytes precede it.
    if at + size - start >= 8:
        return read_word(at + size - 8) >> (8 * (8 - size))
    for index in range(size):
        word |= <uint64_t>at[index] << (8 * index)
    return word


cdef inline void murmur(
    const uint8_t *data, Py_ssize_t size, uint64_t *high, uint64_t *low
) noexcept nogil:
    cdef uint64_t first = 0
    cdef uint64_t second = 0
    cdef Py_ssize_t tail = size & 15
    cdef const uint8_t *start = data
    cdef const uint8_t *end = data + size - tail
    while data < end:
        first ^= rotate(read_word(data) * C1, 31) * C2
        first = (rotate(first, 27) + second) * 5 + 0x52DCE729
        second ^= rotate(read_word(data + 8) * C2, 33) * C1
        second = (rotate(second, 31) + first) * 5 + 0x38495AB5
        data += 16
    if tail > 8:
        second ^= rotate(read_part(start, data + 8, tail - 8) * C2, 33) * C1
        first ^= rotate(read_word(data) * C1, 31) * C2
    elif tail > 0:
        first ^= rotate(read_part(start, data, tail) * C1, 31) * C2
    first ^= <uint64_t>size
    second ^= <uint64_t>size
    first += second
    second += first
    first = finish(first)
    second = finish(second)
    first += second
    second += first
    high[0] = first
    low[0] = second


cdef object corrupt(Py_ssize_t index):
    return CorruptBatchError(f"record {index} cannot be read")


cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    """Return the sum, wrapped to 64 bits."""
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef enum:
    # A fingerprint's highest byte also depends on the record's attributes.
    ATTRIBUTES_SHIFT = 56


cdef inline uint64_t print_of(const Record *record, const uint8_t *end) noexcept nogil:
    """Return the fingerprint of the record in a table."""
    return fingerprint_of(record, end) ^ <uint64_t>record.attributes << ATTRIBUTES_SHIFT


cdef inline uint64_t fingerprint_of(const Record *record, const uint8_t *end) noexcept nogil:
    """Return the hash of the encoded value and headers, which follow the key."""
    cdef const uint8_t *rest = record.key + (record.key_bytes if record.key_bytes > 0 else 0)
    cdef uint64_t high, low
    murmur(rest, end - rest, &high, &low)
    return high


def hash_key(bytes key not None):
    """See `key_hash.hash_key`."""
    cdef uint64_t high, low
    murmur(<const uint8_t *>key, len(key), &high, &low)
    return <int64_t>high, <int64_t>low


cdef class Section:
    """The records of one batch; the object keeps the buffer alive."""

    cdef Py_buffer view
    cdef const uint8_t *start
    cdef const uint8_t *end
    cdef Py_ssize_t count

    def __cinit__(self, data, Py_ssize_t count):
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.start = <const uint8_t *>self.view.buf
        self.end = self.start + self.view.len
        self.count = count
        if count > self.view.len // MIN_RECORD_BYTES:
            raise CorruptBatchError(f"{self.view.len} bytes cannot hold {count} records")

    def __dealloc__(self):
        if <PyObject *>self.view.obj != NULL:
            PyBuffer_Release(&self.view)

    cdef int check_end(self, const uint8_t *cursor) except -1:
        if cursor != self.end:
            raise CorruptBatchError(f"{self.count} records end {self.end - cursor} bytes too early")
        return 0

    cdef int check_all(self) except -1:
        """Check the complete section before any part of it is used."""
        cdef const uint8_t *cursor = self.start
        cdef const uint8_t *end = self.end
        cdef Record record
        cdef Py_ssize_t index
        for index in range(self.count):
            if walk_record(&cursor, end, &record) != NO_FAULT:
                raise corrupt(index)
        return self.check_end(cursor)


# Summary of the records of one batch, the fields of `SectionSurvey`.
cdef struct Survey:
    int64_t newest_ms
    Py_ssize_t out_of_order
    Py_ssize_t without_key
    Py_ssize_t tombstones


cdef Py_ssize_t survey_records(
    const uint8_t **cursor,
    const uint8_t *end,
    Py_ssize_t count,
    int32_t last_offset_delta,
    int64_t base_timestamp_ms,
    Survey *survey,
) noexcept nogil:
    """Walk `count` records; return the index of the first that cannot be read, or -1."""
    cdef int64_t timestamp_ms
    cdef Py_ssize_t index
    cdef int32_t previous = -1
    cdef Record record
    survey.newest_ms = NO_TIMESTAMP
    survey.out_of_order = -1
    survey.without_key = 0
    survey.tombstones = 0
    for index in range(count):
        if walk_record(cursor, end, &record) != NO_FAULT:
            return index
        timestamp_ms = plus(base_timestamp_ms, record.timestamp_delta)
        if timestamp_ms > survey.newest_ms:
            survey.newest_ms = timestamp_ms
        if survey.out_of_order < 0 and not previous < record.offset_delta <= last_offset_delta:
            survey.out_of_order = index
        previous = record.offset_delta
        if record.key_bytes < 0:
            survey.without_key += 1
        elif record.value_bytes < 0:
            survey.tombstones += 1
    return -1


cdef inline object survey_tuple(const Survey *survey):
    cdef tuple fields = (
        survey.newest_ms, survey.out_of_order, survey.without_key, survey.tombstones
    )
    return new_tuple(SectionSurvey, fields)


def survey_section(
    data, Py_ssize_t count, int32_t last_offset_delta, int64_t base_timestamp_ms
):
    """See `columns_loops.survey_section`."""
    cdef Section section = Section(data, count)
    cdef const uint8_t *cursor = section.start
    cdef Survey survey
    cdef Py_ssize_t unreadable = survey_records(
        &cursor, section.end, count, last_offset_delta, base_timestamp_ms, &survey
    )
    if unreadable >= 0:
        raise corrupt(unreadable)
    section.check_end(cursor)
    return survey_tuple(&survey)


cdef enum:
    CODEC_MASK = 0x07
    APPEND_TIME_MASK = 0x08

cdef int64_t MAX_BASE_OFFSET = (<int64_t>1 << 62) - (<int64_t>1 << 31) + (<int64_t>1 << 62)


def read_plain_batches(data not None, file, Py_ssize_t position, Py_ssize_t limit):
    """See `columns_loops.read_plain_batches`."""
    cdef Py_buffer view
    cdef list found = []
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t size
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while len(found) < limit:
            size = put_plain_batch(
                <const uint8_t *>view.buf + at, view.len - at, data, at, file, position + at, found
            )
            if size == 0:
                break
            at += size
    finally:
        PyBuffer_Release(&view)
    return found


cdef Py_ssize_t put_plain_batch(
    const uint8_t *head,
    Py_ssize_t left,
    object data,
    Py_ssize_t at,
    object file,
    Py_ssize_t position,
    list found,
) except -1:
    """Append the batch at `head` if it is plain; return its size, or 0."""
    if left < HEADER_BYTES:
        return 0
    cdef int64_t base_offset = <int64_t>read_big_endian(head, 8)
    cdef int64_t length = <int32_t>read_big_endian(head + 8, 4)
    cdef uint32_t crc = <uint32_t>read_big_endian(head + 17, 4)
    cdef int16_t attributes = <int16_t>read_big_endian(head + 21, 2)
    cdef int32_t last_offset_delta = <int32_t>read_big_endian(head + 23, 4)
    cdef int64_t base_timestamp_ms = <int64_t>read_big_endian(head + 27, 8)
    cdef int64_t max_timestamp_ms = <int64_t>read_big_endian(head + 35, 8)
    cdef int32_t count = <int32_t>read_big_endian(head + 57, 4)
    cdef int64_t size = LOG_OVERHEAD_BYTES + length
    cdef const uint8_t *cursor = head + HEADER_BYTES
    cdef Survey survey
    if (
        head[16] != MAGIC
        or attributes & CODEC_MASK
        or not HEADER_BYTES <= size <= left
        or not 0 <= base_offset < MAX_BASE_OFFSET
        or not 0 <= count <= <int64_t>last_offset_delta + 1
        or last_offset_delta < 0
    ):
        return 0
    whole = data[at:at + size]
    if crc32c(whole[ATTRIBUTES_POSITION:]) != crc:
        return 0
    if (
        survey_records(
            &cursor, head + size, count, last_offset_delta, base_timestamp_ms, &survey
        ) >= 0
        or cursor != head + size
        or survey.out_of_order >= 0
        or (not attributes & APPEND_TIME_MASK and survey.newest_ms != max_timestamp_ms)
    ):
        return 0
    header = new_tuple(BatchHeader, header_fields(head))
    cdef tuple fields = (
        file, position, header, whole, whole[HEADER_BYTES:], survey_tuple(&survey)
    )
    found.append(new_tuple(SoundBatch, fields))
    return size


cdef class Buffer:
    """A growing byte buffer."""

    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    def __dealloc__(self):
        free(self.data)

    cdef int reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t capacity = self.capacity or 4096
        cdef uint8_t *grown
        while capacity < self.size + more:
            capacity *= 2
        if capacity != self.capacity:
            grown = <uint8_t *>realloc(self.data, capacity)
            if grown == NULL:
                raise MemoryError(f"no memory for a column of {capacity} bytes")
            self.data = grown
            self.capacity = capacity
        return 0

    cdef inline void put64(self, int64_t number) noexcept nogil:
        memcpy(self.data + self.size, &number, 8)
        self.size += 8

    cdef inline void put32(self, int32_t number) noexcept nogil:
        memcpy(self.data + self.size, &number, 4)
        self.size += 4

    cdef bytes take(self):
        taken = PyBytes_FromStringAndSize(<const char *>self.data, self.size)
        self.size = 0
        return taken


cdef class SpanColumn:
    """A column of nullable byte strings."""

    cdef Buffer data
    cdef Buffer offsets
    cdef Buffer validity
    cdef Py_ssize_t rows

    def __cinit__(self):
        self.data = Buffer()
        self.offsets = Buffer()
        self.validity = Buffer()
        self.begin()

    cdef int begin(self) except -1:
        self.rows = 0
        self.offsets.reserve(4)
        self.offsets.put32(0)
        return 0

    cdef int put(self, const uint8_t *span, int32_t size) except -1:
        self.offsets.reserve(4)
        if not self.rows & 7:
            self.validity.reserve(1)
            self.validity.data[self.validity.size] = 0
            self.validity.size += 1
        if size > 0:
            self.data.reserve(size)
            memcpy(self.data.data + self.data.size, span, size)
            self.data.size += size
        if size >= 0:
            self.validity.data[self.rows >> 3] |= 1 << (self.rows & 7)
        self.offsets.put32(<int32_t>self.data.size)
        self.rows += 1
        return 0

    cdef object take(self):
        taken = Spans(self.data.take(), self.offsets.take(), self.validity.take())
        self.begin()
        return taken


cdef class RecordColumns:
    """See `columns_loops.RecordColumns`."""

    cdef Buffer offset, timestamp_ms, key_hash_high, key_hash_low
    cdef Buffer key_bytes, value_bytes, record_bytes, fingerprint, header_count
    cdef SpanColumn key, value
    cdef readonly Py_ssize_t row_count

    def __init__(self, int columns):
        self.offset = Buffer() if columns & 1 else None
        self.timestamp_ms = Buffer() if columns & 2 else None
        self.key_hash_high = Buffer() if columns & 4 else None
        self.key_hash_low = Buffer() if columns & 4 else None
        self.key_bytes = Buffer() if columns & 8 else None
        self.value_bytes = Buffer() if columns & 16 else None
        self.record_bytes = Buffer() if columns & 32 else None
        self.fingerprint = Buffer() if columns & 64 else None
        self.header_count = Buffer() if columns & 128 else None
        self.key = SpanColumn() if columns & 256 else None
        self.value = SpanColumn() if columns & 512 else None
        self.row_count = 0

    @property
    def span_bytes(self):
        """Size of the keys and values so far."""
        cdef Py_ssize_t size = 0
        if self.key is not None:
            size += self.key.data.size
        if self.value is not None:
            size += self.value.data.size
        return size

    def append(
        self,
        data,
        Py_ssize_t count,
        int64_t base_offset,
        int64_t base_timestamp_ms,
        append_timestamp_ms,
    ):
        """See `columns_loops.RecordColumns.append`."""
        cdef Section section = Section(data, count)
        cdef bint has_append_time = append_timestamp_ms is not None
        cdef int64_t append_ms = append_timestamp_ms if has_append_time else 0
        cdef const uint8_t *cursor = section.start
        cdef const uint8_t *start
        cdef uint64_t high, low
        cdef Record record
        cdef Buffer column
        section.check_all()
        for column in (
            self.offset, self.timestamp_ms, self.key_hash_high, self.key_hash_low,
            self.key_bytes, self.value_bytes, self.record_bytes, self.fingerprint,
            self.header_count,
        ):
            if column is not None:
                column.reserve(8 * count)
        for _ in range(count):
            start = cursor
            walk_record(&cursor, section.end, &record)
            if self.offset is not None:
                self.offset.put64(base_offset + record.offset_delta)
            if self.timestamp_ms is not None:
                self.timestamp_ms.put64(
                    append_ms if has_append_time
                    else plus(base_timestamp_ms, record.timestamp_delta)
                )
            if self.key_hash_high is not None:
                high = low = 0
                if record.key_bytes >= 0:
                    murmur(record.key, record.key_bytes, &high, &low)
                self.key_hash_high.put64(<int64_t>high)
                self.key_hash_low.put64(<int64_t>low)
            if self.key_bytes is not None:
                self.key_bytes.put32(record.key_bytes if record.key_bytes >= 0 else -1)
            if self.value_bytes is not None:
                self.value_bytes.put32(record.value_bytes if record.value_bytes >= 0 else -1)
            if self.record_bytes is not None:
                self.record_bytes.put32(<int32_t>(cursor - start))
            if self.fingerprint is not None:
                self.fingerprint.put64(<int64_t>fingerprint_of(&record, cursor))
            if self.header_count is not None:
                self.header_count.put32(record.header_count)
            if self.key is not None:
                self.key.put(record.key, record.key_bytes)
            if self.value is not None:
                self.value.put(record.value, record.value_bytes)
        self.row_count += count

    def take(self):
        """See `columns_loops.RecordColumns.take`."""
        cdef dict taken = {}
        cdef Buffer column
        for name, column in (
            ("offset", self.offset),
            ("timestamp_ms", self.timestamp_ms),
            ("key_hash_high", self.key_hash_high),
            ("key_hash_low", self.key_hash_low),
            ("key_bytes", self.key_bytes),
            ("value_bytes", self.value_bytes),
            ("record_bytes", self.record_bytes),
            ("fingerprint", self.fingerprint),
            ("header_count", self.header_count),
        ):
            if column is not None:
                taken[name] = column.take()
        if self.key is not None:
            taken["key"] = self.key.take()
        if self.value is not None:
            taken["value"] = self.value.take()
        self.row_count = 0
        return taken


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define OTTLA_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define OTTLA_PREFETCH(address) ((void)0)
    #endif
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif
    /* A table is read at random: with small pages nearly every look also misses the TLB. */
    static void OTTLA_ask_for_huge_pages(void *start, size_t size) {
    #if defined(MADV_HUGEPAGE)
        const uintptr_t huge = (uintptr_t)2 << 20;
        uintptr_t first = ((uintptr_t)start + huge - 1) & ~(huge - 1);
        uintptr_t end = ((uintptr_t)start + size) & ~(huge - 1);
        /* A wish: where the system does not grant it, nothing but speed is lost. */
        if (first < end) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
    #endif
    }
    typedef struct {
        uint64_t high;
        uint64_t low;
        uint64_t offset : 62;
        uint64_t is_tombstone : 1;
        uint64_t is_seen : 1;
        uint64_t fingerprint;
        int64_t time;
        /* 0 is an empty slot. */
        uint32_t count;
        uint32_t record_bytes;
    } OttlaSlot;
    """
    void OTTLA_PREFETCH(const void *address) noexcept nogil
    void OTTLA_ask_for_huge_pages(void *start, size_t size) noexcept nogil
    ctypedef struct Slot "OttlaSlot":
        uint64_t high
        uint64_t low
        uint64_t offset
        uint64_t is_tombstone
        uint64_t is_seen
        uint64_t fingerprint
        int64_t time
        uint32_t count
        uint32_t record_bytes

cdef enum:
    # Number of records that wait for the prefetch of their slots while later ones are hashed.
    AHEAD = 32
    CACHE_LINE_BYTES = 64
    # See `put_row`.
    ROW_BYTES = 48

# A hashed record that waits for its slot.
cdef struct Hashed:
    uint64_t high
    uint64_t low
    int64_t offset
    uint64_t fingerprint
    int64_t time
    uint32_t record_bytes
    bint has_attributes
    bint is_tombstone


cdef int put_row(Buffer rows, const Slot *slot) except -1:
    """Append the six numbers of a key in `KeyTable.export`."""
    rows.reserve(ROW_BYTES)
    rows.put64(<int64_t>slot.high)
    rows.put64(<int64_t>slot.low)
    rows.put64(<int64_t>slot.offset)
    rows.put64(<int64_t>slot.fingerprint)
    rows.put64(slot.time)
    rows.put64(<int64_t>slot.is_tombstone)
    return 0


cdef int by_offset(const void *first, const void *second) noexcept nogil:
    """Order two rows by their offsets; in a table of several logs, equal ones by their hash."""
    cdef const int64_t *left = <const int64_t *>first
    cdef const int64_t *right = <const int64_t *>second
    if left[2] != right[2]:
        return -1 if left[2] < right[2] else 1
    return -1 if left[0] < right[0] else left[0] > right[0]


cdef class KeyTable:
    """See `key_table_loops.KeyTable`."""

    cdef Slot *_slots
    cdef uint64_t _capacity
    cdef uint64_t _room
    cdef uint64_t _key_limit
    cdef uint64_t _shard
    cdef uint64_t _shard_count
    cdef readonly Py_ssize_t key_count
    cdef readonly Py_ssize_t record_count
    cdef readonly Py_ssize_t repeat_count
    cdef readonly int64_t superseded_bytes

    def __init__(self, uint64_t key_limit, uint64_t shard=0, uint64_t shard_count=1):
        self._key_limit = key_limit
        self._shard = shard
        self._shard_count = shard_count
        free(self._slots)
        self._slots = NULL
        self._allocate(FIRST_CAPACITY)

    def __dealloc__(self):
        free(self._slots)

    cdef int _allocate(self, uint64_t capacity) except -1:
        cdef Slot *slots = <Slot *>calloc(capacity, sizeof(Slot))
        if slots == NULL:
            raise MemoryError(f"no memory for a table of {capacity} keys")
        OTTLA_ask_for_huge_pages(slots, capacity * sizeof(Slot))
        self._slots = slots
        self._capacity = capacity
        self._room = capacity * MAX_LOAD_PERCENT // 100
        return 0

    def reserve(self, uint64_t key_count):
        """See `key_table_loops.KeyTable.reserve`."""
        cdef uint64_t capacity = self._capacity
        key_count = min(key_count, self._key_limit)
        while capacity * MAX_LOAD_PERCENT // 100 < key_count:
            capacity *= 2
        if capacity > self._capacity:
            self._grow(capacity)

    cdef int _grow(self, uint64_t capacity) except -1:
        cdef Slot *old = self._slots
        cdef uint64_t old_capacity = self._capacity
        cdef uint64_t index
        self._allocate(capacity)
        for index in range(old_capacity):
            if old[index].count:
                self._find(old[index].high, old[index].low)[0] = old[index]
        free(old)
        return 0

    cdef inline Slot *_find(self, uint64_t high, uint64_t low) noexcept nogil:
        """Return the key's slot, or the empty slot for it; there is always an empty one."""
        cdef uint64_t mask = self._capacity - 1
        # The second half of the hash: shards use the first, so that it would leave slots unused.
        cdef uint64_t index = low & mask
        cdef Slot *slot
        while True:
            slot = self._slots + index
            if not slot.count or (slot.high == high and slot.low == low):
                return slot
            index = (index + 1) & mask

    cdef inline bint _hash(self, const Record *record, Hashed *hashed) noexcept nogil:
        """Return whether the record belongs into this table, and prefetch its slot if so."""
        cdef const char *slot
        if record.key_bytes < 0:
            return False
        murmur(record.key, record.key_bytes, &hashed.high, &hashed.low)
        if self._shard_count > 1 and hashed.high % self._shard_count != self._shard:
            return False
        slot = <const char *>(self._slots + (hashed.low & (self._capacity - 1)))
        OTTLA_PREFETCH(slot)
        # Also the next cache line: it holds the rest of the slot, or the next slot, with many keys.
        OTTLA_PREFETCH(slot + CACHE_LINE_BYTES)
        return True

    def note(
        self,
        data,
        Py_ssize_t count,
        int64_t base_offset,
        int64_t base_timestamp_ms,
        append_timestamp_ms,
        int64_t end_offset,
        Py_ssize_t repeat_limit=0,
    ):
        """See `key_table_loops.KeyTable.note`."""
        cdef Section section = Section(data, count)
        cdef bint has_append_time = append_timestamp_ms is not None
        cdef int64_t append_ms = append_timestamp_ms if has_append_time else 0
        cdef list repeats = []
        cdef Hashed[AHEAD] waiting
        cdef Hashed *hashed
        cdef Py_ssize_t hashed_count = 0
        cdef Py_ssize_t done = 0
        cdef const uint8_t *cursor = section.start
        cdef const uint8_t *end = section.end
        cdef const uint8_t *start
        cdef Record record
        cdef Py_ssize_t index
        for index in range(count):
            start = cursor
            if walk_record(&cursor, end, &record) != NO_FAULT:
                raise corrupt(index)
            if hashed_count - done == AHEAD:
                self._put(&waiting[done % AHEAD], repeats, repeat_limit)
                done += 1
            hashed = &waiting[hashed_count % AHEAD]
            hashed.offset = base_offset + record.offset_delta
            if hashed.offset >= end_offset or not self._hash(&record, hashed):
                continue
            hashed.is_tombstone = record.value_bytes < 0
            hashed.fingerprint = print_of(&record, cursor)
            hashed.time = (
                append_ms if has_append_time else plus(base_timestamp_ms, record.timestamp_delta)
            )
            hashed.record_bytes = <uint32_t>(cursor - start)
            hashed_count += 1
        for done in range(done, hashed_count):
            self._put(&waiting[done % AHEAD], repeats, repeat_limit)
        section.check_end(cursor)
        return repeats

    cdef inline int _put(
        self, const Hashed *hashed, list repeats, Py_ssize_t repeat_limit
    ) except -1:
        cdef Slot *slot = self._find(hashed.high, hashed.low)
        self.record_count += 1
        if slot.count == 0:
            slot = self._take_slot(slot, hashed.high, hashed.low)
        else:
            self.repeat_count += 1
            self.superseded_bytes += slot.record_bytes
            if repeat_limit and len(repeats) < repeat_limit:
                repeats.append((<int64_t>slot.offset, hashed.offset))
        slot.count += 1
        slot.offset = <uint64_t>hashed.offset
        slot.is_tombstone = hashed.is_tombstone
        slot.fingerprint = hashed.fingerprint
        slot.time = hashed.time
        slot.record_bytes = hashed.record_bytes
        return 0

    cdef Slot *_take_slot(self, Slot *slot, uint64_t high, uint64_t low) except NULL:
        """Assign the empty `slot` to the key; return another slot if the table has to grow."""
        if <uint64_t>self.key_count >= self._key_limit:
            raise KeyLimitError(f"more than {self._key_limit} keys")
        if <uint64_t>self.key_count >= self._room:
            self._grow(self._capacity * 2)
            slot = self._find(high, low)
        self.key_count += 1
        slot.high = high
        slot.low = low
        return slot

    def match(
        self,
        data,
        Py_ssize_t count,
        int64_t base_offset,
        int64_t base_timestamp_ms,
        append_timestamp_ms,
        int64_t start_offset,
        int64_t end_offset,
        int64_t cleaned_until,
        Py_ssize_t limit,
    ):
        """See `key_table_loops.KeyTable.match`."""
        cdef Section section = Section(data, count)
        cdef bint has_append_time = append_timestamp_ms is not None
        cdef int64_t append_ms = append_timestamp_ms if has_append_time else 0
        cdef list mismatches = []
        cdef Hashed[AHEAD] waiting
        cdef Hashed *hashed
        cdef Py_ssize_t hashed_count = 0
        cdef Py_ssize_t done = 0
        cdef const uint8_t *cursor = section.start
        cdef const uint8_t *end = section.end
        cdef Record record
        section.check_all()
        for _ in range(count):
            walk_record(&cursor, end, &record)
            if hashed_count - done == AHEAD:
                self._compare(&waiting[done % AHEAD], end_offset, cleaned_until, mismatches, limit)
                done += 1
            hashed = &waiting[hashed_count % AHEAD]
            hashed.offset = base_offset + record.offset_delta
            if hashed.offset < start_offset or not self._hash(&record, hashed):
                continue
            hashed.fingerprint = print_of(&record, cursor)
            hashed.has_attributes = record.attributes != 0
            hashed.time = (
                append_ms if has_append_time else plus(base_timestamp_ms, record.timestamp_delta)
            )
            hashed_count += 1
        for done in range(done, hashed_count):
            self._compare(&waiting[done % AHEAD], end_offset, cleaned_until, mismatches, limit)
        return mismatches

    cdef inline int _compare(
        self,
        const Hashed *hashed,
        int64_t end_offset,
        int64_t cleaned_until,
        list mismatches,
        Py_ssize_t limit,
    ) except -1:
        cdef Slot *slot = self._find(hashed.high, hashed.low)
        cdef int64_t last = <int64_t>slot.offset if slot.count else -1
        cdef int kind = 0
        cdef uint64_t difference
        if slot.count == 0:
            kind = UNKNOWN_KEY if hashed.offset < end_offset else 0
        elif last < hashed.offset:
            if hashed.offset >= end_offset:
                slot.is_seen = 1
            else:
                kind = NEWER
        elif last > hashed.offset:
            kind = OLDER if last < cleaned_until else 0
        else:
            slot.is_seen = 1
            difference = slot.fingerprint ^ hashed.fingerprint
            # Kafka's cleaner may have cleared the attributes.
            if difference and (hashed.has_attributes or difference << (64 - ATTRIBUTES_SHIFT)):
                kind = OTHER_VALUE
            elif slot.time != hashed.time:
                kind = OTHER_TIME
        if kind and len(mismatches) < limit:
            mismatches.append((kind, hashed.offset, last))
        return 0

    def unseen(self, int64_t start_offset, int64_t end_offset):
        """See `key_table_loops.KeyTable.unseen`."""
        cdef Buffer rows = Buffer()
        cdef uint64_t index
        cdef Slot *slot
        for index in range(self._capacity):
            slot = self._slots + index
            if (
                slot.count
                and not slot.is_seen
                and start_offset <= <int64_t>slot.offset < end_offset
            ):
                put_row(rows, slot)
        if rows.size:
            qsort(rows.data, rows.size // ROW_BYTES, ROW_BYTES, by_offset)
        return rows.take()

    def is_seen(self, bytes key not None):
        """See `key_table_loops.KeyTable.is_seen`."""
        cdef uint64_t high, low
        murmur(<const uint8_t *>key, len(key), &high, &low)
        return bool(self._find(high, low).is_seen)

    def export(self):
        """See `key_table_loops.KeyTable.export`."""
        cdef Buffer rows = Buffer()
        cdef uint64_t index
        cdef Slot *slot
        for index in range(self._capacity):
            slot = self._slots + index
            if slot.count:
                put_row(rows, slot)
        return rows.take()

    def load(self, rows):
        """See `key_table_loops.KeyTable.load`."""
        cdef Py_buffer view
        cdef const int64_t *row
        cdef Py_ssize_t index
        cdef Slot *slot
        PyObject_GetBuffer(rows, &view, PyBUF_SIMPLE)
        try:
            for index in range(view.len // ROW_BYTES):
                row = <const int64_t *>view.buf + 6 * index
                if self._shard_count > 1 and <uint64_t>row[0] % self._shard_count != self._shard:
                    continue
                slot = self._find(<uint64_t>row[0], <uint64_t>row[1])
                if slot.count == 0:
                    slot = self._take_slot(slot, <uint64_t>row[0], <uint64_t>row[1])
                slot.count = 1
                slot.offset = <uint64_t>row[2]
                slot.fingerprint = <uint64_t>row[3]
                slot.time = row[4]
                slot.is_tombstone = row[5] != 0
        finally:
            PyBuffer_Release(&view)

    def heaviest(self, Py_ssize_t limit):
        """See `key_table_loops.KeyTable.heaviest`."""
        cdef list rows = []
        cdef uint32_t least = 1
        cdef uint64_t index
        cdef Slot *slot
        for index in range(self._capacity):
            slot = self._slots + index
            if slot.count >= least:
                rows.append((-<int64_t>slot.count, <int64_t>slot.offset))
                # Truncated periodically, so that the list stays short.
                if len(rows) >= 64 * limit + 1024:
                    rows.sort()
                    del rows[limit:]
                    least = -rows[limit - 1][0]
        rows.sort()
        return [(-count, offset) for count, offset in rows[:limit]]

    def histogram(self):
        """See `key_table_loops.KeyTable.histogram`."""
        cdef list counts = [0] * 32
        cdef uint64_t index
        cdef uint32_t rest
        cdef int bucket
        for index in range(self._capacity):
            if self._slots[index].count:
                rest = self._slots[index].count - 1
                bucket = 0
                while rest:
                    bucket += 1
                    rest >>= 1
                counts[bucket] += 1
        return counts

    def tombstone_count(self):
        """See `key_table_loops.KeyTable.tombstone_count`."""
        cdef Py_ssize_t found = 0
        cdef uint64_t index
        for index in range(self._capacity):
            found += self._slots[index].count != 0 and self._slots[index].is_tombstone
        return found
