"""Selects the replica from which a consumer reads (decision), KIP-392.

Source: org.apache.kafka.common.replica.RackAwareReplicaSelector of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.ids import BrokerId, Offset


class Candidate(NamedTuple):
    """An in-sync follower on a live broker, as the leader knows it."""

    broker_id: BrokerId
    rack: str | None
    log_start_offset: Offset
    log_end_offset: Offset


def closer_replica(
    client_rack: str, leader_rack: str | None, offset: int, followers: Iterable[Candidate]
) -> BrokerId | None:
    """Return the follower in the client's rack that has most records; None for the leader.

    A follower that lacks `offset` is left out.
    """
    if not client_rack or leader_rack == client_rack:
        return None
    closest = [
        each
        for each in followers
        if each.rack == client_rack and each.log_start_offset <= offset <= each.log_end_offset
    ]
    if not closest:
        return None
    return max(closest, key=lambda each: (each.log_end_offset, -each.broker_id)).broker_id
