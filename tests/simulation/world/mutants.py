"""Planted bugs: each breaks one rule of the product, and the simulated worlds must detect it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from broker.groups.offsets import GroupOffsets
from broker.replication import fetcher
from broker.replication.leadership import Leadership
from broker.replication.replica import ReadResult, Replica
from broker.replication.replica_manager import ReplicaManager
from coordination.client.watch_registry import WatchRegistry
from coordination.server.state import service
from coordination.server.state.txns import CloseTxn
from kafkawire.ids import Offset
from ottla.client.consumer.group.forgetful_assignor import RangeAssignor
from storage.producers.producer_state import ProducerState
from tests.simulation.cluster import mutants as decisions

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledged_at_once(patch: pytest.MonkeyPatch) -> None:
    """A leader acknowledges records with acks=all before its followers have them."""
    patch.setattr(ReplicaManager, "is_committed", lambda *_: True)


def watermark_without_followers(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is the end of the leader's log."""

    def advance(leadership: Leadership, _now_ms: int) -> None:
        leadership.high_watermark = leadership.log_end_offset

    patch.setattr(Leadership, "_advance", advance)


def uncommitted_reads(patch: pytest.MonkeyPatch) -> None:
    """Consumers read records above the high watermark."""
    real = Replica.read

    def read(replica: Replica, *args: Any, **options: Any) -> ReadResult:
        return real(replica, *args, **options | {"only_committed": False})

    patch.setattr(Replica, "read", read)


def kept_records(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps records that its leader does not have."""

    def keep(_history: object, end: Offset, *_: object) -> Offset:
        return end

    patch.setattr(fetcher, "truncation_offset", keep)


def repeated_batches(patch: pytest.MonkeyPatch) -> None:
    """A leader appends a batch again that a producer has sent twice."""
    patch.setattr(ProducerState, "find_duplicate", lambda *_: None)


def forgotten_offsets(patch: pytest.MonkeyPatch) -> None:
    """A new group coordinator does not load the committed offsets."""
    patch.setattr(GroupOffsets, "restore", lambda *_: None)


def shared_partitions(patch: pytest.MonkeyPatch) -> None:
    """The leader of a group assigns all partitions to every member."""
    real = RangeAssignor.assign

    def assign(self: RangeAssignor, members: Any, counts: Any) -> Any:
        found = real(self, members, counts)
        every = [each for owned in found.values() for each in owned]
        return dict.fromkeys(found, every)

    patch.setattr(RangeAssignor, "assign", assign)


def immortal_ephemerals(patch: pytest.MonkeyPatch) -> None:
    """The ephemeral nodes of a session survive it."""

    def end(self: service.Service, session_id: int, *, cxid: int, wall_ms: int) -> None:
        self._log(session_id, cxid, wall_ms, CloseTxn(()))
        self.state.timeouts_ms.pop(session_id, None)
        self.sessions.remove(session_id)

    patch.setattr(service.Service, "close_session", end)


def unarmed_watches(patch: pytest.MonkeyPatch) -> None:
    """A client does not set its watches again after it has lost its connection."""
    patch.setattr(WatchRegistry, "rearm", lambda *_: iter(()))


def lost_events(patch: pytest.MonkeyPatch) -> None:
    """The coordinator does not compare the watches of a new connection with its tree."""
    patch.setattr(service.Service, "_rearm", lambda *_: None)


MUTANTS: Mapping[str, Plant] = {
    plant.__name__: plant
    for plant in (
        acknowledged_at_once,
        watermark_without_followers,
        uncommitted_reads,
        kept_records,
        shared_partitions,
        repeated_batches,
        forgotten_offsets,
        immortal_ephemerals,
        unarmed_watches,
        lost_events,
        decisions.same_epoch,
        decisions.any_live_leader,
    )
}
