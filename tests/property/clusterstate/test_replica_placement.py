"""Properties of every assignment, for all brokers, racks and random starts."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from clusterstate.replica_placement import RandomStart, assign_replicas
from kafkawire.ids import BrokerId


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[BrokerId, str | None], int, RandomStart]:
    ids = draw(st.lists(st.integers(0, 50), min_size=1, max_size=9, unique=True))
    names = st.sampled_from(["a", "b", "c"])
    racks = {BrokerId(one): draw(names) for one in ids}
    bare: dict[BrokerId, str | None] = dict.fromkeys(racks)
    start = st.integers(0, len(ids) - 1)
    replication_factor = draw(st.integers(1, len(ids)))
    chosen: dict[BrokerId, str | None] = {**racks} if draw(st.booleans()) else bare
    return chosen, replication_factor, RandomStart(draw(start), draw(start))


@given(clusters(), st.integers(1, 40))
def test_replicas_differ_and_leaders_are_spread(
    cluster: tuple[dict[BrokerId, str | None], int, RandomStart], partition_count: int
) -> None:
    racks, replication_factor, start = cluster
    assigned = assign_replicas(racks, partition_count, replication_factor, start)
    assert sorted(assigned) == list(range(partition_count))
    for replicas in assigned.values():
        assert len(set(replicas)) == replication_factor
        assert set(replicas) <= racks.keys()
        used = {racks[replica] for replica in replicas}
        assert len(used) == min(replication_factor, len(set(racks.values())))
    led = Counter(replicas[0] for replicas in assigned.values())
    assert max(led.values()) - min((led[broker] for broker in racks), default=0) <= 1
