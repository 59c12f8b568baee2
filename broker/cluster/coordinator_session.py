"""This broker's session with the coordinator, and its registration under it (edge).

The registration is an ephemeral node, which goes with the session; the number of the transaction
that created it is the broker epoch. When a session is over, although this broker lives, it begins
another and registers anew, under a larger epoch. Invariant: nothing of the controller component's
old reign goes on when that happens, and everybody who watched hears that it must look again.

The session's id and password are kept in a file (`coordination.client.session_file`) of a log dir
that this process has locked. Its supervisor, or its next start, can end the session as soon as the
lock is free, which proves that this process is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import structlog

from broker.errors import StartupError
from controller.broker_registration import (
    Registered,
    Sessions,
    create_top_nodes,
    register,
)
from controller.coordinator_edge import CoordinatorEdge
from controller.effects import Plan
from coordination.client import Client, SessionState, WatchEvent
from coordination.client.patterns import end_dead_session, retry_read
from coordination.errors import ConnectionLossError, SessionExpiredError
from kafkawire.ids import BrokerId

SESSION_FILE: Final = "coordinator-session"
"""In the first log dir that can be used."""
RECONNECT_BACKOFF_S: Final = 1.0
REGISTRATION_WAIT_S: Final = 1.0
"""How long a start waits for a registration under its id to vanish: a coordinator of ours ends the
session of a process that died without a trace within a quarter of this."""
REGISTRATION_RETRY_S: Final = 0.05

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Candidate(Protocol):
    """The controller component, as the end of a session concerns it."""

    async def expire(self) -> None:
        """Cease to be controller."""

    def reelect(self) -> None:
        """Stand for election again."""


class CoordinatorSession:
    """Begins sessions, registers, and comes back when a session is lost."""

    def __init__(
        self, connect_string: str, session_file: Path, *, timeout_ms: int, connect_timeout_ms: int
    ) -> None:
        self.client = Client(
            connect_string,
            session_timeout_ms=timeout_ms,
            session_file_path=session_file,
            has_linger=True,
        )
        self.broker_epoch = -1
        self.on_registered: Callable[[int], None] = lambda _epoch: None
        """Called with each new `broker_epoch`, before anybody can ask for anything under it."""
        self._edge = CoordinatorEdge(self.client, self._on_watch)
        self._session_file = session_file
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._own_sessions: set[int] = set()
        """Sessions under which this broker may have registered: a node of theirs is its own."""
        self._watchers: dict[str, Callable[[], None]] = {}
        self._returning: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the coordinator answers at the moment."""
        return self.client.state is SessionState.CONNECTED

    @property
    def is_in_doubt(self) -> bool:
        """Whether the session may be over, or is, and no other is registered yet."""
        if self._returning is not None and not self._returning.done():
            return True
        return self.client.state not in (SessionState.CONNECTED, SessionState.SUSPENDED)

    async def open(self) -> None:
        """Begin a session, and create the nodes that every broker expects.

        Raises:
            StartupError: no coordinator answers in time.
        """
        await end_dead_session(
            self._session_file, self._connect_timeout_s, connect_string=self.client.connect_string
        )
        try:
            await self.client.connect(self._connect_timeout_s)
        except ConnectionLossError:
            raise StartupError(
                f"no coordinator answers at {self.client.connect_string} within "
                f"{self._connect_timeout_s:g} s: start it, or correct zookeeper.connect"
            ) from None
        await retry_read(self.client.create_chroot)
        await self.run(create_top_nodes())

    async def run(self, plan: Plan[T]) -> T:
        """Perform a plan of reads and writes and return its result; waits for a lost connection.

        Raises:
            SessionExpiredError: the session ended meanwhile; what was done is not known.
        """
        return await self._edge.run(plan)

    def watch(self, path: str, callback: Callable[[], None]) -> None:
        """Have `callback` called for each notice about `path`, and after each new session."""
        self._watchers[path] = callback

    async def register(self, broker_id: BrokerId, encode: Callable[[], bytes]) -> None:
        """Make this broker known to the cluster, under a new `broker_epoch`.

        Raises:
            StartupError: another broker has the id.
        """
        try:
            async with asyncio.timeout(REGISTRATION_WAIT_S):
                while True:
                    if await self._try_to_register(broker_id, encode()):
                        return
                    await asyncio.sleep(REGISTRATION_RETRY_S)
        except TimeoutError:
            raise StartupError(_taken(broker_id)) from None

    async def renew(self) -> None:
        """Begin another session in place of one that ended before this broker was registered.

        Opening logs can take all of the machine for longer than a session lasts.
        """
        log.warning("session.expired", session_id=hex(self.client.session_id))
        await self._begin_again()
        for callback in self._watchers.values():
            callback()

    def keep_registered(
        self,
        broker_id: BrokerId,
        encode: Callable[[], bytes],
        candidate: Candidate,
        on_failure: Callable[[str], None],
    ) -> None:
        """From now on, register again whenever the session is lost, and let `candidate` know."""

        def on_state(state: SessionState) -> None:
            if state is SessionState.EXPIRED and (
                self._returning is None or self._returning.done()
            ):
                returning = self._return(broker_id, encode, candidate, on_failure)
                self._returning = asyncio.create_task(returning, name="session-return")
                self._returning.add_done_callback(on_returned)

        def on_returned(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                # A bug: without a session this broker serves nobody, so its process must end.
                on_failure(f"the session was not renewed: {error!r}")

        self.client.on_state_change(on_state)

    async def close(self) -> None:
        """End the session; the registration goes with it.

        What could not be ended stays in the session file, for the next start.
        """
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.gather(self._returning, return_exceptions=True)
        if await self.client.close():
            self._session_file.unlink(missing_ok=True)

    async def _return(
        self,
        broker_id: BrokerId,
        encode: Callable[[], bytes],
        candidate: Candidate,
        on_failure: Callable[[str], None],
    ) -> None:
        while True:
            log.warning("session.expired", session_id=hex(self.client.session_id))
            await candidate.expire()
            await self._begin_again()
            try:
                is_registered = await self._try_to_register(broker_id, encode())
            except SessionExpiredError:
                # This session is over, too: once more.
                continue
            if not is_registered:
                on_failure(_taken(broker_id))
                return
            if self.client.state is not SessionState.EXPIRED:
                break
        for callback in self._watchers.values():
            callback()
        candidate.reelect()

    async def _begin_again(self) -> None:
        """Begin a session, as long as that takes."""
        while True:
            try:
                await self.client.connect(self._connect_timeout_s)
            except ConnectionLossError:
                await asyncio.sleep(RECONNECT_BACKOFF_S)
            else:
                return

    async def _try_to_register(self, broker_id: BrokerId, data: bytes) -> bool:
        current = self.client.session_id
        self._own_sessions.add(current)
        result = await self.run(register(broker_id, data, Sessions(current, self._own_sessions)))
        if not isinstance(result, Registered):
            return False
        # The node is this session's: none of an earlier one is left.
        self._own_sessions = {current}
        self.broker_epoch = result.broker_epoch
        self.on_registered(result.broker_epoch)
        log.info("broker.registered", broker_id=broker_id, broker_epoch=result.broker_epoch)
        return True

    def _on_watch(self, fired: WatchEvent) -> None:
        callback = self._watchers.get(fired.path)
        if callback is not None:
            callback()


def _taken(broker_id: BrokerId) -> str:
    return (
        f"broker {broker_id} is registered already, by another process: give this one another "
        "broker.id, or stop the other"
    )
