"""The records of `__consumer_offsets`; Kafka's own records are in test_group_records_golden."""

import sys

import pytest

from kafkawire.errors import DecodeError
from kafkawire.group_records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group_value,
    read_key,
    read_offset_value,
)
from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import java_string_hash, partition_for
from kafkawire.messages.offsets_topic import GroupMetadataValue, MemberMetadata
from kafkawire.schema import encode

PARTITION = TopicPartition("t", 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("my-group", -1906497762),
        # Java's smallest integer, which has no positive counterpart.
        ("polygenelubricants", -(2**31)),
        # Two UTF-16 units, which count separately.
        ("\N{GRINNING FACE WITH SMILING EYES}", 1772900),
    ],
)
def test_strings_hash_as_in_java(text: str, value: int) -> None:
    assert java_string_hash(text) == value


@pytest.mark.parametrize("length", [255, 256, 257, 512, 32_767])
def test_long_strings_hash_as_in_java(length: int) -> None:
    text = "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n-7" * (length // 6 + 1)
    expected = 0
    for character in text[:length]:
        expected = (31 * expected + ord(character)) % 2**32
    assert java_string_hash(text[:length]) % 2**32 == expected


def test_few_long_strings_are_kept() -> None:
    text = "g" * 10_000
    count_before = sys.getrefcount(text)
    java_string_hash(text)
    for number in range(64):
        java_string_hash(f"{text}-{number}")
    assert sys.getrefcount(text) == count_before


def test_groups_belong_to_the_partition_of_their_hash() -> None:
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("polygenelubricants", 50) == 0
    assert {partition_for(f"group-{n}", 50) for n in range(1_000)} == set(range(50))


def test_keys_of_group_records_round_trip() -> None:
    assert read_key(offset_key("g", PARTITION)) == OffsetKey("g", PARTITION)
    assert read_key(group_key("g")) == GroupKey("g")
    assert read_key(b"\0\0" + offset_key("g", PARTITION)[2:]) == OffsetKey("g", PARTITION)


def test_key_of_a_newer_version_is_skipped() -> None:
    assert read_key(b"\0\3" + group_key("g")[2:]) is None


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\0\5", b"\0\2\xff\xff"])
def test_malformed_key_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_key(data)


@pytest.mark.parametrize(
    ("committed", "version"),
    [(CommittedOffset(5, 2, "note", 7), 3), (CommittedOffset(5, -1, "note", 7, 9), 1)],
)
def test_committed_offsets_round_trip(committed: CommittedOffset, version: int) -> None:
    data = offset_value(committed)
    assert data[:2] == bytes([0, version])
    assert read_offset_value(data) == committed


def test_group_values_round_trip() -> None:
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=1,
        session_timeout=2,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=9,
        members=[member],
    )
    assert read_group_value(group_value(value)) == value
    oldest = read_group_value(b"\0\0" + encode(value, 0))
    assert oldest.members[0].rebalance_timeout == 2, "there was one timeout for both"
    assert read_group_value(b"\0\4" + encode(value, 4)) == value


@pytest.mark.parametrize("version", [5, -1])
def test_a_value_of_a_newer_version_is_refused(version: int) -> None:
    data = version.to_bytes(2, "big", signed=True)
    with pytest.raises(DecodeError, match=f"version {version}"):
        read_offset_value(data + offset_value(CommittedOffset(5, 2, "", 7))[2:])
