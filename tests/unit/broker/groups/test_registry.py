"""Groups that a broker coordinates, while partitions come and go: `broker.groups.registry`."""

import pytest

from broker.groups.group import Group
from broker.groups.rebalance import GroupLimits
from broker.groups.registry import GroupRegistry
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import LeaderEpoch

LIMITS = GroupLimits(max_size=100, initial_rebalance_delay_ms=0)
E1, E2 = LeaderEpoch(1), LeaderEpoch(2)


def make() -> tuple[GroupRegistry, int]:
    registry = GroupRegistry(LIMITS, lambda: 50)
    return registry, registry.leaderships.partition_of("g")


def code_of(registry: GroupRegistry, group_id: str = "g") -> ErrorCode:
    try:
        registry.find(group_id)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_group_is_coordinated_once_its_partition_is_loaded() -> None:
    registry, partition = make()
    assert code_of(registry) is ErrorCode.NOT_COORDINATOR
    assert registry.leaderships.lead(partition, E1)
    assert code_of(registry) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    registry.activate(partition, [Group("g", LIMITS)])
    assert code_of(registry) is ErrorCode.NONE
    assert [group.group_id for group in registry] == ["g"]
    assert registry.leaderships.active_partitions() == [partition]
    assert partition in registry.leaderships
    lost = registry.resign(partition)
    assert [group.group_id for group in lost] == ["g"]
    assert (len(registry), code_of(registry)) == (0, ErrorCode.NOT_COORDINATOR)


def test_registry_is_loading_until_all_partitions_are_active() -> None:
    registry, partition = make()
    registry.leaderships.lead(partition, E1)
    states = [registry.leaderships.is_loading]
    registry.activate(partition, [])
    assert [*states, registry.leaderships.is_loading] == [True, False]


def test_group_needs_an_id_unless_it_only_stores_offsets() -> None:
    registry, _ = make()
    partition = registry.leaderships.partition_of("")
    registry.leaderships.lead(partition, E1)
    registry.activate(partition, [])
    assert code_of(registry, "") is ErrorCode.INVALID_GROUP_ID
    assert registry.find("", may_be_unnamed=True) is None
    group = registry.find_or_add("", may_be_unnamed=True)
    assert registry.find("", may_be_unnamed=True) is group


def test_group_is_added_once_and_removed_once() -> None:
    registry, partition = make()
    registry.leaderships.lead(partition, E1)
    registry.activate(partition, [])
    group = registry.find_or_add("g")
    assert registry.find_or_add("g") is group
    registry.remove(Group("g", LIMITS))
    assert registry.find("g") is group
    registry.remove(group)
    assert registry.find("g") is None


def make_grown() -> tuple[GroupRegistry, int, Group]:
    """Return a registry, and the partition of a group in it; then the topic has grown."""
    counts = [50]
    registry = GroupRegistry(LIMITS, lambda: counts[-1])
    partition = registry.leaderships.partition_of("my-group")
    registry.leaderships.lead(partition, E1)
    registry.activate(partition, [])
    group = registry.find_or_add("my-group")
    counts.append(100)
    return registry, partition, group


def test_group_stays_in_its_partition_although_the_topic_grows() -> None:
    registry, partition, group = make_grown()
    assert registry.leaderships.partition_of("my-group") != partition
    assert registry.partition_of(group) == partition
    assert registry.resign(partition) == [group]
    assert len(registry) == 0


def test_group_is_found_although_the_topic_grows() -> None:
    registry, partition, group = make_grown()
    later = registry.leaderships.partition_of("my-group")
    assert code_of(registry, "my-group") is ErrorCode.NOT_COORDINATOR
    registry.leaderships.lead(later, E1)
    registry.activate(later, [])
    assert registry.find_or_add("my-group") is group
    assert registry.partition_of(group) == partition
    assert registry.resign(later) == []
    # Another broker has led the new partition meanwhile, and added a group there.
    other = Group("my-group", LIMITS)
    registry.leaderships.lead(later, E2)
    registry.activate(later, [other])
    assert registry.find("my-group") is other
    assert registry.resign(partition) == [group]
    assert registry.find("my-group") is other
    registry.remove(other)
    assert registry.find("my-group") is None


def test_closed_registry_refuses_every_group() -> None:
    registry, partition = make()
    registry.leaderships.lead(partition, E1)
    registry.activate(partition, [Group("g", LIMITS)])
    assert [group.group_id for group in registry.close()] == ["g"]
    with pytest.raises(ApiError) as caught:
        registry.find("g")
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
