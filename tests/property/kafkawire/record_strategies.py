"""Generators of records and of damage."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.unit.kafkawire.batches import Fields

MAX_TIMESTAMP_MS = 2**63 - 2

# A slow machine is not a failure.
calmly = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

times_ms = st.one_of(
    st.integers(1_700_000_000_000, 1_700_000_100_000),
    st.integers(-1, MAX_TIMESTAMP_MS),
    st.sampled_from([-1, 0, MAX_TIMESTAMP_MS]),
)
# Around the lengths where a varint takes one byte more: 64 and 8192.
payloads = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.builds(bytes, st.sampled_from([62, 63, 64, 65, 4095, 4096, 8191, 8192])),
)
header_keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
headers = st.lists(st.tuples(header_keys, payloads), max_size=4).map(tuple)
records: st.SearchStrategy[Fields] = st.tuples(
    times_ms, payloads, payloads, st.one_of(st.just(()), headers)
)
small_records: st.SearchStrategy[Fields] = st.tuples(
    times_ms, st.none(), st.binary(max_size=3), st.just(())
)
record_lists = st.one_of(
    st.lists(records, min_size=1, max_size=8),
    # Enough records that offset deltas take two bytes.
    st.builds(lambda record, count: [record] * count, small_records, st.integers(60, 80)),
)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw `data` with flipped bits, or with replaced, inserted or removed bytes."""
    damage = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, len(damage)))
        length = draw(st.integers(0, 4))
        damage[position : position + length] = draw(st.binary(max_size=4))
    return bytes(damage)
