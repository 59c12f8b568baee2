"""Sticky assignors: balanced, and close to the previous assignment (decision).

Both assignors share `balance`. Balanced means that no partition can move to a subscriber of its
topic that has at least two partitions fewer. The cooperative assignor leaves out partitions that
change owners: the old owner gives them up first, and the next rebalance assigns them (KIP-429).
Source: AbstractStickyAssignor, CooperativeStickyAssignor of Kafka 3.9; KIP-54.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Final

from kafkawire.errors import DecodeError
from kafkawire.ids import TopicPartition, by_topic
from kafkawire.messages.consumer_protocol import OwnedPartitions, StickyAssignorUserData
from kafkawire.schema import decode, encode
from ottla.client.consumer.group.assignor import (
    Assignment,
    PartitionCounts,
    RebalanceProtocol,
    Subscription,
    flatten,
    in_order,
    subscribers,
)
from ottla.client.offset import NO_GENERATION, MemberId

USER_DATA_VERSION: Final = 1
_GENERATION: Final = Struct(">i")

Claim = tuple[int, Sequence[TopicPartition]]
"""A generation, and the partitions that a member claims to have held in it."""


class StickyAssignor:
    """Eager and sticky: members give up all partitions, and get most of them back."""

    name = "sticky"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the previous partitions, since an eager member owns none when it joins."""
        held = StickyAssignorUserData(
            previous_assignment=[
                OwnedPartitions(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(sorted(owned)).items()
            ],
            generation=generation,
        )
        return encode(held, USER_DATA_VERSION)

    def assign(
        self, partition_counts: PartitionCounts, members: Mapping[MemberId, Subscription]
    ) -> Assignment:
        """Return a balanced assignment."""
        claims = {member: _reported_claim(held) for member, held in members.items()}
        return balance(partition_counts, members, claims)


class CooperativeStickyAssignor:
    """Cooperative and sticky: members keep reading the partitions that stay with them.

    A partition that moves is assigned one rebalance later.
    """

    name = "cooperative-sticky"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:  # noqa: ARG002
        """Return the generation, for leaders that do not find it in the subscription."""
        return _GENERATION.pack(generation)

    def assign(
        self, partition_counts: PartitionCounts, members: Mapping[MemberId, Subscription]
    ) -> Assignment:
        """Return a balanced assignment without partitions that another member still holds."""
        claims = {member: _owned_claim(held) for member, held in members.items()}
        assignment = balance(partition_counts, members, claims)
        held_by = {
            partition: member for member, held in members.items() for partition in held.owned
        }
        return {
            member: [each for each in partitions if held_by.get(each, member) == member]
            for member, partitions in assignment.items()
        }


def balance(
    partition_counts: PartitionCounts,
    members: Mapping[MemberId, Subscription],
    claims: Mapping[MemberId, Claim],
) -> Assignment:
    """Assign all partitions evenly; members keep claimed partitions as far as that is even."""
    readers = {
        topic: tuple(found)
        for topic, found in subscribers(members).items()
        if partition_counts.get(topic, 0)
    }
    owners = _valid_owners(partition_counts, readers, claims)
    sharing = _Sharing(in_order(members), readers)
    free: list[TopicPartition] = []
    for topic in readers:
        for index in range(partition_counts[topic]):
            partition = TopicPartition(topic, index)
            owner = owners.get(partition)
            if owner is None:
                free.append(partition)
            else:
                sharing.give(partition, owner)
    # Partitions with few subscribers first, since they leave the least choice.
    for partition in sorted(free, key=lambda each: len(readers[each.topic])):
        sharing.give(partition, sharing.least_loaded(readers[partition.topic]))
    sharing.level()
    return sharing.held


class _Sharing:
    """The assignment while partitions are moved."""

    def __init__(
        self, members: Sequence[MemberId], readers: Mapping[str, tuple[MemberId, ...]]
    ) -> None:
        self.held: Assignment = {member: [] for member in members}
        self._place = {member: place for place, member in enumerate(members)}
        self._readers = readers

    def give(self, partition: TopicPartition, member: MemberId) -> None:
        self.held[member].append(partition)

    def least_loaded(self, candidates: Iterable[MemberId]) -> MemberId:
        return min(candidates, key=lambda each: (len(self.held[each]), self._place[each]))

    def level(self) -> None:
        """Move partitions from the most to the least loaded members until no move helps."""
        # Terminates: each move lowers the sum of the squares of the loads.
        is_even = False
        while not is_even:
            is_even = True
            # One partition from each member per round: otherwise the first would give too many.
            for giver in sorted(self.held, key=lambda each: -len(self.held[each])):
                if (move := self._best_move(giver)) is not None:
                    index, taker = move
                    self.held[taker].append(self.held[giver].pop(index))
                    is_even = False

    def _best_move(self, giver: MemberId) -> tuple[int, MemberId] | None:
        """Return the index of the partition to move, and the least loaded member that can take one.

        None if no move from `giver` helps.
        """
        mine = self.held[giver]
        takers: dict[str, MemberId] = {}
        best: tuple[int, MemberId] | None = None
        best_load, least_load = len(mine) - 1, min(map(len, self.held.values()))
        # The last partition in the list is the one held for the shortest time.
        for index in range(len(mine) - 1, -1, -1):
            if best_load <= least_load:
                # No member has fewer. With thousands of partitions, a look at each of them for each
                # move would keep the leader from its heartbeats.
                break
            topic = mine[index].topic
            if topic not in takers:
                takers[topic] = self.least_loaded(self._readers[topic])
            taker = takers[topic]
            if len(self.held[taker]) < best_load:
                best, best_load = (index, taker), len(self.held[taker])
        return best


def _valid_owners(
    partition_counts: PartitionCounts,
    readers: Mapping[str, tuple[MemberId, ...]],
    claims: Mapping[MemberId, Claim],
) -> dict[TopicPartition, MemberId]:
    """Return the owners by partition: the newest claim wins, equally new ones cancel out."""
    best: dict[TopicPartition, tuple[int, MemberId | None]] = {}
    for member, (generation, partitions) in claims.items():
        for partition in partitions:
            exists = partition.partition < partition_counts.get(partition.topic, 0)
            if not exists or member not in readers.get(partition.topic, ()):
                continue
            other_generation, _ = best.get(partition, (NO_GENERATION - 1, None))
            if generation > other_generation:
                best[partition] = (generation, member)
            elif generation == other_generation:
                best[partition] = (generation, None)
    return {partition: member for partition, (_, member) in best.items() if member is not None}


def _reported_claim(member: Subscription) -> Claim:
    """Return the claim in the user data of an eager member; empty if it cannot be decoded."""
    for version in (USER_DATA_VERSION, 0):
        try:
            report = decode(StickyAssignorUserData, member.user_data or b"", version)
        except DecodeError:
            continue
        return report.generation, flatten(report.previous_assignment)
    return NO_GENERATION, ()


def _owned_claim(member: Subscription) -> Claim:
    generation = member.generation
    data = member.user_data
    if generation == NO_GENERATION and data is not None and len(data) == _GENERATION.size:
        (generation,) = _GENERATION.unpack(data)
    return generation, member.owned
