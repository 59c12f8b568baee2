"""Credentials of a client (edge: futures), sent again on each connection.

Servers respond to auth requests in the order of sending, as to other requests.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator

from coordination.client.request_queue import fail
from coordination.errors import AuthFailedError, ConnectionLossError
from coordination.protocol import frames, jute
from coordination.protocol.messages import XID_AUTH, AuthRequest, OpCode


class Credentials:
    """Pairs of scheme and credentials, and the futures of pending auth requests."""

    def __init__(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        self._pairs = list(pairs)
        # One entry per auth request sent; None if no caller awaits the response.
        self._waiting: deque[asyncio.Future[None] | None] = deque()

    def add(self, scheme: str, credentials: bytes) -> None:
        """Add credentials, used from the next connection on."""
        self._pairs.append((scheme, credentials))

    def auth_packets(self) -> Iterator[bytes]:
        """Yield the auth requests for all credentials, to be sent at once in this order."""
        for scheme, credentials in self._pairs:
            yield self.auth_packet(scheme, credentials, None)

    def auth_packet(
        self, scheme: str, credentials: bytes, future: "asyncio.Future[None] | None"
    ) -> bytes:
        """Return one auth request, to be sent at once; `future` gets the result."""
        self._waiting.append(future)
        body = jute.encode(AuthRequest(0, scheme, credentials))
        return frames.encode_request(XID_AUTH, OpCode.AUTH, body)

    def on_response(self, failure: AuthFailedError | None) -> None:
        """Complete the oldest pending auth request: accepted if `failure` is None."""
        future = self._waiting.popleft() if self._waiting else None
        if future is None:
            return
        if failure is not None:
            fail(future, failure)
        elif not future.done():
            future.set_result(None)

    def on_lost(self) -> None:
        """Fail all pending auth requests, because the connection is lost."""
        while self._waiting:
            future = self._waiting.popleft()
            if future is not None:
                fail(future, ConnectionLossError(maybe_applied=False))
