"""This broker's session with the coordinator, and its registration under it (edge).

The registration is an ephemeral node, which ends with the session. The number of the transaction
that created it is the broker epoch. When a session expires while this broker lives, it begins
another one and registers again, with a larger epoch. Invariant: no work of the controller component
from before an expiry continues after it, and every watcher is notified to read again. Partitions
keep their leaders: a deposed leader cannot commit, because its changes of in-sync sets are refused.

The session's id and password are kept in a file (`coordination.client.session_file`) of a log dir
that this process has locked. Its supervisor, or its next start, can end the session as soon as the
lock is free, which proves that this process is dead.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import structlog

from broker.cluster.coordinator_security import CoordinatorSecurity
from broker.errors import StartupError
from clusterstate.broker_registration import Sessions, Taken, create_top_nodes, register
from clusterstate.coordinator_edge import CoordinatorEdge
from clusterstate.errors import RegistrationError
from clusterstate.plans import Plan, read
from clusterstate.znodes import paths
from clusterstate.znodes.access import secure_acl
from coordination.client import Client, SessionState, WatchEvent, session_file
from coordination.client.patterns import end_dead_session, retry_read
from coordination.errors import ConnectionLossError, SessionExpiredError
from kafkawire.ids import BrokerId

SESSION_FILE: Final = "coordinator-session"
"""In the first log dir that can be used."""
RECONNECT_BACKOFF_S: Final = 1.0
LONGEST_SILENCE_S: Final = 3.0
"""Time without an answer after which a stop no longer waits for the coordinator.

An answer takes milliseconds, and the connection to a coordinator that is gone may seem open for two
thirds of the session timeout.
"""
ANSWER_PAUSE_S: Final = 0.5
REGISTRATION_WAIT_S: Final = 1.0
"""Longest wait of a start for a registration with its id to vanish.

Ottla's coordinator ends the session of a killed process within a quarter of this time.
"""
REGISTRATION_RETRY_S: Final = 0.05

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Candidate(Protocol):
    """The controller component, as far as the end of a session concerns it."""

    async def expire(self) -> None:
        """Cease to be the controller."""

    def reelect(self) -> None:
        """Stand for election again."""


class CoordinatorSession:
    """Begins sessions, registers, and registers again when a session is lost."""

    def __init__(
        self,
        connect_string: str,
        session_file: Path,
        *,
        timeout_ms: int,
        connect_timeout_ms: int,
        security: CoordinatorSecurity | None = None,
    ) -> None:
        self._security = security or CoordinatorSecurity()
        self.client = Client(
            connect_string,
            session_timeout_ms=timeout_ms,
            session_file_path=session_file,
            has_linger=True,
            tls=self._security.tls,
            login=self._security.login,
        )
        if self._security.has_acl:
            self.client.default_acl = secure_acl
        self.broker_epoch = -1
        self.first_epoch: int | None = None
        """The first `broker_epoch`. Later registrations say with it that this process lives on."""
        self.on_registered: Callable[[int], None] = lambda _epoch: None
        """Called with each new `broker_epoch`, before any request can arrive for it."""
        self.expiration_count = 0
        """Number of sessions that have expired."""
        self._edge = CoordinatorEdge(self.client, self._on_watch)
        self._session_file = session_file
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._own_sessions: set[int] = set()
        """Sessions under which this broker may have registered: their nodes are its own."""
        self._watchers: dict[str, Callable[[], None]] = {}
        self._renewal: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the coordinator at the moment."""
        return self.client.state is SessionState.CONNECTED

    @property
    def is_in_doubt(self) -> bool:
        """Whether the session may have expired, or has, with no new registration yet."""
        if self._renewal is not None and not self._renewal.done():
            return True
        return self.client.state not in (SessionState.CONNECTED, SessionState.SUSPENDED)

    async def open(self) -> None:
        """Begin a session, and create the nodes that every broker expects.

        Raises:
            StartupError: no coordinator responds in time.
        """
        await end_dead_session(
            self._session_file,
            self._connect_timeout_s,
            connect_string=self.client.connect_string,
            tls=self._security.tls,
            login=self._security.login,
        )
        try:
            await self.client.connect(self._connect_timeout_s)
        except ConnectionLossError:
            failure = self.client.failure
            reason = "" if failure is None else f" ({failure})"
            raise StartupError(
                f"no coordinator answers at {self.client.connect_string} within "
                f"{self._connect_timeout_s:g} s{reason}: start it, or correct zookeeper.connect"
            ) from None
        await retry_read(self.client.create_chroot)
        await self.repeat(lambda: self.run(create_top_nodes()))

    async def run(self, plan: Plan[T]) -> T:
        """Run a plan of reads and writes and return its result; waits for a lost connection.

        Raises:
            SessionExpiredError: the session has expired; any part of the plan may have been done.
        """
        return await self._edge.run(plan)

    async def wait_until_silent(self) -> None:
        """Return once the coordinator has not answered a read for `LONGEST_SILENCE_S`.

        A lost connection or session counts as silence until there is another one.
        """
        while True:
            try:
                async with asyncio.timeout(LONGEST_SILENCE_S):
                    await self._wait_for_answer()
            except TimeoutError:
                return
            await asyncio.sleep(ANSWER_PAUSE_S)

    async def _wait_for_answer(self) -> None:
        while True:
            try:
                await self.run(read((paths.CONTROLLER,)))
            except SessionExpiredError:
                await asyncio.sleep(ANSWER_PAUSE_S)
            else:
                return

    def watch(self, path: str, callback: Callable[[], None]) -> None:
        """Call `callback` for each notification about `path`, and after each new session."""
        self._watchers[path] = callback

    async def register(self, broker_id: BrokerId, encode: Callable[[], bytes]) -> None:
        """Register this broker with the cluster, with a new `broker_epoch`.

        Raises:
            StartupError: another broker has the id, or the registration cannot be read.
        """
        give_up_s = math.inf
        while (taken := await self._try_to_register(broker_id, encode())) is not None:
            now_s = asyncio.get_running_loop().time()
            # The wait begins with the first answer, however long the coordinator took for it.
            give_up_s = min(give_up_s, now_s + REGISTRATION_WAIT_S)
            if now_s >= give_up_s:
                raise StartupError(not_registered(broker_id, taken))
            await asyncio.sleep(REGISTRATION_RETRY_S)

    async def repeat(self, step: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a step of the start, which runs again if a session ends within it.

        For steps that only read, or whose writes may be repeated, before the registration.
        """
        while True:
            try:
                return await step()
            except SessionExpiredError:
                await self.renew()

    async def renew(self) -> None:
        """Begin another session after one expired before this broker was registered.

        Opening logs can keep the machine busy for longer than the session timeout.
        """
        log.warning("session.expired", session_id=hex(self.client.session_id))
        await self._reconnect()
        for callback in self._watchers.values():
            callback()

    def keep_registered(
        self,
        broker_id: BrokerId,
        encode: Callable[[], bytes],
        candidate: Candidate,
        on_failure: Callable[[str], None],
    ) -> None:
        """Register again whenever the session is lost, and notify `candidate`."""

        def on_state(state: SessionState) -> None:
            if state is SessionState.EXPIRED and (self._renewal is None or self._renewal.done()):
                renewal = self._renew_registration(broker_id, encode, candidate, on_failure)
                self._renewal = asyncio.create_task(renewal, name="session-return")
                self._renewal.add_done_callback(on_renewed)

        def on_renewed(task: asyncio.Task[None]) -> None:
            if task.cancelled() or (error := task.exception()) is None:
                return
            if isinstance(error, RegistrationError):
                on_failure(str(error))
            else:
                # A bug: without a session this broker cannot serve, so its process must end.
                on_failure(f"the session was not renewed: {error!r}")

        self.client.on_state_change(on_state)

    async def close(self) -> None:
        """End the session, and with it the registration.

        The session file stays if the coordinator has not confirmed the end in time, for the next
        start. It ends the session once it receives the request.
        """
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        if await self.client.close(LONGEST_SILENCE_S):
            await session_file.remove(self._session_file)

    async def _renew_registration(
        self,
        broker_id: BrokerId,
        encode: Callable[[], bytes],
        candidate: Candidate,
        on_failure: Callable[[str], None],
    ) -> None:
        while True:
            self.expiration_count += 1
            log.warning("session.expired", session_id=hex(self.client.session_id))
            await candidate.expire()
            await self._reconnect()
            try:
                taken = await self._try_to_register(broker_id, encode())
            except SessionExpiredError:
                # This session has expired, too: try again.
                continue
            if taken is not None:
                on_failure(not_registered(broker_id, taken))
                return
            if self.client.state is not SessionState.EXPIRED:
                break
        for callback in self._watchers.values():
            callback()
        candidate.reelect()

    async def _reconnect(self) -> None:
        """Begin a session, and retry until that succeeds."""
        while True:
            try:
                await self.client.connect(self._connect_timeout_s)
            except ConnectionLossError:
                reason = self.client.failure or "no server answers"
                log.warning("coordinator.not_reached", error=reason)
                await asyncio.sleep(RECONNECT_BACKOFF_S)
            else:
                return

    async def _try_to_register(self, broker_id: BrokerId, data: bytes) -> Taken | None:
        """Return None once this broker is registered."""
        current = self.client.session_id
        self._own_sessions.add(current)
        result = await self.run(register(broker_id, data, Sessions(current, self._own_sessions)))
        if isinstance(result, Taken):
            return result
        # The node belongs to this session, so no node of an earlier session is left.
        self._own_sessions = {current}
        self.broker_epoch = result.broker_epoch
        if self.first_epoch is None:
            self.first_epoch = result.broker_epoch
        self.on_registered(result.broker_epoch)
        log.info("broker.registered", broker_id=broker_id, broker_epoch=result.broker_epoch)
        return None

    def _on_watch(self, fired: WatchEvent) -> None:
        callback = self._watchers.get(fired.path)
        if callback is not None:
            callback()


def registered_already(broker_id: BrokerId) -> str:
    """Return the message for a broker id that another process has."""
    return (
        f"broker {broker_id} is registered already, by another process: change the broker.id of "
        "this one, or stop the other"
    )


def not_registered(broker_id: BrokerId, taken: Taken) -> str:
    """Return the message for a broker that could not register."""
    if taken.owner is not None:
        return registered_already(broker_id)
    path = paths.broker(broker_id)
    return (
        f"this broker may not read {path}, so it cannot tell whether another process is registered "
        f"there: correct the access control list of {path}, or the broker's login"
    )
