"""One row per group, and one per partition that a group reads (decision)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.client.admin_model import GroupMember
from ottla.console.observation.observation import Observation, ObservedGroup
from ottla.console.observation.series import Point
from ottla.console.view.table import SortKey

UNKNOWN_LAST: Final = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group. `lag` is None while no end of a log that it reads is known."""

    name: str
    state: str
    protocol: str
    assignor: str
    members: int
    topics: tuple[str, ...]
    lag: int | None
    lags: tuple[Point, ...]
    """The lag over time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """A partition that a group has committed, or that a member owns."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    lag: int | None
    metadata: str
    member: GroupMember | None


GROUP_COLUMNS: Final[Mapping[str, SortKey[GroupRow]]] = {
    "name": lambda row: row.name,
    "state": lambda row: row.state,
    "members": lambda row: row.members,
    "topics": lambda row: len(row.topics),
    "lag": lambda row: UNKNOWN_LAST if row.lag is None else row.lag,
}
LAG_COLUMNS: Final[Mapping[str, SortKey[LagRow]]] = {
    "topic": lambda row: row.partition.topic,
    "partition": lambda row: row.partition.partition,
    "committed": lambda row: UNKNOWN_LAST if row.committed is None else row.committed,
    "end": lambda row: UNKNOWN_LAST if row.end is None else row.end,
    "lag": lambda row: UNKNOWN_LAST if row.lag is None else row.lag,
}


def group_rows(observation: Observation) -> list[GroupRow]:
    """Return a row per group."""
    return [group_row(observation, name) for name in observation.groups]


def group_row(observation: Observation, name: str) -> GroupRow:
    """Return the row of one group."""
    group = observation.groups[name]
    series = observation.lags.get(name)
    return GroupRow(
        name=name,
        state=group.description.state,
        protocol=group.description.protocol_type,
        assignor=group.description.assignor,
        members=len(group.description.members),
        topics=tuple(sorted({each.topic for each in _partitions(group)})),
        lag=None if series is None or series.last is None else int(series.last),
        lags=() if series is None else series.points,
    )


def lag_rows(observation: Observation, name: str) -> list[LagRow]:
    """Return a row per partition that the group reads."""
    group = observation.groups[name]
    owners = {
        partition: member
        for member in group.description.members
        for partition in member.partitions or ()
    }
    rows = []
    for partition in sorted(_partitions(group)):
        committed = group.committed.get(partition)
        held = observation.ranges.get(partition)
        rows.append(
            LagRow(
                partition=partition,
                committed=None if committed is None else committed.offset,
                end=None if held is None else held.end,
                lag=None if committed is None else observation.lag(partition, committed.offset),
                metadata="" if committed is None else committed.metadata,
                member=owners.get(partition),
            )
        )
    return rows


def _partitions(group: ObservedGroup) -> set[TopicPartition]:
    owned = {each for member in group.description.members for each in member.partitions or ()}
    return owned | group.committed.keys()
