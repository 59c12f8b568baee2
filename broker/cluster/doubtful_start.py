"""Start of a broker whose logs may lack records: it leaves the in-sync sets first (edge)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from broker.cluster.coordinator_session import (
    REGISTRATION_WAIT_S,
    CoordinatorSession,
    registered_already,
)
from broker.errors import StartupError
from clusterstate.doubtful_replicas import Standing, assigned_partitions, look
from coordination.errors import SessionExpiredError
from kafkawire.ids import BrokerId, TopicPartition
from storage.directory.logs import Logs

LOOK_INTERVAL_S: Final = 0.1
LOOKS_FOR_OWN_ID: Final = round(REGISTRATION_WAIT_S / LOOK_INTERVAL_S)
LOOKS_FOR_MEMBERS: Final = 200
"""Looks, while the coordinator responds, in which a better member of a set may return."""
LOOKS_PER_REPORT: Final = 100
MAX_NAMED: Final = 20
"""Maximum of partitions named in a log event, beside their total count."""

log = structlog.get_logger(__name__)


async def leave_in_sync_sets(
    session: CoordinatorSession, broker_id: BrokerId, logs: Logs
) -> list[TopicPartition]:
    """Wait until no in-sync set relies on this broker for a log that may lack records.

    Must be called before the registration. The wait ends when the controller has removed this
    broker from the sets. It stays in a set without a better member, or if none returns. The result
    names the partitions with doubtful logs whose sets do not contain this broker.

    Raises:
        StartupError: another process has registered this broker's id.
    """
    partitions: Iterable[TopicPartition] | None = None
    left: set[TopicPartition] = set()
    look_count = own_id_count = member_count = 0
    while True:
        try:
            if partitions is None:
                partitions = await session.run(assigned_partitions(broker_id))
            doubtful = [each for each in partitions if not logs.is_complete(each)]
            lost = {each for each in doubtful if logs.get(each) is None}
            found = await session.run(look(broker_id, doubtful, lost))
        except SessionExpiredError:
            await session.renew()
            continue
        left.update(found.partitions(Standing.OUT))
        leaving = found.partitions(Standing.LEAVES)
        awaiting = found.partitions(Standing.AWAITS_MEMBERS)
        own_id_count += found.is_id_taken
        member_count += bool(awaiting)
        if own_id_count > LOOKS_FOR_OWN_ID:
            raise StartupError(registered_already(broker_id))
        is_patient = bool(awaiting) and member_count <= LOOKS_FOR_MEMBERS
        if not (leaving or is_patient or found.is_id_taken):
            _report_kept(sorted(found.standings.keys() - left))
            return sorted(left)
        if (leaving or awaiting) and look_count % LOOKS_PER_REPORT == 0:
            log.warning(
                "in_sync_sets.leaving",
                log_dirs=[str(path) for path in logs.doubtful_paths],
                partition_count=len(leaving),
                partitions=_texts(leaving),
                awaiting_members=_texts(awaiting),
            )
        look_count += 1
        partitions = sorted(found.standings.keys() - left)
        await asyncio.sleep(LOOK_INTERVAL_S)


def _report_kept(kept: list[TopicPartition]) -> None:
    if kept:
        # If this broker leads one of them, the other replicas truncate to its log.
        log.warning("in_sync_sets.kept", partition_count=len(kept), partitions=_texts(kept))


def _texts(partitions: list[TopicPartition]) -> list[str]:
    return [str(each) for each in partitions[:MAX_NAMED]]
