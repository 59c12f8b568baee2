"""Elections and moves as the command line words them. Composition of questions to the cluster."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.cli.failure import EXIT_USAGE, CommandError
from ottla.cli.partition_argument import (
    expand,
    parse_brokers,
    parse_move,
    parse_partition,
    parse_plan,
    spread,
)
from ottla.client.admin import Admin
from ottla.client.admin_model import ElectionType, Reassignment

LOOK_INTERVAL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Wish:
    """What shall be moved: `moves` as typed, or the text of a plan."""

    moves: tuple[str, ...]
    brokers: str | None
    plan: str | None
    is_cancelling: bool


async def elect_leaders(
    bootstrap: str, places: Sequence[str] | None, kind: ElectionType
) -> list[TopicPartition]:
    """Elect leaders of the partitions that `places` name, of all without any."""
    async with Admin(bootstrap) as admin:
        return await admin.elect_leaders(await _partitions(admin, places), kind)


async def list_moves(
    bootstrap: str, places: Sequence[str] | None
) -> Mapping[TopicPartition, Reassignment]:
    """Return which of the partitions that `places` name are being moved."""
    async with Admin(bootstrap) as admin:
        return await admin.list_reassignments(await _partitions(admin, places))


async def move(bootstrap: str, wish: Wish, *, is_waiting: bool) -> list[TopicPartition]:
    """Begin the moves, or take them back; with `is_waiting` return when all are done."""
    async with Admin(bootstrap) as admin:
        moves = await _moves(admin, wish)
        await admin.alter_reassignments(moves)
        if is_waiting:
            await _finish(admin, moves)
    return sorted(moves)


async def _finish(admin: Admin, moves: Iterable[TopicPartition]) -> None:
    left: Iterable[TopicPartition] = moves
    while True:
        left = await admin.list_reassignments(left)
        if not left:
            return
        # Brokers do not tell when a move is done.
        await asyncio.sleep(LOOK_INTERVAL_S)


async def _moves(admin: Admin, wish: Wish) -> Mapping[TopicPartition, Sequence[int] | None]:
    try:
        if wish.plan is not None:
            return parse_plan(wish.plan)
        if wish.is_cancelling:
            return dict.fromkeys(await _partitions(admin, wish.moves) or ())
        if wish.brokers is None:
            return dict(map(parse_move, wish.moves))
        wanted = await _partitions(admin, wish.moves) or ()
        return spread(await _replica_counts(admin, wanted), parse_brokers(wish.brokers))
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


async def _replica_counts(
    admin: Admin, wanted: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    places = set(wanted)
    topics = await admin.describe_topics({where.topic for where in places})
    return {
        where: len(part.replicas)
        for topic in topics.values()
        for part in topic.partitions
        if (where := TopicPartition(topic.name, part.partition)) in places
    }
