"""Keeps the authorizer equal to the access control lists in the coordinator (edge).

The znodes are authoritative, and Kafka brokers share them. Each change is announced by a
notification; a broker reads the announced pattern again as a whole. Invariants: the authorizer
knows all entries before the first request is served; reads and changes happen one after the other,
so an older read never replaces a newer one; after a lost session or a refused read everything is
read again, because notifications expire. A malformed znode changes nothing: the entries known
before stay in force.

Source: kafka.security.authorizer.AclAuthorizer of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.node_watch import NodeWatch
from broker.cluster.notified_reads import NotifiedReads
from broker.errors import StartupError
from broker.security.authorizer import Authorizer
from clusterstate.acl_requests import (
    Entries,
    change_acls,
    create_acl_nodes,
    read_acls,
    read_patterns,
    take_acl_changes,
)
from clusterstate.change_notifications import NO_CHANGE
from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.acl_entries import PATTERN_TYPES, changes_path
from coordination.errors import OperationError
from kafkawire.acl import PatternType, ResourcePattern
from kafkawire.errors import ApiError, ErrorCode

log = structlog.get_logger(__name__)


class AclNodes:
    """Call `load` once, then `listen`, then `stop`."""

    def __init__(
        self, session: CoordinatorSession, authorizer: Authorizer, now_ms: Callable[[], int]
    ) -> None:
        self._session = session
        self._authorizer = authorizer
        self._now_ms = now_ms
        self._last_numbers: Mapping[PatternType, int] = dict.fromkeys(PATTERN_TYPES, NO_CHANGE)
        self._reads = NotifiedReads(session)
        self._watches = [
            NodeWatch(session, changes_path(kind), self._handle_notifications)
            for kind in PATTERN_TYPES
        ]

    async def load(self) -> None:
        """Read all entries.

        Raises:
            StartupError: a znode does not hold entries.
        """
        await self._session.run(create_acl_nodes())
        async with self._reads.begin():
            malformed = await self._read_all()
        if malformed:
            raise StartupError(f"access control lists cannot be read: {min(malformed.values())}")

    def listen(self) -> None:
        """Follow all changes from now on."""
        for watch in self._watches:
            watch.start()

    async def stop(self) -> None:
        """Stop following changes."""
        for watch in self._watches:
            await watch.stop()

    async def change(self, pattern: ResourcePattern, change: Callable[[Entries], Entries]) -> None:
        """Replace the entries of a pattern by the result of `change`, which may run repeatedly.

        This broker obeys the new entries when this returns; others will soon.

        Raises:
            ApiError: the entries do not fit, or the coordinator does not respond.
        """
        try:
            async with self._reads.lock:
                entries = await self._session.run(change_acls(pattern, change))
                self._set(pattern, entries)
        except (OperationError, MalformedZnodeError) as error:
            text = f"the coordinator did not respond: {error}"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, text) from error

    async def _handle_notifications(self) -> None:
        async with self._reads.begin() as reads_all:
            if reads_all:
                await self._read_all()
            else:
                await self._read_changes()

    async def _read_changes(self) -> None:
        taken = await self._session.run(take_acl_changes(self._last_numbers, self._now_ms()))
        await self._read([each for changes in taken.values() for each in changes.announced])
        self._last_numbers = {kind: changes.last_number for kind, changes in taken.items()}

    async def _read_all(self) -> Mapping[ResourcePattern, str]:
        """Read every pattern; return the malformed ones with a reason."""
        # This sets the watches, so every later change is announced to this broker.
        taken = await self._session.run(take_acl_changes(self._last_numbers, self._now_ms()))
        patterns = await self._session.run(read_patterns())
        for gone in self._authorizer.acls.entries.keys() - set(patterns):
            self._set(gone, frozenset())
        malformed = await self._read(patterns)
        self._last_numbers = {kind: changes.last_number for kind, changes in taken.items()}
        log.info("acls.loaded", pattern_count=len(patterns))
        return malformed

    async def _read(self, patterns: Sequence[ResourcePattern]) -> Mapping[ResourcePattern, str]:
        found = await self._session.run(read_acls(patterns))
        for pattern, entries in found.entries.items():
            self._set(pattern, entries)
        for pattern, reason in found.malformed.items():
            log.error("acls.not_read", pattern=str(pattern), error=reason)
        return found.malformed

    def _set(self, pattern: ResourcePattern, entries: Entries) -> None:
        if self._authorizer.acls.get(pattern) != entries:
            self._authorizer.set(pattern, entries)
            log.debug("acls.changed", pattern=str(pattern), entry_count=len(entries))
