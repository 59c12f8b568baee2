"""The registrations of brokers, as the supervisor of a cluster watches them."""

import asyncio
from collections.abc import Callable

import pytest

from broker.cluster.coordinator_security import CoordinatorSecurity
from coordination.client import SessionState
from coordination.errors import ErrorCode, SessionExpiredError
from ottla.cli.up import broker_registrations
from ottla.cli.up.broker_registrations import BrokerRegistrations
from tests.waiting import until


class FakeClient:
    """A client of a coordinator whose session can expire."""

    def __init__(self) -> None:
        self.state = SessionState.DISCONNECTED
        self.names: list[str] = []
        self._listeners: list[Callable[[SessionState], None]] = []

    def on_state_change(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    async def connect(self) -> None:
        self.state = SessionState.CONNECTED

    async def get_children(self, _path: str, watch: object) -> list[str]:
        assert watch is not None
        if self.state is SessionState.EXPIRED:
            raise SessionExpiredError(ErrorCode.SESSION_EXPIRED)
        return self.names

    def expire(self) -> None:
        """End the session; its watches end with it."""
        self.state = SessionState.EXPIRED
        for listener in self._listeners:
            listener(self.state)

    async def close(self) -> None:
        self.state = SessionState.CLOSED


async def test_registrations_are_watched_in_another_session_after_an_expiry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = FakeClient()
    monkeypatch.setattr(broker_registrations, "Client", lambda *_words, **_options: client)
    registrations = BrokerRegistrations("127.0.0.1:1", CoordinatorSecurity(), lambda: None)
    following = asyncio.create_task(registrations.follow())
    try:
        async with asyncio.timeout(10):
            client.names = ["1"]
            await until(lambda: registrations.registered == {1}, "the first registration")
            client.names = ["1", "2"]
            client.expire()
            await until(lambda: registrations.registered == {1, 2}, "the second registration")
            assert registrations.is_connected
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
