"""Names of files and directories, formatted and parsed."""

from pathlib import Path

import pytest

from kafkawire.ids import TopicPartition
from storage.disk.layout import (
    DirectoryState,
    can_be_copied,
    parse_partition_directory,
    parse_segment_file,
    partition_directory,
    segment_file,
    set_aside_directory,
)

TOPICS = ["orders", "a", "a-b", "a.b", "a.b-3", "-", ".", "x-delete", "y-1.z", "t" * 249]


def test_a_segments_file_has_twenty_digits() -> None:
    assert segment_file(Path("d"), 170, ".log") == Path("d/00000000000000000170.log")


def test_no_partition_lies_outside_its_log_dir() -> None:
    for topic in ("../outside", "/absolute", "x/y"):
        with pytest.raises(AssertionError):
            partition_directory(TopicPartition(topic, 0))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000000170.log", (170, ".log", "")),
        ("09223372036854775807.timeindex", (2**63 - 1, ".timeindex", "")),
        ("00000000000000000000.index.swap", (0, ".index", ".swap")),
        ("00000000000000000000.log.deleted", (0, ".log", ".deleted")),
        ("00000000000000000000.txnindex.cleaned", (0, ".txnindex", ".cleaned")),
        ("09223372036854775808.log", None),
        ("\u0660" * 20 + ".log", None),
        ("170.log", None),
        ("0000000000000000017x.log", None),
        ("leader-epoch-checkpoint", None),
        ("00000000000000000000.log.swap.deleted", None),
    ],
)
def test_segment_file_names_are_parsed(name: str, expected: tuple[int, str, str] | None) -> None:
    assert parse_segment_file(name) == expected


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("partition", [0, 7, 2**31 - 1])
def test_partition_directory_names_are_parsed(topic: str, partition: int) -> None:
    key = TopicPartition(topic, partition)
    assert parse_partition_directory(partition_directory(key)) == (key, DirectoryState.LIVE)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("state", [DirectoryState.DELETED, DirectoryState.STRAY])
def test_set_aside_directory_names_are_parsed(topic: str, state: DirectoryState) -> None:
    key = TopicPartition(topic, 12)
    name = set_aside_directory(key, state)
    parsed = parse_partition_directory(name)
    assert parsed is not None
    assert len(name) <= 255
    assert parsed.state is state
    assert parsed.topic_partition.partition == 12
    assert topic.startswith(parsed.topic_partition.topic)
    assert name != set_aside_directory(key, state)


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "orders-",
        "-0",
        "orders-x",
        "lost+found",
        "orders-2147483648",
        "a b-0",
        "örders-0",
        "\udcff-0",
        "orders-0.\udcff-delete",
    ],
)
def test_other_directory_names_are_not_partitions(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize(("length", "expected"), [(200, True), (249, False)])
def test_a_topic_may_have_too_long_a_name_for_a_copy(length: int, expected: bool) -> None:
    assert can_be_copied(TopicPartition("t" * length, 0)) is expected
