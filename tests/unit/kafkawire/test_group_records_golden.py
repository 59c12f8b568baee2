"""Records of `__consumer_offsets` against Kafka; the golden file documents their origin."""

import json
from pathlib import Path
from typing import Any

import pytest

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
from kafkawire.internal_topic import partition_for
from kafkawire.messages.offsets_topic import GroupMetadataValue, MemberMetadata
from kafkawire.records import iterate_batches, read_records

GOLDEN: dict[str, Any] = json.loads(
    Path(__file__).with_name("golden_group_records.json").read_text(encoding="ascii")
)
RECORDS = {name: bytes.fromhex(data) for name, data in GOLDEN["records"].items()}
LOG = bytes.fromhex(GOLDEN["log"])
NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(("group_id", "partition"), GOLDEN["partitions"].items())
def test_groups_belong_to_kafkas_partitions(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition


def test_keys_have_kafkas_bytes() -> None:
    orders = TopicPartition("orders", 7)
    assert offset_key("my-group", orders) == RECORDS["offset key v1"]
    assert group_key("my-group") == RECORDS["group key v2"]
    assert read_key(RECORDS["offset key v0"]) == OffsetKey("my-group", orders)
    assert read_key(RECORDS["offset key v1"]) == OffsetKey("my-group", orders)
    assert read_key(RECORDS["group key v2"]) == GroupKey("my-group")


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_every_version_are_read(version: int) -> None:
    assert read_offset_value(RECORDS[f"offset value v{version}"]) == CommittedOffset(
        123_456_789_012,
        5 if version >= 3 else -1,
        "żółć",
        NOW_MS,
        NOW_MS + 9_999 if version == 1 else None,
    )


@pytest.mark.parametrize("version", [1, 3])
def test_offsets_are_written_as_kafka_writes_them(version: int) -> None:
    data = RECORDS[f"offset value v{version}"]
    assert offset_value(read_offset_value(data)) == data


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_read(version: int) -> None:
    def member(member_id: str, instance_id: str | None) -> MemberMetadata:
        return MemberMetadata(
            member_id=member_id,
            group_instance_id=instance_id if version >= 3 else None,
            client_id="client",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000 if version >= 1 else 45_000,
            session_timeout=45_000,
            subscription=b"\0\1\2",
            assignment=b"\3\4",
        )

    assert read_group_value(RECORDS[f"group value v{version}"]) == GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="member-1",
        current_state_timestamp=NOW_MS if version >= 2 else -1,
        members=[member("member-1", "one"), member("member-2", None)],
    )


@pytest.mark.parametrize("name", ["group value v3", "empty group value v3"])
def test_groups_are_written_as_kafka_writes_them(name: str) -> None:
    assert group_value(read_group_value(RECORDS[name])) == RECORDS[name]


def test_our_records_match_every_record_of_kafkas_log() -> None:
    count = 0
    for _, batch in iterate_batches(LOG):
        for record in read_records(batch):
            assert record.key is not None
            key = read_key(record.key)
            count += 1
            if isinstance(key, OffsetKey):
                assert offset_key(*key) == record.key
                if record.value is not None:
                    assert offset_value(read_offset_value(record.value)) == record.value
            else:
                assert isinstance(key, GroupKey)
                assert group_key(key.group_id) == record.key
                assert record.value is not None
                assert group_value(read_group_value(record.value)) == record.value
    assert count == 10
