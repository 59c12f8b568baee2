"""The records of `__transaction_state`; the bytes are laid out from Kafka's schemas."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import DecodeError
from kafkawire.ids import TopicPartition
from kafkawire.transaction_records import (
    TransactionRecord,
    TransactionStatus,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)

NOW_MS = 1_700_000_000_000
ONGOING = TransactionRecord(
    producer_id=4_000,
    producer_epoch=3,
    timeout_ms=60_000,
    status=TransactionStatus.ONGOING,
    partitions=frozenset(
        {TopicPartition("b", 0), TopicPartition("a", 7), TopicPartition("a", 1)},
    ),
    last_update_ms=NOW_MS + 5,
    start_ms=NOW_MS,
)
ONGOING_BYTES = (
    pack(">hqhib", 0, 4_000, 3, 60_000, 1)
    + pack(">i" + "h1siii" + "h1sii", 2, 1, b"a", 2, 1, 7, 1, b"b", 1, 0)
    + pack(">qq", NOW_MS + 5, NOW_MS)
)
EMPTY_BYTES = pack(">hqhibiqq", 0, 4_000, -1, 60_000, 0, -1, NOW_MS, -1)
# Two partitions, and the fields of Kafka 4 (previous and next producer id) behind tags 0 and 1.
FLEXIBLE_BYTES = (
    pack(">hqhib", 1, 4_000, 3, 60_000, 2)
    + b"\x02\x02a\x03"
    + pack(">ii", 1, 7)
    + b"\x00"
    + pack(">qq", NOW_MS + 5, NOW_MS)
    + b"\x02\x00\x08"
    + pack(">q", 3_999)
    + b"\x01\x08"
    + pack(">q", 4_001)
)


def test_key_is_the_version_and_the_transactional_id() -> None:
    assert transaction_key("żółć") == b"\0\0\0\x08" + "żółć".encode()
    assert read_transaction_key(b"\0\0\0\x08" + "żółć".encode()) == "żółć"


def test_key_of_a_newer_version_is_skipped() -> None:
    assert read_transaction_key(b"\0\1\0\1a") is None


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\5a", b"\0\0\xff\xff"])
def test_malformed_key_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_transaction_key(data)


def test_partitions_are_grouped_by_topic_and_sorted() -> None:
    assert transaction_value(ONGOING) == ONGOING_BYTES
    assert read_transaction_value(ONGOING_BYTES) == ONGOING


def test_an_empty_state_has_null_for_partitions() -> None:
    record = read_transaction_value(EMPTY_BYTES)
    assert record == TransactionRecord(
        4_000, -1, 60_000, TransactionStatus.EMPTY, frozenset(), NOW_MS, -1
    )
    assert transaction_value(record) == EMPTY_BYTES


def test_a_complete_state_has_no_partitions_but_not_null() -> None:
    record = ONGOING._replace(status=TransactionStatus.COMPLETE_ABORT, partitions=frozenset())
    data = transaction_value(record)
    assert data == pack(">hqhibiqq", 0, 4_000, 3, 60_000, 5, 0, NOW_MS + 5, NOW_MS)
    assert read_transaction_value(data) == record


def test_the_flexible_version_is_read_and_its_newer_fields_are_skipped() -> None:
    partitions = frozenset({TopicPartition("a", 1), TopicPartition("a", 7)})
    expected = ONGOING._replace(status=TransactionStatus.PREPARE_COMMIT, partitions=partitions)
    assert read_transaction_value(FLEXIBLE_BYTES) == expected


@pytest.mark.parametrize("version", [2, -1])
def test_a_value_of_a_newer_version_is_refused(version: int) -> None:
    with pytest.raises(DecodeError, match=f"version {version}"):
        read_transaction_value(pack(">h", version) + ONGOING_BYTES[2:])


@pytest.mark.parametrize("status", [8, -1])
def test_an_unknown_state_is_refused(status: int) -> None:
    data = pack(">hqhibiqq", 0, 1, 0, 1, status, -1, 0, -1)
    with pytest.raises(DecodeError, match=f"state {status}"):
        read_transaction_value(data)


PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "__consumer_offsets"]), st.integers(0, 9))
)


@given(st.sampled_from(TransactionStatus), PARTITIONS, st.integers(-1, 2**63 - 1))
def test_values_round_trip(
    status: TransactionStatus, partitions: frozenset[TopicPartition], start_ms: int
) -> None:
    held = frozenset[TopicPartition]() if status is TransactionStatus.EMPTY else partitions
    record = ONGOING._replace(status=status, partitions=held, start_ms=start_ms)
    assert read_transaction_value(transaction_value(record)) == record


def test_names_of_states_are_those_of_kafka() -> None:
    assert [status.wire_name for status in TransactionStatus] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
