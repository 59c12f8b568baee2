"""Committed offsets and lags of groups: `broker.status.group_metrics`."""

import pytest

from broker.groups.group import Group
from broker.groups.rebalance import GroupLimits
from broker.status import group_metrics
from broker.status.group_metrics import GroupsShown, collect_groups, group_pieces
from kafkawire.group_records import CommittedOffset
from kafkawire.ids import TopicPartition

LIMITS = GroupLimits(max_size=10, initial_rebalance_delay_ms=0)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def group(name: str, **offsets: int) -> Group:
    """Return a group with an offset for each partition, named p0, p1 and so on."""
    made = Group(name, LIMITS)
    for key, offset in offsets.items():
        partition = TopicPartition("t", int(key.removeprefix("p")))
        made.offsets.restore(partition, CommittedOffset(offset, -1, "", 0), 0)
    return made


def shown(*groups: Group) -> GroupsShown:
    collected = GroupsShown()
    list(collect_groups(groups, collected))
    return collected


def values(collected: GroupsShown, ends: dict[TopicPartition, int]) -> dict[str, int]:
    text = "".join(group_pieces(collected, ends))
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name: int(value) for name, value in lines}


def test_lags_are_distances_from_the_high_watermarks() -> None:
    collected = shown(group("g", p0=10, p1=20), group("empty"))
    assert collected.partitions == [T0, T1]
    found = values(collected, {T0: 13, T1: 24})
    labels = 'consumergroup="g",topic="t"'
    assert found[f'kafka_consumergroup_lag{{{labels},partition="0"}}'] == 3
    assert found[f'kafka_consumergroup_lag{{{labels},partition="1"}}'] == 4
    assert found[f"kafka_consumergroup_lag_sum{{{labels}}}"] == 7
    assert found[f"kafka_consumergroup_current_offset_sum{{{labels}}}"] == 30
    assert found['kafka_consumergroup_members{consumergroup="empty"}'] == 0
    prefix = "kafka_coordinator_group_groupmetadatamanager_"
    assert (found[f"{prefix}numgroups"], found[f"{prefix}numgroupsempty"]) == (2, 2)
    assert found[f"{prefix}numoffsets"] == 2


def test_a_partition_without_a_known_end_has_no_lag() -> None:
    found = values(shown(group("g", p0=10, p1=20)), {T0: 7})
    lags = {name: value for name, value in found.items() if "_lag{" in name}
    assert list(lags.values()) == [0], "the leader's answer is older than the commit"
    assert len([name for name in found if "current_offset{" in name]) == 2


def test_names_of_groups_are_escaped() -> None:
    found = "".join(group_pieces(shown(group('x"\n} 1', p0=1)), {}))
    assert 'consumergroup="x\\"\\n} 1"' in found


def test_offsets_and_groups_beyond_the_limits_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_metrics, "MAX_OFFSETS", 3)
    monkeypatch.setattr(group_metrics, "MAX_GROUPS", 3)
    groups = [group(f"g{number}", p0=1, p1=1) for number in range(5)]
    collected = shown(*groups)
    assert (len(collected.offsets), len(collected.members)) == (3, 3)
    assert (collected.offset_count, collected.group_count) == (10, 5)
    assert collected.left_out_count == 5, "three offsets and two groups"


def test_a_step_collects_a_limited_number_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_metrics, "STEP_OFFSETS", 4)
    groups = [group(f"g{number}", p0=1) for number in range(10)]
    assert len(list(collect_groups(groups, GroupsShown()))) == 5
