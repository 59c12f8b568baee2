"""The bytes of producer snapshots: Kafka's, and damaged ones."""

import pytest
from crc32c import crc32c

from kafkawire.ids import Offset
from storage.errors import CorruptSnapshotError
from storage.producers.producer_entry import ProducerEntry, WrittenBatch
from storage.producers.producer_snapshot import decode_snapshot, encode_snapshot

# Written by Kafka 3.9.1 (tests/interop/storage/SnapshotFile.java).
GOLDEN = bytes.fromhex(
    "00015f66f25300000003"
    "00000000000003e8000300000033000000000000041b000000090000018bcfe56801ffffffffffffffffffffffff"
    "00000000000003e9000000000000000000000000041c000000000000018bcfe56802ffffffff000000000000041c"
    "00000000000003ea0007ffffffffffffffffffffffff000000000000018bcfe5680300000005ffffffffffffffff"
)
EMPTY = bytes.fromhex("000148674bc700000000")


def entries() -> list[ProducerEntry]:
    """Return a producer with batches, one with an open transaction, one with only a marker."""
    wrote = ProducerEntry(1000)
    wrote.add(3, WrittenBatch(41, 1041, 9, 1_700_000_000_000))
    wrote.add(3, WrittenBatch(51, 1051, 9, 1_700_000_000_001))
    open_transaction = ProducerEntry(1001)
    open_transaction.add(0, WrittenBatch(0, 1052, 0, 1_700_000_000_002))
    open_transaction.transaction_first_offset = Offset(1052)
    ended = ProducerEntry(1002)
    ended.move_to(7)
    ended.coordinator_epoch = 5
    ended.last_timestamp_ms = 1_700_000_000_003
    return [wrote, open_transaction, ended]


def fields(entry: ProducerEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, name) for name in ProducerEntry.__slots__)


def test_a_snapshot_has_kafkas_bytes() -> None:
    assert encode_snapshot(entries()) == GOLDEN
    assert encode_snapshot([]) == EMPTY


def test_kafkas_snapshot_is_read() -> None:
    expected = entries()
    del expected[0].batches[0]
    assert [fields(entry) for entry in decode_snapshot(GOLDEN)] == [
        fields(entry) for entry in expected
    ]
    assert decode_snapshot(EMPTY) == []


@pytest.mark.parametrize("position", range(len(GOLDEN)))
def test_changed_byte_of_a_snapshot_is_detected(position: int) -> None:
    damaged = bytearray(GOLDEN)
    damaged[position] ^= 0x01
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(damaged))


@pytest.mark.parametrize("size", range(len(GOLDEN)))
def test_truncated_snapshot_is_detected(size: int) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(GOLDEN[:size])


def test_snapshot_with_a_wrong_count_is_detected() -> None:
    """The checksum is correct; only the size reveals the error."""
    content = bytearray(GOLDEN)
    content[6:10] = (2).to_bytes(4, "big")
    content[2:6] = crc32c(bytes(content[6:])).to_bytes(4, "big")
    with pytest.raises(CorruptSnapshotError, match="2 entries"):
        decode_snapshot(bytes(content))
