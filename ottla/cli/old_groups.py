"""Work of `ottla groups --coordinator`: groups that meet in the coordinator (composition)."""

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from clusterstate.znodes.jafka_nodes import names_of
from coordination.client import Client
from coordination.errors import OperationError
from kafkawire.ids import TopicPartition
from ottla.cli.command_config import cluster_access
from ottla.cli.failure import EXIT_USAGE, CommandError, complain, run_client, usage_error
from ottla.cli.log_positions import group_offsets_at
from ottla.cli.start_point import ResetPoint
from ottla.cli.terminal import Cell
from ottla.cli.text import JsonValue
from ottla.client.admin.admin import Admin
from ottla.client.admin_model import OffsetSpec
from ottla.client.security import SecurityOptions
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.broker_addresses import BrokerAddresses
from ottla.zookeeper.group_admin import GroupAdmin, OldGroup, parse_offsets
from ottla.zookeeper.login import load_login
from ottla.zookeeper.refusal import reason_of
from ottla.zookeeper.registration import Layout, consumer_of

CONNECT_TIMEOUT_S: Final = 10.0
BOOTSTRAP_VARIABLE: Final = "OTTLA_BOOTSTRAP"
LOGIN_VARIABLE: Final = "OTTLA_COORDINATOR_LOGIN"
"""Names a file with the login at the coordinator, a Java login configuration."""
NOTHING: Final = "-"
Place = Literal["kafka", "znodes"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Groups:
    """Access to the groups of one coordinator, and to the brokers that it lists."""

    admin: GroupAdmin
    client: Client
    layout: Layout
    security: SecurityOptions

    async def brokers(self) -> Admin:
        """Return a started client of the brokers.

        Raises:
            CommandError: the coordinator lists no broker.
        """
        protocol = self.security.get("security_protocol", "PLAINTEXT")
        found = await BrokerAddresses(self.client, self.layout, protocol).read()
        if not found:
            raise CommandError(f"the coordinator lists no broker with a {protocol} listener.")
        addresses = [f"{address.host}:{address.port}" for address in found.values()]
        return Admin(addresses, **self.security)


@dataclass(frozen=True, slots=True)
class GroupsAccess:
    """The options by which a command finds groups in a coordinator."""

    coordinator: str
    layout: Layout
    security: SecurityOptions
    login_file: str | None = None


def groups_access(
    coordinator: str, layout: str, bootstrap: str | None, command_config: Path | None
) -> GroupsAccess:
    """Combine the options of a command.

    Raises:
        CommandError: the options contradict each other, or the file cannot be used.
    """
    if bootstrap is not None and bootstrap != os.environ.get(BOOTSTRAP_VARIABLE):
        usage_error("--coordinator lists the brokers: leave out --bootstrap.")
    security = cluster_access(bootstrap, command_config, has_coordinator=True).security
    login_file = os.environ.get(LOGIN_VARIABLE) or None
    return GroupsAccess(coordinator, Layout(layout), security, login_file)


def run_groups(access: GroupsAccess, work: Callable[[Groups], Coroutine[object, object, T]]) -> T:
    """Return the result of `work` with the groups of a coordinator.

    Raises:
        CommandError: the coordinator cannot be reached, or refuses.
    """

    async def connected() -> T:
        login = load_login(access.login_file)
        try:
            client = Client(access.coordinator, login=login)
        except ValueError as error:
            raise CommandError(f"--coordinator: {error}.", EXIT_USAGE) from error
        admin = GroupAdmin(client, access.layout)
        try:
            await client.connect(CONNECT_TIMEOUT_S)
            try:
                return await work(Groups(admin, client, access.layout, access.security))
            finally:
                await client.close()
        except OperationError as error:
            reason = reason_of(error, client.failure)
            text = f"the coordinator at {access.coordinator} failed: {reason}."
            raise CommandError(text) from error

    return run_client(connected())


async def delete_old(groups: Groups, names: Sequence[str], deleted: list[str]) -> None:
    """Delete groups one after the other, and add each to `deleted`.

    Raises:
        LiveGroupError: a group has members.
        UnknownGroupError: there is no such group.
    """
    for name in names:
        await groups.admin.delete(name)
        deleted.append(name)


@dataclass(frozen=True, slots=True)
class OldReport:
    """A group, and the end of the log of each of its partitions."""

    group: OldGroup
    ends: Mapping[Slot, int]

    def slots(self) -> list[Slot]:
        """Return all partitions with an offset or an owner."""
        return sorted(self.group.offsets.keys() | self.group.owners.keys())

    def lag(self, slot: Slot) -> int | None:
        """Return the number of offsets up to the log's end; None where one of both is unknown."""
        held, end = self.group.offsets.get(slot), self.ends.get(slot)
        return None if held is None or end is None else max(end - held, 0)


async def describe_old(groups: Groups, name: str) -> OldReport:
    """Read a group; without reachable brokers the ends are unknown."""
    group = await groups.admin.describe(name)
    slots = group.offsets.keys() | group.owners.keys()
    async with await groups.brokers() as admin:
        numbers = await _numbers(groups, admin, {slot.topic for slot in slots})
        known = {slot: numbers[slot] for slot in slots if slot in numbers}
        found = (
            await admin.list_offsets(dict.fromkeys(known.values(), int(OffsetSpec.LATEST)))
            if known
            else {}
        )
    return OldReport(group, {slot: found[number].offset for slot, number in known.items()})


def old_rows(report: OldReport) -> list[list[Cell]]:
    """Return a row per partition."""
    rows: list[list[Cell]] = []
    for slot in report.slots():
        held, lag = report.group.offsets.get(slot), report.lag(slot)
        owner = report.group.owners.get(slot)
        rows.append(
            [
                slot.topic,
                slot.name,
                NOTHING if held is None else held,
                report.ends.get(slot, NOTHING),
                NOTHING if lag is None else lag,
                NOTHING if owner is None else consumer_of(owner),
            ]
        )
    return rows


def old_json(name: str, report: OldReport) -> JsonValue:
    """Return the whole report as a JSON object."""
    return {
        "group_id": name,
        "members": [
            {
                "consumer_id": consumer,
                "pattern": held.pattern.value,
                "subscription": dict(held.subscription),
            }
            for consumer, held in sorted(report.group.members.items())
        ],
        "malformed": list(report.group.malformed),
        "partitions": [
            {
                "topic": slot.topic,
                "partition": slot.name,
                "committed_offset": report.group.offsets.get(slot),
                "end_offset": report.ends.get(slot),
                "lag": report.lag(slot),
                "thread_id": report.group.owners.get(slot),
            }
            for slot in report.slots()
        ],
    }


async def reset_old(
    groups: Groups, name: str, start: ResetPoint, topics: Sequence[str], *, is_dry_run: bool
) -> dict[Slot, int]:
    """Set a group's offsets to `start` and return them, as `group_report.reset`.

    Raises:
        CommandError: there are neither topics nor offsets.
        LiveGroupError: the group has members.
    """
    await groups.admin.require_empty(name)
    held = (await groups.admin.describe(name)).offsets
    async with await groups.brokers() as admin:
        numbers = await _numbers(groups, admin, set(topics) or {slot.topic for slot in held})
        wanted = {slot: number for slot, number in numbers.items() if topics or slot in held}
        if not wanted:
            raise CommandError(f"group {name} has no offsets: name topics with --topic.")
        committed = {
            number: offset
            for slot, number in wanted.items()
            if (offset := held.get(slot)) is not None
        }
        found = await group_offsets_at(admin, name, list(wanted.values()), start, committed)
    offsets = {slot: found[number] for slot, number in wanted.items()}
    if not is_dry_run:
        await groups.admin.set_offsets(name, offsets)
    return offsets


async def import_old(groups: Groups, lines: Sequence[str]) -> dict[str, int]:
    """Set offsets as `GroupAdmin.import_offsets`, and warn of topics that do not exist yet."""
    wanted = parse_offsets(lines, groups.layout).values()
    # Before the import: the offsets of a topic that is created meanwhile may be older than it.
    missing = await groups.admin.missing_topics({slot.topic for each in wanted for slot in each})
    counts = await groups.admin.import_offsets(lines)
    if missing:
        complain(
            f"{len(missing)} of the topics do not exist yet, such as {missing[0]}: members drop "
            "these offsets once the topics exist, so create the topics and import again."
        )
    return counts


async def migrate(
    groups: Groups, name: str, to: Place, *, is_dry_run: bool
) -> dict[TopicPartition, int]:
    """Copy the offsets of a group between its nodes and the Kafka group of the same name.

    Both must have no members. Offsets of partitions that do not exist are left out.

    Raises:
        CommandError: the Kafka group has members, or there is nothing to copy.
        LiveGroupError: the group in the coordinator has members.
    """
    async with await groups.brokers() as admin:
        kafka = await admin.describe_group(name)
        if kafka.members:
            raise CommandError(
                f"Kafka's group {name} has {len(kafka.members)} members: stop them first."
            )
        if to == "kafka":
            await groups.admin.require_empty(name)
            held = (await groups.admin.describe(name)).offsets
            numbers = await _numbers(groups, admin, {slot.topic for slot in held})
            copied = {
                numbers[slot]: value
                for slot, value in held.items()
                if value is not None and slot in numbers
            }
            if copied and not is_dry_run:
                await admin.alter_group_offsets(name, copied)
        else:
            committed = await admin.list_group_offsets(name)
            numbers = await _numbers(groups, admin, {each.topic for each in committed})
            slots = {number: slot for slot, number in numbers.items()}
            copied = {each: at.offset for each, at in committed.items() if each in slots}
            if copied and not is_dry_run:
                await groups.admin.set_offsets(
                    name, {slots[each]: offset for each, offset in copied.items()}
                )
    if not copied:
        raise CommandError(f"group {name} has no offsets to copy to {to}.")
    return copied


async def _numbers(groups: Groups, admin: Admin, topics: set[str]) -> dict[Slot, TopicPartition]:
    """Return the partition with each name, without topics that do not exist."""
    existing = sorted(topics & set(await admin.list_topics(include_internal=True)))
    described = await admin.describe_topics(existing) if existing else {}
    found: dict[Slot, TopicPartition] = {}
    for topic, held in described.items():
        replicas = {each.partition: each.replicas for each in held.partitions}
        names = (
            {str(number): number for number in replicas}
            if groups.layout is Layout.KAFKA
            else names_of(replicas)
        )
        found |= {
            Slot(topic, name): TopicPartition(topic, number) for name, number in names.items()
        }
    return found
