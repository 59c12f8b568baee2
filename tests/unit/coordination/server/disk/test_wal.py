"""Format of the log: torn, damaged and complete segments."""

import zlib
from collections.abc import Sequence

import pytest

from coordination.protocol.messages import OPEN_ACL
from coordination.server.disk import wal
from coordination.server.disk.wal import (
    ALLOCATION_STEP_BYTES,
    CLOSING_PAYLOAD,
    HEADER_BYTES,
    Chain,
    Ending,
    SegmentHeader,
)
from coordination.server.state.txns import (
    CreateTxn,
    DeleteTxn,
    Entry,
    MultiTxn,
    SetDataTxn,
    unpack_entry,
)

STORE_ID = b"0123456789abcdef"
HEADER = SegmentHeader(STORE_ID, first_zxid=1, previous_crc=0)
# The tests use a small step, so that flipping every byte stays fast.
STEP_BYTES = 4096


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "ALLOCATION_STEP_BYTES", STEP_BYTES)


def entry(zxid: int, data: bytes = b"value") -> Entry:
    return Entry(zxid, 1000 + zxid, 7, zxid, SetDataTxn(f"/node-{zxid}", data, zxid))


def batches(count: int) -> list[bytes]:
    return [wal.encode_entries([entry(n + 1)]) for n in range(count)]


def segment(payloads: Sequence[bytes], seal: bytes | None = wal.SEAL_PAYLOAD) -> bytes:
    chain = Chain(STORE_ID, HEADER.previous_crc)
    body = b"".join(chain.frame(payload) for payload in payloads)
    if seal is not None:
        body += chain.seal(seal)
    whole = wal.encode_header(HEADER) + body
    return whole if seal == CLOSING_PAYLOAD else whole.ljust(STEP_BYTES, b"\0")


def scan(data: bytes) -> wal.Scan:
    header = wal.decode_header(data)
    assert header is not None
    return wal.scan(data, header)


def test_a_scan_returns_the_batches_of_a_segment() -> None:
    payloads = batches(3)
    for seal, ending in (
        (None, Ending.OPEN),
        (wal.SEAL_PAYLOAD, Ending.OPEN),
        (CLOSING_PAYLOAD, Ending.CLOSED),
    ):
        found = scan(segment(payloads, seal))
        assert [batch.payload for batch in found.batches] == payloads
        assert found.ending is ending


def test_entries_survive_encoding() -> None:
    entries = [
        Entry(1, 2, 3, 4, MultiTxn((CreateTxn("/a", None, OPEN_ACL, 5, 6), DeleteTxn("/a")))),
        entry(2),
    ]
    packed = wal.decode_entries(wal.encode_entries(entries))
    assert [unpack_entry(each) for each in packed] == entries


def test_a_torn_last_batch_is_cut_off_at_any_length() -> None:
    payloads = batches(3)
    whole, before = segment(payloads, None), segment(payloads[:2], None)
    start, end = scan(before).end_offset, scan(whole).end_offset
    for written in range(start + 1, end):
        torn = whole[:written].ljust(STEP_BYTES, b"\0")
        found = scan(torn)
        # The first bytes of a length are zeros, like the bytes after the last batch.
        assert found.ending in (
            (Ending.TORN, Ending.OPEN) if written < start + 4 else (Ending.TORN,)
        )
        assert found.end_offset == start


def test_a_torn_batch_over_a_seal_is_cut_off() -> None:
    payloads = batches(3)
    sealed, whole = segment(payloads[:2]), segment(payloads, None)
    start, end = scan(sealed).end_offset, scan(whole).end_offset
    for written in range(start + 1, end):
        found = scan(whole[:written] + sealed[written:])
        assert found.ending in (Ending.TORN, Ending.OPEN)
        assert found.end_offset == start


def test_every_flipped_bit_in_an_acknowledged_batch_is_damage() -> None:
    data = segment(batches(4))
    end = scan(data).end_offset
    for position in range(HEADER_BYTES, end):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            assert scan(bytes(flipped)).ending is Ending.DAMAGED, (position, bit)


def test_every_zeroed_sector_in_acknowledged_batches_is_damage() -> None:
    data = segment(batches(4))
    end = scan(data).end_offset
    for position in range(HEADER_BYTES, end - 16):
        zeroed = data[:position] + bytes(16) + data[position + 16 :]
        if zeroed != data:
            assert scan(zeroed).ending is Ending.DAMAGED, position


def test_a_damaged_seal_loses_no_batch() -> None:
    data = segment(batches(4))
    end = scan(data).end_offset
    for position in range(end, end + wal.BATCH_HEADER_BYTES + 1):
        flipped = bytearray(data)
        flipped[position] ^= 0x10
        found = scan(bytes(flipped))
        assert len(found.batches) == 4
        assert found.ending is not Ending.DAMAGED


def test_every_truncation_of_the_file_that_may_have_lost_a_batch_is_detected() -> None:
    data, unsealed = segment(batches(4)), segment(batches(4), seal=None)
    closed = segment(batches(4), CLOSING_PAYLOAD)
    end = scan(data).end_offset
    sealed_end = end + wal.BATCH_HEADER_BYTES + len(wal.SEAL_PAYLOAD)
    for size in range(HEADER_BYTES, end + wal.LENGTH_BYTES):
        assert scan(data[:size]).ending is Ending.CUT
    # The length of the seal is where that of a lost batch would be.
    for size in range(end + wal.LENGTH_BYTES, sealed_end):
        assert scan(data[:size]).ending is Ending.TORN
    # Neither a seal nor zeros are at the beginning of a batch. A process may die while it allocates
    # more space, which leaves a file of such a size.
    for size in range(sealed_end, len(data)):
        assert scan(data[:size]).ending is Ending.OPEN
    for size in range(HEADER_BYTES, len(unsealed)):
        is_cut = size < end + wal.LENGTH_BYTES
        assert scan(unsealed[:size]).ending is (Ending.CUT if is_cut else Ending.OPEN)
    for size in range(HEADER_BYTES, len(closed)):
        assert scan(closed[:size]).ending is not Ending.CLOSED


@pytest.mark.parametrize("seal", [wal.SEAL_PAYLOAD, CLOSING_PAYLOAD])
def test_a_seal_that_is_torn_while_the_file_grows_loses_no_batch(seal: bytes) -> None:
    unsealed = segment(batches(4), seal=None)
    sealed = segment(batches(4), seal).ljust(STEP_BYTES, b"\0")
    end = scan(sealed).end_offset
    # A sector of the disk ends anywhere in the seal, and the file has grown in part.
    for torn_at in range(end, end + wal.BATCH_HEADER_BYTES + len(seal)):
        for data in (
            sealed[:torn_at] + unsealed[torn_at:],
            unsealed[:torn_at] + sealed[torn_at:],
        ):
            found = scan(data + bytes(512))
            assert len(found.batches) == 4
            assert found.ending in (Ending.OPEN, Ending.TORN, Ending.CLOSED)


def test_a_batch_that_is_torn_over_a_seal_loses_no_batch_in_a_file_of_any_size() -> None:
    payloads = batches(4)
    sealed, whole = segment(payloads[:3]), segment(payloads, None)
    end = scan(sealed).end_offset
    seal_end = end + wal.BATCH_HEADER_BYTES + len(wal.SEAL_PAYLOAD)
    torn = sealed[:seal_end] + whole[seal_end:]
    for size in range(seal_end, len(torn)):
        found = scan(torn[:size])
        assert len(found.batches) == 3
        assert found.ending in (Ending.OPEN, Ending.TORN)


def test_a_search_for_batches_reads_each_byte_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    real, read_bytes = zlib.crc32, 0

    def crc32(data: bytes, value: int = 0) -> int:
        nonlocal read_bytes
        read_bytes += len(data)
        return real(data, value)

    # A torn batch with a value that looks like many batches of half its size.
    value = (b"\x00\x00\x80\x00" + bytes(8) + b"\x90" * 12) * (64 * 1024 // 24)
    whole = segment([*batches(1), wal.encode_entries([entry(2, value)])], None)
    torn = bytearray(whole.ljust(32 * STEP_BYTES, b"\0"))
    torn[scan(whole).end_offset - 1] ^= 1
    monkeypatch.setattr(zlib, "crc32", crc32)
    assert scan(bytes(torn)).ending is Ending.TORN
    assert read_bytes < 20 * len(torn)


def test_a_batch_behind_bytes_that_look_like_batches_is_found() -> None:
    value = (b"\x00\x00\x10\x00" + bytes(8) + b"\x90" * 12) * 100
    first = wal.encode_entries([entry(1, value)])
    data = bytearray(segment([first, *batches(1)], None).ljust(2 * STEP_BYTES, b"\0"))
    assert scan(bytes(data)).ending is Ending.OPEN
    data[HEADER_BYTES + wal.BATCH_HEADER_BYTES + len(first) - 1] ^= 1
    assert scan(bytes(data)).ending is Ending.DAMAGED


def test_a_damaged_or_truncated_header_is_rejected() -> None:
    data = wal.encode_header(HEADER)
    assert wal.decode_header(data) == HEADER
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1
        assert wal.decode_header(bytes(flipped)) is None
        assert wal.decode_header(data[:position]) is None


def test_a_batch_inside_the_data_of_a_node_is_not_valid() -> None:
    other = Chain(b"another-store-id", 0)
    disguised = wal.encode_entries([entry(1, other.frame(batches(1)[0]))])
    whole = segment([*batches(1), disguised], None)
    torn = whole[:-STEP_BYTES] + whole[: scan(whole).end_offset - 1].ljust(STEP_BYTES, b"\0")
    assert scan(torn).ending is Ending.TORN


def test_a_batch_of_another_chain_is_damage() -> None:
    data = segment(batches(1), None)
    end = scan(data).end_offset
    stranger = Chain(STORE_ID, last_crc=12345).frame(batches(2)[1])
    patched = (data[:end] + stranger).ljust(STEP_BYTES, b"\0")
    assert scan(patched).ending is Ending.DAMAGED


def test_the_real_step_is_a_whole_number_of_pages() -> None:
    assert ALLOCATION_STEP_BYTES % 4096 == 0
