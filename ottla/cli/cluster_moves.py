"""Elections and reassignments by command-line arguments (composition).

It combines admin requests.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.cli import move_throttle
from ottla.cli.command_config import ClusterAccess
from ottla.cli.failure import EXIT_USAGE, CommandError, complain
from ottla.cli.partition_argument import (
    expand,
    parse_brokers,
    parse_moves,
    parse_partition,
    parse_plan,
    spread,
)
from ottla.client.admin.admin import Admin
from ottla.client.admin_model import ElectionType, Reassignment, ResourceType
from ottla.client.errors import BrokerError, LeaderElectionError, OttlaError, UnknownTopicError

POLL_INTERVAL_S: Final = 0.2
IMAGE_POLLS: Final = 25
"""Brokers learn the replicas from the controller soon after a move completes."""
THROTTLE_STAYS: Final = (
    "a throttle stays: remove it with `ottla cluster unthrottle` once no partition moves."
)

Moves = Mapping[TopicPartition, Sequence[int] | None]
"""The target replicas by partition; None cancels a move."""


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """Requested moves: `moves` as typed, or the text of a plan."""

    moves: tuple[str, ...]
    brokers: str | None
    plan: str | None
    is_cancelling: bool
    rate: int | None = None
    """Limit of the copying per broker, in bytes per second; None for none."""


async def elect_leaders(
    access: ClusterAccess, places: Sequence[str] | None, kind: ElectionType
) -> tuple[list[TopicPartition], list[BrokerError]]:
    """Elect leaders of the partitions that `places` name, or of all partitions if it is empty.

    Returns the partitions whose leader has changed, and the failures of others.
    """
    async with access.admin() as admin:
        try:
            return await admin.elect_leaders(await _partitions(admin, places), kind), []
        except LeaderElectionError as error:
            return error.elected, list(error.refused.values())


async def list_moves(
    access: ClusterAccess, places: Sequence[str] | None
) -> Mapping[TopicPartition, Reassignment]:
    """Return the reassignments in progress of the named partitions, or of all if none is named."""
    async with access.admin() as admin:
        return await admin.list_reassignments(await _partitions(admin, places))


async def move(
    access: ClusterAccess, request: MoveRequest, *, is_waiting: bool
) -> list[TopicPartition]:
    """Start or cancel the requested moves; with `is_waiting`, return once all have completed.

    A throttle is removed after waiting and after a refusal, unless other partitions move, and stays
    otherwise; see `unthrottle`.

    Raises:
        CommandError: a partition does not exist, or has not been moved although the move has ended.
    """
    async with access.admin() as admin:
        moves = await _moves(admin, request)
        if request.rate is None:
            await _carry_out(admin, moves, is_waiting=is_waiting)
        else:
            await _carry_out_throttled(admin, moves, request.rate, is_waiting=is_waiting)
        if is_waiting and not request.is_cancelling:
            await _check_moved(admin, moves)
    return sorted(moves)


async def unthrottle(access: ClusterAccess, topics: Sequence[str] | None) -> list[str]:
    """Remove the throttles of `topics` or all topics, and return the topics.

    The rates of brokers are removed unless partitions move, of other topics, too.
    """
    async with access.admin() as admin:
        named = list(topics or await admin.list_topics(include_internal=True))
        await admin.describe_topics(named)
        await _unthrottle(admin, named, await admin.list_reassignments())
    return sorted(named)


async def _carry_out(admin: Admin, moves: Moves, *, is_waiting: bool) -> None:
    await admin.alter_reassignments(moves)
    if is_waiting:
        await _finish(admin, moves)


async def _carry_out_throttled(admin: Admin, moves: Moves, rate: int, *, is_waiting: bool) -> None:
    targets = {each: brokers for each, brokers in moves.items() if brokers is not None}
    current = await _replicas(admin, targets)
    try:
        await _throttle(admin, current, targets, rate)
        await _carry_out(admin, moves, is_waiting=is_waiting)
        if is_waiting:
            await _unthrottle_ended(admin, moves)
    except asyncio.CancelledError:
        complain(THROTTLE_STAYS)
        raise
    except OttlaError as error:
        # Some of the moves may have been accepted.
        try:
            await _unthrottle_ended(admin, moves)
        except OttlaError:
            error.add_note(THROTTLE_STAYS)
        raise


async def _throttle(
    admin: Admin, current: move_throttle.Replicas, targets: move_throttle.Replicas, rate: int
) -> None:
    rates = move_throttle.broker_changes(rate)
    for broker in move_throttle.throttled_brokers(current, targets):
        await admin.alter_configs(ResourceType.BROKER, str(broker), rates)
    moving = await admin.list_reassignments()
    for topic in sorted({each.topic for each in targets}):
        keys = move_throttle.topic_reset()
        configs = await admin.describe_configs(ResourceType.TOPIC, topic, keys)
        listed = {key: entry.value or "" for key, entry in configs.items()}
        changes = move_throttle.topic_changes(topic, current, targets, listed=listed, moving=moving)
        await admin.alter_configs(ResourceType.TOPIC, topic, changes)


async def _unthrottle_ended(admin: Admin, moves: Iterable[TopicPartition]) -> None:
    """Remove the throttle of `moves`, except from topics of which partitions still move."""
    moving = await admin.list_reassignments()
    topics = {each.topic for each in moves} - {each.topic for each in moving}
    await _unthrottle(admin, topics, moving)


async def _unthrottle(
    admin: Admin, topics: Iterable[str], moving: Collection[TopicPartition]
) -> None:
    for topic in sorted(topics):
        # The configs of a deleted topic are gone.
        with suppress(UnknownTopicError):
            await admin.alter_configs(ResourceType.TOPIC, topic, move_throttle.topic_reset())
    # All moves share the rates.
    if moving:
        complain(THROTTLE_STAYS)
        return
    for broker in (await admin.describe_cluster()).brokers:
        changes = move_throttle.broker_changes(None)
        await admin.alter_configs(ResourceType.BROKER, str(broker), changes)


async def _replicas(
    admin: Admin, places: Collection[TopicPartition]
) -> dict[TopicPartition, Sequence[int]]:
    """Return the present replicas of partitions.

    Raises:
        CommandError: a partition does not exist.
    """
    topics = await admin.describe_topics({each.topic for each in places})
    current: dict[TopicPartition, Sequence[int]] = {
        TopicPartition(topic.name, part.partition): part.replicas
        for topic in topics.values()
        for part in topic.partitions
    }
    if missing := sorted(set(places) - current.keys()):
        raise CommandError(f"{missing[0]} does not exist.")
    return current


async def _finish(admin: Admin, moves: Iterable[TopicPartition]) -> None:
    left: Iterable[TopicPartition] = moves
    while True:
        left = await admin.list_reassignments(left)
        if not left:
            return
        # Brokers send no notification when a move completes.
        await asyncio.sleep(POLL_INTERVAL_S)


async def _check_moved(admin: Admin, moves: Moves) -> None:
    """Check that ended moves have completed: somebody may have cancelled or replaced one.

    Raises:
        CommandError: a partition has other replicas than requested, or does not exist any more.
    """
    targets = {each: list(brokers) for each, brokers in moves.items() if brokers is not None}
    for number in range(IMAGE_POLLS):
        if number:
            # Brokers send no notification of their new image.
            await asyncio.sleep(POLL_INTERVAL_S)
        current = await _replicas(admin, targets)
        others = [each for each in sorted(targets) if list(current[each]) != targets[each]]
        if not others:
            return
    first, *notes = (
        f"{each} was not moved: its replicas are {_ids(current[each])} instead of "
        f"{_ids(targets[each])}."
        for each in others
    )
    raise CommandError(first, notes=notes)


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


async def _moves(admin: Admin, request: MoveRequest) -> Moves:
    try:
        if request.plan is not None:
            return parse_plan(request.plan)
        if request.is_cancelling:
            return dict.fromkeys(await _partitions(admin, request.moves) or ())
        if request.brokers is None:
            return parse_moves(request.moves)
        wanted = await _partitions(admin, request.moves) or ()
        current = await _replicas(admin, wanted)
        counts = {each: len(current[each]) for each in wanted}
        return spread(counts, parse_brokers(request.brokers))
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from error


async def _partitions(admin: Admin, places: Sequence[str] | None) -> list[TopicPartition] | None:
    if not places:
        return None
    try:
        named = [parse_partition(place) for place in places]
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    whole = {topic for topic, partition in named if partition is None}
    topics = await admin.describe_topics(whole) if whole else {}
    return expand(named, {name: len(topic.partitions) for name, topic in topics.items()})
