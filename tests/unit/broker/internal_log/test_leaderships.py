"""Leading and loading the partitions of an internal topic: `broker.internal_log.leaderships`."""

import pytest

from broker.internal_log.leaderships import Leaderships
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import LeaderEpoch

E1, E2 = LeaderEpoch(1), LeaderEpoch(2)


def make() -> tuple[Leaderships, int]:
    leaderships = Leaderships(lambda: 50)
    return leaderships, leaderships.partition_of("k")


def code_of(leaderships: Leaderships) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        leaderships.check("k")
    return caught.value.code


def test_key_is_coordinated_once_its_partition_is_loaded() -> None:
    leaderships, partition = make()
    assert code_of(leaderships) is ErrorCode.NOT_COORDINATOR
    assert leaderships.lead(partition, E1)
    assert code_of(leaderships) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert leaderships.loading_partitions() == [partition]
    leaderships.activate(partition)
    assert not leaderships.is_loading
    assert not leaderships.loading_partitions()
    assert leaderships.check("k") == partition
    assert leaderships.active_partitions() == [partition]
    assert partition in leaderships
    leaderships.resign(partition)
    assert partition not in leaderships
    assert code_of(leaderships) is ErrorCode.NOT_COORDINATOR


def test_epoch_in_which_a_leadership_began_is_kept() -> None:
    leaderships, partition = make()
    leaderships.lead(partition, E1)
    leaderships.lead(partition, E2)
    assert leaderships.first_epoch(partition) == E1
    assert leaderships.epoch(partition) == E2


def test_closed_leaderships_refuse_every_key() -> None:
    leaderships, partition = make()
    leaderships.lead(partition, E1)
    leaderships.activate(partition)
    leaderships.close()
    assert not leaderships.is_open
    assert code_of(leaderships) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_leader_with_a_newer_epoch_does_not_load_again() -> None:
    leaderships, partition = make()
    leaderships.lead(partition, E1)
    assert not leaderships.lead(partition, E2)
    assert leaderships.epoch(partition) == E2
    assert leaderships.is_loading_since(partition, E1)
    leaderships.activate(partition)
    assert not leaderships.is_loading_since(partition, E1)
    assert not leaderships.lead(partition, E1)
    assert leaderships.epoch(partition) == E2


def test_load_of_an_earlier_leadership_is_not_needed() -> None:
    leaderships, partition = make()
    leaderships.lead(partition, E1)
    leaderships.resign(partition)
    assert not leaderships.is_loading_since(partition, E1)
    leaderships.lead(partition, E2)
    assert not leaderships.is_loading_since(partition, E1)
    assert leaderships.is_loading_since(partition, E2)


def test_leadership_lasts_through_newer_epochs_until_it_is_given_up() -> None:
    leaderships = Leaderships(lambda: 1)
    assert not leaderships.has_led_since(0, LeaderEpoch(9))
    leaderships.lead(0, LeaderEpoch(3))
    leaderships.lead(0, LeaderEpoch(4))
    assert [leaderships.has_led_since(0, LeaderEpoch(each)) for each in (2, 3, 4)] == [
        False,
        True,
        True,
    ]
    leaderships.resign(0)
    leaderships.lead(0, LeaderEpoch(6))
    assert not leaderships.has_led_since(0, LeaderEpoch(5))
