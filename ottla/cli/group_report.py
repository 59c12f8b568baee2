"""Reports and offset resets of consumer groups (composition).

It combines admin requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkawire.ids import TopicPartition
from ottla.cli.failure import CommandError
from ottla.cli.log_positions import group_offsets_at, named_partitions
from ottla.cli.start_point import ResetPoint
from ottla.cli.terminal import Cell
from ottla.cli.text import JsonValue
from ottla.client.admin.admin import Admin
from ottla.client.admin_model import GroupDescription, GroupMember, OffsetSpec
from ottla.client.offset import CommittedOffset

DEAD = "Dead"
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A group, its committed offsets, and the end offsets and owners of its partitions."""

    group: GroupDescription
    committed: Mapping[TopicPartition, CommittedOffset]
    ends: Mapping[TopicPartition, int]
    owners: Mapping[TopicPartition, str]

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets up to the log's end; None without a committed offset."""
        held, end = self.committed.get(partition), self.ends.get(partition)
        return None if held is None or end is None else max(end - held.offset, 0)


async def describe_group(admin: Admin, group_id: str) -> GroupReport:
    """Fetch a group with all partitions that it has committed or owns.

    Raises:
        CommandError: the group does not exist.
    """
    group = await admin.describe_group(group_id)
    committed = await admin.list_group_offsets(group_id)
    if not committed:
        _require_existing(group, group_id)
    owners = {
        partition: member.member_id
        for member in group.members
        for partition in member.partitions or ()
    }
    partitions = committed.keys() | owners.keys()
    return GroupReport(group, committed, await _ends(admin, partitions), owners)


async def describe_existing(admin: Admin, group_id: str) -> GroupDescription:
    """Fetch a group with its members.

    Raises:
        CommandError: the group does not exist.
    """
    group = await admin.describe_group(group_id)
    _require_existing(group, group_id)
    return group


def _require_existing(group: GroupDescription, group_id: str) -> None:
    if group.state == DEAD:
        raise CommandError(f"group {group_id} does not exist: see `ottla groups list`.")


async def reset(
    admin: Admin, group_id: str, start: ResetPoint, places: Sequence[str], *, is_dry_run: bool
) -> dict[TopicPartition, int]:
    """Set a group's offsets to `start` and return them.

    Covers the partitions that `places` name, or without any every partition that the group has
    committed. A dry run only computes the offsets.

    Raises:
        CommandError: the group has members, or there are neither topics nor committed offsets.
    """
    group = await admin.describe_group(group_id)
    if group.members:
        raise CommandError(
            f"group {group_id} has {len(group.members)} members: stop them before resetting its "
            "offsets, because they would continue from their own positions."
        )
    committed = await admin.list_group_offsets(group_id)
    partitions = await named_partitions(admin, places) if places else sorted(committed)
    if not partitions:
        raise CommandError(f"group {group_id} has no committed offsets: name topics with --topic.")
    offsets = {each: place.offset for each, place in committed.items()}
    wanted = await group_offsets_at(admin, group_id, partitions, start, offsets)
    if not is_dry_run:
        await admin.alter_group_offsets(group_id, wanted)
    return wanted


def to_member_rows(group: GroupDescription) -> list[list[Cell]]:
    """Return a row per member, with the partitions that it owns."""
    return [
        [
            member.member_id,
            member.instance_id or NOTHING,
            member.client_id,
            member.client_host,
            NOTHING
            if member.partitions is None
            else ", ".join(map(str, member.partitions)) or NOTHING,
        ]
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]


def chosen_members(group: GroupDescription, names: Sequence[str]) -> list[GroupMember]:
    """Return the members that `names` list by member id or instance id; all of them without names.

    Raises:
        CommandError: there is no such member.
    """
    if not names:
        return list(group.members)
    known = {name: each for each in group.members for name in (each.member_id, each.instance_id)}
    if missing := [name for name in names if name not in known]:
        raise CommandError(
            f"group {group.group_id} has no member {missing[0]}: see `ottla groups members`."
        )
    return list({known[name].member_id: known[name] for name in names}.values())


def to_rows(report: GroupReport) -> list[list[Cell]]:
    """Return a row per partition."""
    by_id = {member.member_id: member for member in report.group.members}
    rows: list[list[Cell]] = []
    for partition in sorted(report.committed.keys() | report.owners.keys()):
        held, lag = report.committed.get(partition), report.lag(partition)
        owner = by_id.get(report.owners.get(partition, ""))
        rows.append(
            [
                partition.topic,
                partition.partition,
                NOTHING if held is None else held.offset,
                report.ends.get(partition, NOTHING),
                NOTHING if lag is None else lag,
                NOTHING if owner is None else owner.instance_id or owner.member_id,
                NOTHING if owner is None else owner.client_host,
            ]
        )
    return rows


def to_json(report: GroupReport) -> JsonValue:
    """Return the whole report as a JSON object."""
    group = report.group
    return {
        "group_id": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "members": members_json(group),
        "partitions": [
            _partition_json(report, partition)
            for partition in sorted(report.committed.keys() | report.owners.keys())
        ],
    }


def members_json(group: GroupDescription) -> list[JsonValue]:
    """Return the members as JSON objects; partitions that cannot be decoded are null."""
    return [
        {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "partitions": None
            if member.partitions is None
            else [str(partition) for partition in member.partitions],
        }
        for member in group.members
    ]


def _partition_json(report: GroupReport, partition: TopicPartition) -> JsonValue:
    held = report.committed.get(partition)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed_offset": None if held is None else held.offset,
        "metadata": None if held is None else held.metadata,
        "end_offset": report.ends.get(partition),
        "lag": report.lag(partition),
        "member_id": report.owners.get(partition),
    }


async def _ends(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end offset of each partition, without partitions of deleted topics."""
    named = list(partitions)
    existing = set(await admin.list_topics(include_internal=True))
    found = {each: int(OffsetSpec.LATEST) for each in named if each.topic in existing}
    places = await admin.list_offsets(found) if found else {}
    return {each: place.offset for each, place in places.items()}
