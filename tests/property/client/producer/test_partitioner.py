"""murmur2 agrees with an independent implementation."""

from aiokafka.partitioner import murmur2 as reference_murmur2
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producer.partitioner import TopicPartitioner, murmur2


@given(st.binary(max_size=70))
def test_murmur2_agrees_with_aiokafka(key: bytes) -> None:
    assert murmur2(key) == reference_murmur2(key) % 2**32


@given(st.binary(max_size=40), st.integers(1, 1_000))
def test_key_goes_to_the_same_partition_as_in_other_clients(key: bytes, count: int) -> None:
    partitioner = TopicPartitioner(1, lambda _: 0)
    partitioner.on_partitions(count, range(count))
    assert partitioner.for_key(key) == (reference_murmur2(key) & 0x7FFFFFFF) % count
