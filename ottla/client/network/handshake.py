"""Opens a connection: TLS, the versions of requests, authentication (edge)."""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Callable
from typing import Final

from kafkawire.address import AddressError, check_address
from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.client.client_config import Address, ClientConfig
from ottla.client.errors import (
    AuthenticationFailedError,
    BrokerUnreachableError,
    ConnectionLostError,
    ProtocolError,
    RequestTimedOutError,
    broker_error,
)
from ottla.client.network.authenticate import authenticate
from ottla.client.network.broker_connection import Connection

SOFTWARE_NAME: Final = "ottla"
SOFTWARE_VERSION: Final = "0.1.0"
KEEPALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Options of TCP: a lost host is noticed after two minutes of silence, as by our brokers."""
_NO_REFUSALS: Final = frozenset({"INTERNAL_ERROR", "USER_CANCELLED", "NO_RENEGOTIATION"})
"""Alerts by names of OpenSSL that do not refuse the client: a retry may succeed."""


async def open_connection(
    address: Address,
    config: ClientConfig,
    on_lost: Callable[[Connection], None],
) -> Connection:
    """Connect to `address`, negotiate versions and authenticate, within `connect_timeout_ms`.

    No socket is left open if this fails or is cancelled.

    Raises:
        AuthenticationFailedError: the broker's certificate is not trusted, or the broker refused
            the credentials, the client's certificate, or its versions and ciphers of TLS.
        BrokerUnreachableError: the connection was refused, the handshake timed out, the peer closed
            the connection during it, or the address cannot exist.
        ProtocolError: the peer does not speak Kafka's protocol.
    """
    connection = Connection(asyncio.get_running_loop(), address, config, on_lost)
    try:
        async with asyncio.timeout(config.connect_timeout_ms / 1000):
            await _connect(connection, config)
            await _negotiate(connection)
            if config.security.sasl is not None:
                await authenticate(connection, config.security.sasl)
    except TimeoutError as error:
        await connection.close()
        raise BrokerUnreachableError(
            f"{address} did not accept a connection within {config.connect_timeout_ms} ms: "
            "check host, port and firewall"
        ) from error
    except ssl.SSLCertVerificationError as error:
        await connection.close()
        raise AuthenticationFailedError(
            f"the certificate of {address} is not trusted: {error.verify_message}. Check "
            "ssl_cafile, and that the certificate is for this host"
        ) from error
    except BrokerUnreachableError:
        await connection.close()
        raise
    except (ConnectionLostError, RequestTimedOutError) as error:
        await connection.close()
        alert = alert_of(error.__cause__)
        if alert is not None:
            raise _refused(address, alert) from error
        # The request that the connection was opened for was not sent.
        raise BrokerUnreachableError(str(error)) from error
    except OSError as error:
        await connection.close()
        alert = alert_of(error)
        if alert is not None:
            raise _refused(address, alert) from error
        is_refused = isinstance(error, ConnectionRefusedError)
        is_tls = isinstance(error, ssl.SSLError | ConnectionError) and not is_refused
        hint = "Does it speak TLS?" if is_tls and config.security.tls else "Is the broker running?"
        raise BrokerUnreachableError(
            f"cannot connect to {address}: {_reason(error)}. {hint}"
        ) from error
    except BaseException:
        await connection.close()
        raise
    return connection


async def _connect(connection: Connection, config: ClientConfig) -> None:
    address = connection.address
    try:
        check_address(address.host, address.port)
    except AddressError as error:
        raise BrokerUnreachableError(
            f"cannot connect to {str(address)!r}: {error}; check bootstrap_servers, and the "
            "advertised.listeners of the brokers"
        ) from error
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: connection, address.host, address.port, ssl=config.security.tls
    )
    _keep_alive(transport)


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the system notice a host that is gone without a word, such as after a loss of power.

    A request may wait for its response for minutes, such as JoinGroup for a rebalance.
    """
    held = transport.get_extra_info("socket")
    held.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        # Some systems lack some of these options.
        if (number := getattr(socket, name, None)) is not None:
            held.setsockopt(socket.IPPROTO_TCP, number, value)


def alert_of(error: BaseException | None) -> str | None:
    """Return the alert by which the other side has refused a handshake, in words."""
    if not isinstance(error, ssl.SSLError):
        return None
    # Errors that OpenSSL has not raised have no reason.
    _, mark, name = (getattr(error, "reason", None) or "").partition("_ALERT_")
    return name.lower().replace("_", " ") if mark and name not in _NO_REFUSALS else None


def _refused(address: Address, alert: str) -> AuthenticationFailedError:
    return AuthenticationFailedError(
        f"{address} refuses the TLS handshake: {alert}. Check ssl_certfile, and that both sides "
        "have a version and a cipher of TLS in common"
    )


def _reason(error: OSError) -> str:
    """Return the operating system's text for `error`; the event loop's repeats all addresses."""
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    # The event loop has no text for a peer that ends the TLS handshake.
    if isinstance(error, ConnectionError) and not error.args:
        return "the connection was closed"
    # Failed name look-ups have error numbers of their own, which `os.strerror` does not know.
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    # For a name with several addresses the event loop joins their errors into one text.
    numbers = [error.errno] if error.errno else map(int, re.findall(r"\[Errno (\d+)\]", str(error)))
    return ", ".join(dict.fromkeys(map(os.strerror, numbers))) or str(error)


async def _negotiate(connection: Connection) -> None:
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )
    version: int | None = APIS[ApiKey.API_VERSIONS].decodable[1]
    while version is not None:
        response = await connection.request(request, ApiVersionsResponse, version=version)
        version = connection.exchange.negotiate(response, version)
    if response.error_code != ErrorCode.NONE:
        raise broker_error(response.error_code, f"ApiVersions at {connection.address}")
    if not response.api_keys:
        raise ProtocolError(f"{connection.address} offers no request at all: not a Kafka broker")
