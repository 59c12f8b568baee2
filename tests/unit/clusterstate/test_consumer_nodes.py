"""Paths and texts of groups, and Jafka's nodes of brokers."""

import pytest

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes import consumer_nodes, jafka_nodes
from clusterstate.znodes.jafka_nodes import JafkaBroker, decode_count, decode_jafka_broker


def test_paths_are_those_of_the_old_consumers() -> None:
    assert consumer_nodes.group("g") == "/consumers/g"
    assert consumer_nodes.members("g") == "/consumers/g/ids"
    assert consumer_nodes.member("g", "g_h-1-ab") == "/consumers/g/ids/g_h-1-ab"
    assert consumer_nodes.owners("g") == "/consumers/g/owners"
    assert consumer_nodes.owner("g", "t", "0") == "/consumers/g/owners/t/0"
    assert consumer_nodes.owner("g", "t", "1-0") == "/consumers/g/owners/t/1-0"
    assert consumer_nodes.offsets("g") == "/consumers/g/offsets"
    assert consumer_nodes.offset("g", "t", "0") == "/consumers/g/offsets/t/0"
    assert jafka_nodes.topic_count("t", 1) == "/brokers/topics/t/1"


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [("g", True), ("a.b_c-D9", True), ("", False), (".", False), ("..", False), ("a/b", False)],
)
def test_names_of_groups(name: str, is_valid: bool) -> None:
    assert consumer_nodes.is_group_name(name) is is_valid


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"1234", 1234),
        (b"0", 0),
        (b" 42\n", 42),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", None),
        (b"9" * 1_000_000, None),
        (b"-1", None),
        (b"", None),
        (None, None),
        (b"12x", None),
        (b"1 2", None),
        ("١٢".encode(), None),
    ],
)
def test_an_offset_is_decimal_text_and_anything_else_is_none(
    data: bytes | None, value: int | None
) -> None:
    assert consumer_nodes.decode_offset(data) == value


def test_an_offset_is_written_without_padding() -> None:
    assert consumer_nodes.encode_offset(1234) == b"1234"


@pytest.mark.parametrize(
    ("data", "broker"),
    [
        (b"web1-1400000000000:web1:9092:true", JafkaBroker("web1-1400000000000", "web1", 9092)),
        (b"web1-1:web1:9092:false", JafkaBroker("web1-1", "web1", 9092, creates_topics=False)),
        (b"web1-1:web1:9092", JafkaBroker("web1-1", "web1", 9092)),
        (b"##1-1:##1:9092:true", JafkaBroker("::1-1", "::1", 9092)),
    ],
)
def test_a_broker_of_jafka_has_three_fields_or_four(data: bytes, broker: JafkaBroker) -> None:
    assert decode_jafka_broker(data) == broker
    if data.count(b":") == 3:
        assert broker.encode() == data


@pytest.mark.parametrize(
    "data",
    [None, b"", b"a:b", b"a:b:c:true", b"a::1:true", b"a:b:99999:true", b"a:b:1:c:d", b"\xff"],
)
def test_other_texts_are_no_broker(data: bytes | None) -> None:
    with pytest.raises(MalformedZnodeError):
        decode_jafka_broker(data)


def test_counts_are_numbers() -> None:
    assert decode_count(jafka_nodes.encode_count(3)) == 3
    for data in (None, b"", b"-1", b"x", b"100001", b"9" * 5000):
        with pytest.raises(MalformedZnodeError):
            decode_count(data)


def test_partitions_are_named_by_their_preferred_leader_and_their_rank() -> None:
    replicas = {0: (1, 2), 1: (2, 1), 2: (1, 2), 3: (2, 1), 10: (1,), 4: ()}
    names = jafka_nodes.names_of(replicas)
    assert names == {"1-0": 0, "2-0": 1, "1-1": 2, "2-1": 3, "1-2": 10}
    assert jafka_nodes.counts_of(names) == {1: 3, 2: 2}


def test_a_new_partition_ranks_last() -> None:
    before = jafka_nodes.names_of({0: (1,), 1: (2,)})
    assert before.items() <= jafka_nodes.names_of({0: (1,), 1: (2,), 2: (1,)}).items()
