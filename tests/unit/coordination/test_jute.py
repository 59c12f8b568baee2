"""The codec's edges: nulls, lengths that lie, counts that lie."""

import struct

import pytest

from coordination import frames, jute, multi
from coordination.errors import JuteError
from coordination.frames import FrameSplitter
from coordination.messages import Acl, ChildrenResponse, CreateRequest, ReadRequest, Stat


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


def test_a_huge_count_costs_nothing() -> None:
    with pytest.raises(JuteError, match="do not fit"):
        jute.decode(ChildrenResponse, struct.pack(">i", 0x7FFFFFFF))


def test_a_length_beyond_the_end_is_refused() -> None:
    with pytest.raises(JuteError, match="exceeds"):
        jute.decode(ReadRequest, struct.pack(">i", 100) + b"/a")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(JuteError, match="malformed"):
        jute.decode(ReadRequest, struct.pack(">i", 2) + b"\xff\xfe\0")


def test_a_stat_has_68_bytes() -> None:
    assert len(jute.encode(Stat(*range(11)))) == 68


def test_frames_come_out_whole_however_they_went_in() -> None:
    payloads = [b"", b"a", b"bc" * 1000]
    stream = b"".join(frames.frame(payload) for payload in payloads)
    for size in (1, 3, 7, len(stream)):
        splitter = FrameSplitter(4096)
        found = []
        for begin in range(0, len(stream), size):
            found += splitter.feed(stream[begin : begin + size])
        assert found == payloads
        assert splitter.buffered_bytes == 0


@pytest.mark.parametrize("length", [-1, 4097, 0x7FFFFFFF])
def test_an_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(JuteError, match="outside"):
        FrameSplitter(4096).feed(struct.pack(">i", length))


@pytest.mark.parametrize("kind", [0, 9, 14, 16, -11, 9999])
def test_not_everything_may_stand_in_a_multi(kind: int) -> None:
    body = struct.pack(">i?i", kind, False, -1) + bytes(40)
    with pytest.raises(JuteError, match="cannot stand"):
        multi.decode_ops(body)
    with pytest.raises(JuteError, match="cannot stand"):
        multi.decode_results(body)
