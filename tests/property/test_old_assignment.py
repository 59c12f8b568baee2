"""The range formula of the old consumers agrees with a naive model."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.zookeeper.assignment import Slot, Strategy, assign

THREADS = st.sets(st.text(min_size=1, max_size=6), min_size=1, max_size=12)


def naive(partition_count: int, threads: set[str]) -> dict[Slot, str]:
    """Deal the shares out one by one."""
    readers = sorted(threads, key=lambda text: text.encode("utf-16-be", "surrogatepass"))
    sizes = dict.fromkeys(readers, 0)
    for number in range(partition_count):
        sizes[readers[number % len(readers)]] += 1
    dealt = [reader for reader in readers for _ in range(sizes[reader])]
    return {Slot("t", str(number)): reader for number, reader in enumerate(dealt)}


@given(st.integers(0, 40), THREADS)
def test_range_agrees_with_dealing_shares(partition_count: int, threads: set[str]) -> None:
    names = [str(each) for each in range(partition_count)]
    assert assign(Strategy.RANGE, {"t": names}, {"t": list(threads)}) == naive(
        partition_count, threads
    )


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)), THREADS, st.data())
def test_each_partition_with_readers_has_one_of_them(
    topics: dict[str, int], threads: set[str], data: st.DataObject
) -> None:
    names = {topic: [str(each) for each in range(count)] for topic, count in topics.items()}
    readers = {
        topic: data.draw(st.lists(st.sampled_from(sorted(threads)), unique=True))
        for topic in topics
    }
    for strategy in Strategy:
        owned = assign(strategy, names, readers)
        assert set(owned) == {
            Slot(topic, name) for topic in names if readers[topic] for name in names[topic]
        }
        assert all(thread in readers[slot.topic] for slot, thread in owned.items())
