"""Requests without a socket, for tests of handlers and of the router."""

from typing import cast

from broker.network.request import Connection, ConnectionQueue, Request
from broker.security.principal import ANONYMOUS
from kafkawire.apis import ApiKey
from kafkawire.headers import RequestHeader
from kafkawire.schema import encode


class NoConnection:
    """A connection without a client; a handler must only read its attributes."""

    listener_name = "PLAINTEXT"
    client_host = "127.0.0.1"
    principal = ANONYMOUS
    number = 1


def request(
    api_key: ApiKey,
    version: int,
    message: object | bytes = b"",
    *,
    client_id: str | None = "test",
    listener_name: str = "PLAINTEXT",
    number: int = 1,
) -> Request:
    """Return a request with the encoded `message`; its body is writable, like from a socket.

    `number` is that of its connection.
    """
    body = message if isinstance(message, bytes) else encode(message, version)
    connection = NoConnection()
    connection.listener_name = listener_name
    connection.number = number
    queue = ConnectionQueue(cast(Connection, connection))
    header = RequestHeader(api_key, version, 1, client_id)
    return Request(queue, header, memoryview(bytearray(body)), 0.0)
