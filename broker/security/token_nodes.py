"""Keeps the delegation tokens equal to their znodes, and changes them (edge).

The znodes are authoritative, and Kafka brokers share them. Invariants: reads and changes happen one
after the other, so an older read never replaces a newer one; after a lost session or a refused read
everything is read again, because notifications expire. A malformed znode is no token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from broker.cluster.controller_role import ControllerRole
from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.node_watch import NodeWatch
from broker.cluster.notified_reads import NotifiedReads
from broker.config.token_keys import TokenKeys
from broker.scheduler import PeriodicTask
from broker.security.delegation_tokens import DelegationTokens, TokenLifetimes, is_expired
from clusterstate.change_notifications import NO_CHANGE
from clusterstate.errors import MalformedZnodeError
from clusterstate.token_requests import (
    Change,
    change_token,
    create_token_nodes,
    read_token_ids,
    read_tokens,
    take_token_changes,
)
from clusterstate.znodes.delegation_token import CHANGES, DelegationToken
from coordination.errors import OperationError
from kafkawire.errors import ApiError, ErrorCode

log = structlog.get_logger(__name__)


class TokenNodes:
    """Call `load` once, then `listen`, then `stop`."""

    def __init__(
        self, config: TokenKeys, session: CoordinatorSession, now_ms: Callable[[], int]
    ) -> None:
        self.tokens = DelegationTokens(config.delegation_token_secret_key.encode())
        self.lifetimes = TokenLifetimes(
            max_ms=config.delegation_token_max_lifetime_ms,
            renewal_ms=config.delegation_token_expiry_time_ms,
        )
        self.now_ms = now_ms
        self._check_interval_ms = config.delegation_token_expiry_check_interval_ms
        self._session = session
        self._last_number = NO_CHANGE
        self._reads = NotifiedReads(session)
        self._watch = NodeWatch(session, CHANGES, self._handle_notifications)

    async def load(self) -> None:
        """Read all tokens."""
        await self._session.run(create_token_nodes())
        async with self._reads.begin():
            await self._read_all()

    def listen(self) -> None:
        """Follow all changes from now on."""
        self._watch.start()

    async def stop(self) -> None:
        """Stop following changes."""
        await self._watch.stop()

    async def change(self, token_id: str, change: Change) -> DelegationToken | None:
        """Replace a token by the result of `change`, which may run repeatedly.

        This broker knows the new token when this returns; others will soon.

        Raises:
            ApiError: from `change`, or the coordinator does not respond.
        """
        try:
            async with self._reads.lock:
                token = await self._session.run(change_token(token_id, change))
                self.tokens.set(token_id, token)
                return token
        except (OperationError, MalformedZnodeError) as error:
            text = f"the coordinator did not respond: {error}"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, text) from error

    def expiry_task(self, controller: ControllerRole) -> PeriodicTask:
        """Return the task that deletes expired tokens while this broker is the controller."""

        async def run() -> None:
            if controller.is_active:
                await self.delete_expired()

        period_ms = self._check_interval_ms
        return PeriodicTask("delete-expired-tokens", run, period_ms=period_ms, runs_in_loop=True)

    async def delete_expired(self) -> None:
        """Delete the expired tokens of all brokers."""
        for token_id in self.tokens.expired(self.now_ms()):
            try:
                await self.change(token_id, self._without_expired)
            except ApiError as error:
                log.warning("token.not_deleted", token_id=token_id, error=error.message)
                return
            log.info("token.expired", token_id=token_id)

    def _without_expired(self, token: DelegationToken | None) -> DelegationToken | None:
        # Another broker may have renewed it.
        return token if token is not None and not is_expired(token, self.now_ms()) else None

    async def _handle_notifications(self) -> None:
        async with self._reads.begin() as reads_all:
            if reads_all:
                await self._read_all()
            else:
                await self._read_changes()

    async def _read_changes(self) -> None:
        taken = await self._session.run(take_token_changes(self._last_number, self.now_ms()))
        await self._read(taken.announced)
        self._last_number = taken.last_number

    async def _read_all(self) -> None:
        # This sets the watch, so every later change is announced to this broker.
        taken = await self._session.run(take_token_changes(self._last_number, self.now_ms()))
        token_ids = await self._session.run(read_token_ids())
        for gone in self.tokens.by_id.keys() - set(token_ids):
            self.tokens.set(gone, None)
        await self._read(token_ids)
        self._last_number = taken.last_number
        log.info("tokens.loaded", token_count=len(self.tokens.by_id))

    async def _read(self, token_ids: Sequence[str]) -> None:
        for token_id, found in (await self._session.run(read_tokens(token_ids))).items():
            if isinstance(found, str):
                log.error("token.not_read", token_id=token_id, error=found)
                found = None
            self.tokens.set(token_id, found)
