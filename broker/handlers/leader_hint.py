"""Leaders and their addresses in responses that refuse batches (decision).

A client that learns the new leader from the refusal need not ask for metadata first.

Source: KIP-951.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.cluster.metadata_cache import MetadataCache
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch
from kafkawire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)
from kafkawire.schema import since

LEADERS_SINCE: Final = since(PartitionProduceResponse, "current_leader")


class LeaderHints:
    """Names the leaders of partitions that another broker leads."""

    def __init__(
        self,
        leader_of: Callable[[tuple[str, int]], tuple[BrokerId, LeaderEpoch]],
        metadata: MetadataCache,
    ) -> None:
        """Take leaders from `leader_of`, and addresses from `metadata`."""
        self._leader_of = leader_of
        self._metadata = metadata

    def add(self, response: ProduceResponse, listener_name: str) -> None:
        """Complete the refusals in `response` for a client of one listener."""
        nodes: dict[BrokerId, NodeEndpoint] = {}
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    leader, epoch = self._leader_of((topic.name, answer.index))
                    answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
                    if leader not in nodes and (node := self._node(leader, listener_name)):
                        nodes[leader] = node
        response.node_endpoints = list(nodes.values())

    def _node(self, leader: BrokerId, listener_name: str) -> NodeEndpoint | None:
        """Return the address of a broker, None if it is dead or has no such listener."""
        broker = self._metadata.image.brokers.get(leader)
        endpoint = None if broker is None else broker.endpoints.get(listener_name)
        if broker is None or endpoint is None:
            return None
        return NodeEndpoint(
            node_id=leader, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
