"""In-sync sets with a broker whose logs may lack acknowledged records (decision).

If such a broker led, the other replicas would truncate to its log. It therefore registers only
after the controller has removed it from these sets, as it does with every broker that is not
registered. If all members of a set are down at once, there is no such controller. The broker then
waits for a member to return, but not for one that announces that it waits for the same reason.
"""

from collections.abc import Iterable, Mapping, Set
from enum import Enum, auto
from typing import NamedTuple

from clusterstate.errors import MalformedZnodeError
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Create, Node, Plan, list_children, read, write
from clusterstate.znodes import paths
from clusterstate.znodes.partition_node import decode_partition_state
from clusterstate.znodes.topic import decode_topic
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.sentinels import NO_LEADER


class Standing(Enum):
    """Relation of an unregistered broker with doubtful logs to an in-sync set."""

    OUT = auto()
    """Not a member."""
    LEAVES = auto()
    """The controller is about to remove it."""
    AWAITS_MEMBERS = auto()
    """A complete member may return, and then lead."""
    STAYS = auto()
    """No other member is better."""


class Look(NamedTuple):
    """The standings in the sets that could be read, and whether the broker's id is registered."""

    standings: Mapping[TopicPartition, Standing]
    is_id_taken: bool

    def partitions(self, standing: Standing) -> list[TopicPartition]:
        """Return the partitions with a standing, in order."""
        return sorted(one for one, each in self.standings.items() if each is standing)


def standing(
    broker_id: BrokerId,
    state: LeaderAndIsr,
    *,
    registered: Set[BrokerId],
    announced: Set[BrokerId],
    has_log: bool,
) -> Standing:
    """Return the standing of an unregistered broker; `has_log` false means that its log is gone.

    `announced` are the brokers with doubtful logs of their own. Even they are better than none.
    """
    if broker_id not in state.isr:
        return Standing.OUT
    others = set(state.isr) - {broker_id}
    if state.leader != NO_LEADER and others & registered:
        return Standing.LEAVES
    # Without a leader, the registered members cannot lead at present: their log dirs have failed.
    awaited = others - (announced - registered if has_log else frozenset())
    return Standing.AWAITS_MEMBERS if awaited else Standing.STAYS


def assigned_partitions(broker_id: BrokerId) -> Plan[list[TopicPartition]]:
    """Return the partitions with a replica on a broker, except for topics that are malformed."""
    topics = yield from list_children(paths.TOPICS)
    nodes = yield from read([paths.topic(topic) for topic in topics])
    found: list[TopicPartition] = []
    for topic, node in zip(topics, nodes, strict=True):
        try:
            partitions = decode_topic(node.data if node else None).partitions
        except MalformedZnodeError:
            continue
        found += [
            TopicPartition(topic, number)
            for number, assignment in partitions.items()
            if broker_id in assignment.replicas
        ]
    return sorted(found)


def look(
    broker_id: BrokerId, partitions: Iterable[TopicPartition], lost: Set[TopicPartition]
) -> Plan[Look]:
    """Return the standings, and announce the broker if it has to wait.

    `lost` are the partitions without a log. Topics that are being deleted do not count: their
    deletion may wait for this broker.
    """
    registered = _ids((yield from list_children(paths.BROKER_IDS)))
    announced = _ids((yield from list_children(paths.DOUBTFUL_BROKERS)))
    deleted = set((yield from list_children(paths.DELETE_TOPICS)))
    looked_at = [one for one in partitions if one.topic not in deleted]
    nodes = yield from read([paths.partition_state(one) for one in looked_at])
    standings: dict[TopicPartition, Standing] = {}
    for partition, node in zip(looked_at, nodes, strict=True):
        state = _state(node)
        if state is None:
            continue
        standings[partition] = standing(
            broker_id,
            state,
            registered=registered,
            announced=announced,
            has_log=partition not in lost,
        )
    has_to_wait = not {Standing.OUT, Standing.STAYS}.issuperset(standings.values())
    if has_to_wait and broker_id not in announced:
        own = Create(paths.doubtful_broker(broker_id), None, ephemeral=True)
        yield from write([(Create(paths.DOUBTFUL_BROKERS, None),), (own,)])
    return Look(standings, broker_id in registered)


def _ids(names: Iterable[str]) -> frozenset[BrokerId]:
    return frozenset(BrokerId(int(name)) for name in names if name.isdecimal())


def _state(node: Node | None) -> LeaderAndIsr | None:
    try:
        return None if node is None else decode_partition_state(node.data, node.version)
    except MalformedZnodeError:
        return None
