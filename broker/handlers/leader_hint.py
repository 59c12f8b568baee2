"""Leaders and their addresses in responses of brokers that do not lead (decision).

A client that learns the new leader from the refusal need not ask for metadata first.

Source: KIP-951.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

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

Node = TypeVar("Node")

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
        leaders: dict[BrokerId, None] = {}
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    leader, epoch = self._leader_of((topic.name, answer.index))
                    answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
                    leaders[leader] = None
        response.node_endpoints = self.nodes(leaders, listener_name, NodeEndpoint)

    def nodes(
        self, leaders: Iterable[BrokerId], listener_name: str, node_type: Callable[..., Node]
    ) -> list[Node]:
        """Return the addresses of brokers, apart from dead ones and ones without the listener."""
        brokers = self._metadata.image.brokers
        return [
            node_type(node_id=leader, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for leader in leaders
            if (broker := brokers.get(leader)) is not None
            and (endpoint := broker.endpoints.get(listener_name)) is not None
        ]
