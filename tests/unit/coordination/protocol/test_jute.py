"""Edge cases of the codec: nulls, and invalid lengths and counts."""

import struct
import tracemalloc

import pytest

from coordination.errors import JuteError, PacketLengthError
from coordination.protocol import frames, jute, multi
from coordination.protocol.frames import FrameSplitter
from coordination.protocol.messages import (
    MAX_WATCHED_PATHS,
    OPEN_ACL,
    Acl,
    CheckRequest,
    ChildrenResponse,
    CreateRequest,
    CreateTtlRequest,
    OpCode,
    ReadRequest,
    SetWatchesRequest,
    Stat,
)
from coordination.protocol.multi import Op


def test_null_and_empty_are_different_in_data_and_acls() -> None:
    request = CreateRequest("/a", None, (Acl(31, "world", None),), 0)
    assert jute.decode(CreateRequest, jute.encode(request))[0] == request
    empty = CreateRequest("/a", b"", (Acl(31, "world", ""),), 0)
    assert jute.decode(CreateRequest, jute.encode(empty))[0] == empty


def test_a_null_path_is_refused() -> None:
    with pytest.raises(JuteError, match="null string"):
        jute.decode(ReadRequest, struct.pack(">i?", -1, False))


def test_a_null_vector_reads_as_an_empty_one() -> None:
    assert jute.decode(ChildrenResponse, struct.pack(">i", -1))[0].children == ()


def test_a_count_beyond_the_data_is_refused() -> None:
    with pytest.raises(JuteError, match="exceed the data"):
        jute.decode(ChildrenResponse, struct.pack(">i", 0x7FFFFFFF))


def test_a_length_beyond_the_end_is_refused() -> None:
    with pytest.raises(JuteError, match="exceeds"):
        jute.decode(ReadRequest, struct.pack(">i", 100) + b"/a")


def test_invalid_utf_8_is_refused() -> None:
    with pytest.raises(JuteError, match="malformed"):
        jute.decode(ReadRequest, struct.pack(">i", 2) + b"\xff\xfe\0")


def test_a_stat_has_68_bytes() -> None:
    assert len(jute.encode(Stat(*range(11)))) == 68


def test_frames_are_split_regardless_of_the_chunks() -> None:
    payloads = [b"", b"a", b"bc" * 1000]
    stream = b"".join(frames.frame(payload) for payload in payloads)
    for size in (1, 3, 7, len(stream)):
        splitter = FrameSplitter(4096)
        found = []
        for begin in range(0, len(stream), size):
            found += splitter.feed(stream[begin : begin + size])
        assert found == payloads
        assert splitter.buffered_bytes == 0


def test_the_first_frame_has_a_limit_of_its_own() -> None:
    splitter = FrameSplitter(4096, max_first_bytes=10)
    with pytest.raises(JuteError, match=r"outside 0\.\.10"):
        splitter.feed(frames.frame(bytes(11)))
    splitter = FrameSplitter(4096, max_first_bytes=10)
    assert splitter.feed(frames.frame(bytes(10)) + frames.frame(bytes(4096))[:100]) == [bytes(10)]
    assert splitter.feed(frames.frame(bytes(4096))[100:]) == [bytes(4096)]


def test_an_announced_length_allocates_no_memory() -> None:
    splitter = FrameSplitter(1 << 20)
    tracemalloc.start()
    try:
        assert splitter.feed(struct.pack(">i", 1 << 20)) == []
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    rest = splitter._rest
    for _ in range(1000):
        assert splitter.feed(b"x") == []
        assert splitter._rest is rest
    assert splitter.buffered_bytes == 1004


def test_a_vector_above_its_limit_is_refused() -> None:
    paths = tuple(["/"] * (MAX_WATCHED_PATHS + 1))
    with pytest.raises(JuteError, match="exceed the limit of 10000"):
        jute.decode(SetWatchesRequest, jute.encode(SetWatchesRequest(0, paths, (), ())))


@pytest.mark.parametrize(
    ("kind", "op"),
    [
        (OpCode.MULTI, Op(OpCode.CHECK, CheckRequest("/", -1))),
        (OpCode.MULTI_READ, Op(OpCode.GET_DATA, ReadRequest("/", False))),
    ],
)
def test_the_number_of_operations_of_a_multi_is_limited(kind: OpCode, op: Op) -> None:
    assert len(multi.decode_ops(kind, multi.encode_ops([op] * multi.MAX_OPS))) == multi.MAX_OPS
    with pytest.raises(JuteError, match="more than 2000 operations"):
        multi.decode_ops(kind, multi.encode_ops([op] * (multi.MAX_OPS + 1)))


@pytest.mark.parametrize("is_expiring", [False, True])
def test_the_acl_entries_of_a_multi_are_limited_together(is_expiring: bool) -> None:
    acl = OPEN_ACL * 100

    def body(count: int) -> bytes:
        creates: list[Op] = []
        for _ in range(count):
            if is_expiring:
                creates.append(Op(OpCode.CREATE_TTL, CreateTtlRequest("/a", b"", acl, 5, 1_000)))
            else:
                creates.append(Op(OpCode.CREATE, CreateRequest("/a", b"", acl, 0)))
        return multi.encode_ops(creates)

    most = multi.MAX_ACL_ENTRIES // len(acl)
    assert len(multi.decode_ops(OpCode.MULTI, body(most))) == most
    with pytest.raises(JuteError, match="more than 4000 ACL entries"):
        multi.decode_ops(OpCode.MULTI, body(most + 1))


def test_more_results_than_operations_are_refused() -> None:
    body = multi.encode_results([multi.error_result(-1)] * 3)
    assert len(multi.decode_results(body, max_count=3)) == 3
    with pytest.raises(JuteError, match="more than 2 results"):
        multi.decode_results(body, max_count=2)


def test_a_refused_packet_is_known_by_its_first_bytes() -> None:
    head = struct.pack(">i", 7)
    with pytest.raises(PacketLengthError) as caught:
        FrameSplitter(4096).feed(struct.pack(">i", 4097) + head + b"more")
    refused = caught.value
    assert (refused.size_bytes, refused.limit_bytes, refused.head) == (4097, 4096, head)


@pytest.mark.parametrize("length", [-1, 4097, 0x7FFFFFFF])
def test_a_length_outside_the_limits_is_refused(length: int) -> None:
    with pytest.raises(JuteError, match="outside"):
        FrameSplitter(4096).feed(struct.pack(">i", length))


@pytest.mark.parametrize("kind", [0, 9, 14, 16, -11, 9999])
def test_other_operations_are_invalid_in_a_multi(kind: int) -> None:
    body = struct.pack(">i?i", kind, False, -1) + bytes(40)
    for op in (OpCode.MULTI, OpCode.MULTI_READ):
        with pytest.raises(JuteError, match="invalid in a multi"):
            multi.decode_ops(op, body)
    with pytest.raises(JuteError, match="invalid in a multi"):
        multi.decode_results(body)
