"""Reading a log with any damage ends with a verdict, and never yields a wrong batch."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.server.disk import wal
from coordination.server.disk.wal import Chain, Ending, SegmentHeader
from coordination.server.state.txns import DeleteTxn, Entry

HEADER = SegmentHeader(b"0123456789abcdef", 1, 0)
PAYLOADS = [wal.encode_entries([Entry(n, n, 0, 0, DeleteTxn(f"/{n}"))]) for n in range(1, 6)]


def segment() -> bytes:
    chain = Chain(HEADER.store_id, 0)
    body = b"".join(chain.frame(payload) for payload in PAYLOADS)
    return (wal.encode_header(HEADER) + body + chain.seal()).ljust(1024, b"\0")


CHANGES = st.lists(
    st.tuples(st.integers(wal.HEADER_BYTES, 400), st.binary(min_size=1, max_size=20)),
    min_size=1,
    max_size=4,
)


@given(CHANGES)
@settings(max_examples=400, deadline=None)
def test_overwritten_bytes_never_make_a_batch(changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(segment())
    for position, replacement in changes:
        data[position : position + len(replacement)] = replacement
    found = wal.scan(bytes(data), HEADER)
    payloads = [batch.payload for batch in found.batches]
    assert payloads == PAYLOADS[: len(payloads)]
    untouched = bytes(data)[: found.end_offset] == segment()[: found.end_offset]
    assert untouched


@given(st.binary(max_size=200))
def test_garbage_is_not_read_as_a_segment(data: bytes) -> None:
    assert wal.decode_header(data) is None
    found = wal.scan(wal.encode_header(HEADER) + data, HEADER)
    assert found.batches == []
    assert found.ending is not Ending.CLOSED
