"""The loops over records for compaction, in plain Python (decision).

The input is the decompressed record section of a batch (see `kafkawire.records_loops`).
`kafkawire/_compaction.pyx` is this module's compiled twin: it has the same names, results and
errors, and `native` chooses between them (docs/adr/0027-compaction-in-a-child-process.md).

Invariant: a section is either read to its last byte or rejected with CorruptBatchError.

Source: kafka.log.Cleaner and org.apache.kafka.common.record.MemoryRecords.filterTo of Kafka 3.9.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

from kafkawire.errors import CorruptBatchError
from kafkawire.records_loops import BytesLike, encode_varint, iterate_fields, read_varint

BYTES_PER_SLOT: Final = 160
"""Memory per key in the dictionary below; the compiled twin needs 24 bytes."""

HASH_BYTES: Final = 16
_NO_TIMESTAMP: Final = -1
_INT32_BITS: Final = 32
_INT64_BITS: Final = 64
_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1


class OffsetMap:
    """The offset of the last record of each key, for at most `slot_count` keys.

    Keys are identified by a 128-bit hash under `seed`, which is 16 unpredictable bytes.
    """

    def __init__(self, slot_count: int, seed: bytes) -> None:
        if slot_count < 1:
            raise ValueError(f"a map needs a slot, not {slot_count}")
        if len(seed) != HASH_BYTES:
            raise ValueError(f"a seed has {HASH_BYTES} bytes, not {len(seed)}")
        self.slot_count = slot_count
        self.latest_offset = -1
        """Last offset that the map covers: the last one put, or a later one set by the owner."""
        self._seed = seed
        self._offsets: dict[bytes, int] = {}

    @property
    def size(self) -> int:
        """Number of keys."""
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Set the offset of the last record of `key`; return False if a new key has no slot."""
        digest = blake2b(key, digest_size=HASH_BYTES, key=self._seed).digest()
        if len(self._offsets) >= self.slot_count and digest not in self._offsets:
            return False
        self._offsets[digest] = self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the offset that was put last for `key`, or -1."""
        return self._offsets.get(blake2b(key, digest_size=HASH_BYTES, key=self._seed).digest(), -1)


class Choice(NamedTuple):
    """The records of one batch to keep."""

    kept: bytes
    """One byte per record: 1 to keep it, 0 to drop it."""
    kept_count: int
    has_tombstone: bool
    """Whether a kept record has no value."""
    first_timestamp_ms: int
    """Timestamp of the first kept record; -1 without one."""
    latest_timestamp_ms: int
    """Largest timestamp of the kept records; -1 without one."""
    without_key_count: int
    """Number of records dropped because they have no key."""


def index_keys(
    data: BytesLike,
    count: int,
    base_offset: int,
    start_offset: int,
    offsets: OffsetMap,
    limit: int,
) -> bool:
    """Put the records with a key from `start_offset` on; return False once `limit` is reached.

    Raises:
        CorruptBatchError: the bytes are not `count` records; the map is unchanged.
    """
    fields = list(iterate_fields(bytes(data), count, base_offset, 0))
    for offset, _, key, _, _ in fields:
        if key is not None and offset >= start_offset:
            if offsets.size >= limit:
                return False
            if not offsets.put(key, offset):
                return False
    return True


def choose_records(
    data: BytesLike,
    count: int,
    base_offset: int,
    base_timestamp_ms: int,
    append_timestamp_ms: int | None,
    offsets: OffsetMap,
    drops_tombstones: bool,
) -> Choice:
    """Choose the records to keep: the last one of each key, and all beyond the map's range.

    With `drops_tombstones`, records in that range without a value are dropped too. The timestamp
    of all records is `append_timestamp_ms`, if that is given.

    Raises:
        CorruptBatchError: the bytes are not `count` records.
    """
    # Grows with the records that are read: `count` is not trusted.
    kept = bytearray()
    first_ms = latest_ms = _NO_TIMESTAMP
    has_tombstone = False
    kept_count = without_key_count = 0
    fields = iterate_fields(bytes(data), count, base_offset, base_timestamp_ms)
    for offset, timestamp_ms, key, value, _ in fields:
        timestamp_ms = _checked(timestamp_ms, append_timestamp_ms)
        kept.append(0)
        if offset <= offsets.latest_offset:
            if key is None:
                without_key_count += 1
                continue
            if (value is None and drops_tombstones) or offset < offsets.get(key):
                continue
        if not kept_count:
            first_ms = timestamp_ms
        kept_count += 1
        kept[-1] = 1
        has_tombstone = has_tombstone or value is None
        latest_ms = max(latest_ms, timestamp_ms)
    return Choice(bytes(kept), kept_count, has_tombstone, first_ms, latest_ms, without_key_count)


def rewrite_records(
    data: BytesLike,
    kept: bytes,
    base_timestamp_ms: int,
    append_timestamp_ms: int | None,
    new_base_timestamp_ms: int,
) -> bytes:
    """Return the records whose byte in `kept` is 1, with timestamps relative to the new base.

    Raises:
        CorruptBatchError: the bytes are not `len(kept)` records.
    """
    section = bytes(data)
    is_same_base = append_timestamp_ms is None and base_timestamp_ms == new_base_timestamp_ms
    parts: list[bytes] = []
    position = 0
    fields = list(iterate_fields(section, len(kept), 0, base_timestamp_ms))
    for is_kept, (_, timestamp_ms, _, _, _) in zip(kept, fields, strict=True):
        timestamp_ms = _checked(timestamp_ms, append_timestamp_ms)
        begin = position
        length, position = read_varint(section, begin, _INT32_BITS)
        end = position + (length >> 1)
        if is_kept and is_same_base:
            parts.append(section[begin:end])
        elif is_kept:
            delta = timestamp_ms - new_base_timestamp_ms
            if not _MIN_INT64 <= delta <= _MAX_INT64:
                raise CorruptBatchError("a timestamp is too far from its base")
            _, rest = read_varint(section, position + 1, _INT64_BITS)
            body = b"\0" + encode_varint(delta) + section[rest:end]
            parts += (encode_varint(len(body)), body)
        position = end
    return b"".join(parts)


def _checked(timestamp_ms: int, append_timestamp_ms: int | None) -> int:
    if append_timestamp_ms is not None:
        return append_timestamp_ms
    if not _MIN_INT64 <= timestamp_ms <= _MAX_INT64:
        raise CorruptBatchError("a timestamp leaves 64 bits")
    return timestamp_ms
