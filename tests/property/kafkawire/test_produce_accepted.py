"""The fast encoder of Produce responses agrees with the general one."""

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkawire.produce_accepted import Accepted, encode_accepted
from kafkawire.schema import encode

int64 = st.integers(-(2**63), 2**63 - 1)
rows = st.tuples(st.integers(0, 2**31 - 1), int64, int64, int64)
# Beyond 127 characters and 127 rows, where a varint takes a second byte.
names = st.text("abc.", min_size=1, max_size=249)
topics = st.lists(
    st.tuples(names, st.lists(rows, max_size=5) | st.lists(rows, min_size=130, max_size=130)),
    max_size=3,
)


@given(topics, st.integers(3, 11))
def test_bytes_match_those_of_the_general_codec(
    accepted: list[tuple[str, list[Accepted]]], version: int
) -> None:
    message = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=name,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition,
                        base_offset=base_offset,
                        log_append_time_ms=time_ms,
                        log_start_offset=start_offset,
                    )
                    for partition, base_offset, time_ms, start_offset in accepted_rows
                ],
            )
            for name, accepted_rows in accepted
        ]
    )
    assert encode_accepted(accepted, version) == encode(message, version)
