"""The committed offsets and the lag of every group that this broker coordinates (decision).

The names are Kafka Exporter's. Clients choose the names of groups and may commit for as many
partitions as they like: offsets beyond `MAX_OFFSETS`, and groups beyond `MAX_GROUPS`, are only
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from broker.groups.group import Group
from broker.groups.state import GroupState
from kafkawire.ids import TopicPartition
from monitoring.exposition import GAUGE, Family, label_value

MAX_GROUPS: Final = 5000
MAX_OFFSETS: Final = 20_000
STEP_OFFSETS: Final = 250
PARTITION: Final = ("consumergroup", "topic", "partition")
TOPIC: Final = ("consumergroup", "topic")
_MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager"


def _family(name: str, meaning: str, labels: tuple[str, ...]) -> Family:
    return Family(name=name, kind=GAUGE, meaning=meaning, labels=labels)


OFFSET: Final = _family(
    "kafka_consumergroup_current_offset", "Committed offset of a group.", PARTITION
)
OFFSET_SUM: Final = _family(
    "kafka_consumergroup_current_offset_sum", "Sum of the committed offsets of a topic.", TOPIC
)
LAG: Final = _family(
    "kafka_consumergroup_lag",
    "Records between the committed offset of a group and the partition's high watermark.",
    PARTITION,
)
LAG_SUM: Final = _family("kafka_consumergroup_lag_sum", "Sum of the lags of a topic.", TOPIC)
MEMBERS: Final = _family("kafka_consumergroup_members", "Members of a group.", ("consumergroup",))
GROUP_COUNT: Final = _family(f"{_MANAGER}_numgroups", "Groups that this broker coordinates.", ())
OFFSET_COUNT: Final = _family(f"{_MANAGER}_numoffsets", "Committed offsets of these groups.", ())
STATE_COUNTS: Final = {
    state: _family(
        f"{_MANAGER}_numgroups{state.value.lower()}", f"Groups in the state {state.value}.", ()
    )
    for state in GroupState
}
GROUP_FAMILIES: Final = (
    OFFSET,
    OFFSET_SUM,
    LAG,
    LAG_SUM,
    MEMBERS,
    GROUP_COUNT,
    OFFSET_COUNT,
    *STATE_COUNTS.values(),
)


class GroupOffset(NamedTuple):
    """The committed offset of a group in one partition."""

    labels: str
    """The group and the topic as labels."""
    partition: TopicPartition
    offset: int


@dataclass(slots=True)
class GroupsShown:
    """The groups at one moment, as far as the limits allow."""

    offsets: list[GroupOffset] = field(default_factory=list)
    members: list[tuple[str, int]] = field(default_factory=list)
    states: Counter[GroupState] = field(default_factory=Counter)
    group_count: int = 0
    offset_count: int = 0
    left_out_count: int = 0
    """Groups and offsets beyond the limits."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions whose ends are needed."""
        return list(dict.fromkeys(each.partition for each in self.offsets))


def collect_groups(groups: Sequence[Group], shown: GroupsShown) -> Iterator[None]:
    """Add `groups` to `shown`, in steps of about a millisecond at most."""
    shown.group_count = len(groups)
    step = 0
    for position, group in enumerate(groups):
        shown.states[group.state] += 1
        shown.offset_count += len(group.offsets)
        if position >= MAX_GROUPS:
            shown.left_out_count += 1
            step += 1
        else:
            step += 1 + _add(group, shown)
        if step >= STEP_OFFSETS:
            step = 0
            yield


def _add(group: Group, shown: GroupsShown) -> int:
    name = label_value(group.group_id)
    shown.members.append((name, len(group.members)))
    room = MAX_OFFSETS - len(shown.offsets)
    partitions = group.offsets.partitions()
    shown.left_out_count += max(0, len(partitions) - room)
    topics: dict[str, str] = {}
    for partition in islice(partitions, max(0, room)):
        committed = group.offsets.get(partition)
        assert committed is not None, "the partition was listed in this turn of the loop"
        topic = partition.topic
        labels = topics.get(topic)
        if labels is None:
            labels = topics[topic] = f'consumergroup="{name}",topic="{label_value(topic)}"'
        shown.offsets.append(GroupOffset(labels, partition, committed.offset))
    return len(partitions)


def group_pieces(shown: GroupsShown, ends: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Yield the metrics of the groups; `ends` holds the high watermarks that are known."""
    offset_sums: dict[str, int] = {}
    lag_sums: dict[str, int] = {}
    lags: list[str] = []

    def lines() -> Iterator[str]:
        for labels, partition, offset in shown.offsets:
            numbered = f'{{{labels},partition="{partition.partition}"}}'
            offset_sums[labels] = offset_sums.get(labels, 0) + offset
            end = ends.get(partition)
            if end is not None:
                lag = max(0, end - offset)
                lag_sums[labels] = lag_sums.get(labels, 0) + lag
                lags.append(f"kafka_consumergroup_lag{numbered} {lag}\n")
            yield f"kafka_consumergroup_current_offset{numbered} {offset}\n"

    yield from OFFSET.pieces_of(lines())
    yield from LAG.pieces_of(lags)
    for family, sums in ((OFFSET_SUM, offset_sums), (LAG_SUM, lag_sums)):
        yield from family.pieces_of(
            f"{family.name}{{{labels}}} {value}\n" for labels, value in sums.items()
        )
    yield from MEMBERS.pieces_of(
        f'kafka_consumergroup_members{{consumergroup="{name}"}} {count}\n'
        for name, count in shown.members
    )
    yield from GROUP_COUNT.pieces([((), shown.group_count)])
    yield from OFFSET_COUNT.pieces([((), shown.offset_count)])
    for state, family in STATE_COUNTS.items():
        yield from family.pieces([((), shown.states[state])])
