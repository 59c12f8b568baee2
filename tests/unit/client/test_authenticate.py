"""Authentication of a connection: `ottla.client.network.authenticate`."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.sasl_clients import SaslClient
from kafkawire.scram import ScramError
from ottla.client.client_config import Address, Sasl
from ottla.client.errors import AuthenticationFailedError, BrokerError
from ottla.client.network.authenticate import MAX_EXCHANGES, RENEWAL_SHARE, authenticate


class Countdown:
    """A mechanism that sends a given number of answers."""

    def __init__(self, answer_count: int, error: ScramError | None = None) -> None:
        self._left, self._error = answer_count, error

    def first(self) -> bytes:
        return b"first"

    def answer(self, message: bytes) -> bytes | None:
        if self._error is not None:
            raise self._error
        self._left -= 1
        return b"re: " + message if self._left >= 0 else None


class Broker:
    """Stands for the connection to a broker, and responds with given values."""

    address = Address("h", 9092)

    def __init__(self, *, error_code: int = 0, refusal: int = 0, lifetime_ms: int = 0) -> None:
        self._error_code, self._refusal, self._lifetime_ms = error_code, refusal, lifetime_ms
        self.received: list[Any] = []
        self.lifetime_s: float | None = None

    async def request(self, message: object, response_type: type) -> object:
        del response_type
        if isinstance(message, SaslHandshakeRequest):
            self.received.append(message.mechanism)
            return SaslHandshakeResponse(error_code=self._error_code, mechanisms=["A", "B"])
        assert isinstance(message, SaslAuthenticateRequest)
        self.received.append(message.auth_bytes)
        return SaslAuthenticateResponse(
            error_code=self._refusal,
            error_message="no such user" if self._refusal else None,
            auth_bytes=b"%d" % len(self.received),
            session_lifetime_ms=self._lifetime_ms,
        )

    def expire_after(self, lifetime_s: float) -> None:
        self.lifetime_s = lifetime_s


def sasl(client: SaslClient) -> Sasl:
    async def begin() -> SaslClient:
        return client

    return Sasl("M", begin)


Authenticate = Callable[[Broker, Sasl], Awaitable[None]]
run: Authenticate = authenticate  # type: ignore[assignment]  # a broker in place of a connection


async def test_messages_are_exchanged_until_the_mechanism_is_content() -> None:
    broker = Broker()
    await run(broker, sasl(Countdown(2)))
    assert broker.received == ["M", b"first", b"re: 2", b"re: 3"]
    assert broker.lifetime_s is None


async def test_a_limited_session_is_renewed_before_it_ends() -> None:
    broker = Broker(lifetime_ms=10_000)
    await run(broker, sasl(Countdown(0)))
    assert broker.lifetime_s is not None
    low, high = (10 * share for share in RENEWAL_SHARE)
    assert low <= broker.lifetime_s <= high


async def test_a_refusal_has_the_brokers_reason() -> None:
    refusal = ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(AuthenticationFailedError, match="h:9092 refused the M .*no such user"):  # noqa: RUF043
        await run(Broker(refusal=refusal), sasl(Countdown(0)))


async def test_a_mechanism_that_is_not_offered_is_named() -> None:
    unknown = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    with pytest.raises(AuthenticationFailedError, match="the mechanism M, but: A, B"):
        await run(Broker(error_code=unknown), sasl(Countdown(0)))


async def test_another_error_of_the_handshake_is_reported() -> None:
    illegal = ErrorCode.ILLEGAL_SASL_STATE
    with pytest.raises(BrokerError, match="SaslHandshake at h:9092"):
        await run(Broker(error_code=illegal), sasl(Countdown(0)))


async def test_a_broker_that_proves_nothing_is_not_trusted() -> None:
    client = Countdown(0, ScramError("the server does not know the password"))
    with pytest.raises(AuthenticationFailedError, match="does not know the password"):
        await run(Broker(), sasl(client))


async def test_an_endless_exchange_ends() -> None:
    broker = Broker()
    with pytest.raises(AuthenticationFailedError, match="more than"):
        await run(broker, sasl(Countdown(1000)))
    assert len(broker.received) == 1 + MAX_EXCHANGES
