"""The messages between members of a group: golden bytes of Kafka, newer versions, garbage."""

import pytest

from kafkawire.consumer_protocol import (
    MAX_SURPLUS_BYTES,
    assigned_partitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from kafkawire.errors import DecodeError
from kafkawire.ids import TopicPartition
from kafkawire.messages.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"x",
    owned_partitions=[OwnedPartitions(topic="a", partitions=[0, 2])],
    generation_id=7,
    rack_id="r",
)
SUBSCRIPTION_V0 = bytes.fromhex("0000000000020001610001620000000178")
SUBSCRIPTION_V3 = (
    bytes.fromhex("0003000000020001610001620000000178")
    + bytes.fromhex("0000000100016100000002000000000000000200000007")
    + bytes.fromhex("000172")
)
ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[AssignedPartitions(topic="a", partitions=[1])]
)
ASSIGNMENT_V3 = bytes.fromhex("0003000000010001610000000100000001ffffffff")


def test_a_subscription_is_written_in_the_newest_version() -> None:
    assert encode_subscription(SUBSCRIPTION) == SUBSCRIPTION_V3
    assert decode_subscription(SUBSCRIPTION_V3) == SUBSCRIPTION


def test_first_version_lacks_later_fields() -> None:
    assert decode_subscription(SUBSCRIPTION_V0) == ConsumerProtocolSubscription(
        topics=["a", "b"], user_data=b"x", owned_partitions=[]
    )


def test_assignment_round_trips() -> None:
    assert encode_assignment(ASSIGNMENT) == ASSIGNMENT_V3
    assert decode_assignment(ASSIGNMENT_V3) == ASSIGNMENT


def test_an_empty_assignment_holds_nothing() -> None:
    assert decode_assignment(b"").assigned_partitions == []


@pytest.mark.parametrize("version", [b"\x00\x03", b"\x00\x09"], ids=["known", "newer"])
@pytest.mark.parametrize("surplus", [b"", b"\0", b"new" * 50], ids=len)
def test_bytes_behind_the_known_fields_are_ignored(version: bytes, surplus: bytes) -> None:
    assert decode_subscription(version + SUBSCRIPTION_V3[2:] + surplus) == SUBSCRIPTION


def test_the_short_forms_of_both() -> None:
    assert subscribed_topics(SUBSCRIPTION_V3) == {"a", "b"}
    assert assigned_partitions(ASSIGNMENT_V3) == [TopicPartition("a", 1)]
    assert assigned_partitions(b"") == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"\0", "no version", id="too short"),
        pytest.param(b"\xff\xff", "negative", id="negative version"),
        pytest.param(SUBSCRIPTION_V3[:-1], "v3", id="cut off"),
        pytest.param(b"\x00\x09" + b"\xff" * 9, "v3", id="garbage of a newer version"),
        pytest.param(b"\0\0\x7f\xff\xff\xff", "v0", id="impossible count"),
        pytest.param(
            b"\x00\x09" + SUBSCRIPTION_V3[2:] + bytes(MAX_SURPLUS_BYTES + 1),
            "v3",
            id="too much behind it",
        ),
    ],
)
def test_malformed_subscription_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_subscription(data)
