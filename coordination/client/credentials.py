"""The identities of a client (edge: futures): proved anew on each connection.

Servers answer proofs in the order of sending, as they do requests.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator

from coordination import frames, jute
from coordination.client.request_queue import fail
from coordination.errors import AuthFailedError, ConnectionLossError
from coordination.messages import XID_AUTH, AuthRequest, OpCode


class Credentials:
    """Pairs of a scheme and what proves an identity in it; and who waits for an answer."""

    def __init__(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        self._pairs = list(pairs)
        # By proofs that were sent; None where nobody waits for the answer.
        self._waiting: deque[asyncio.Future[None] | None] = deque()

    def add(self, scheme: str, credentials: bytes) -> None:
        """Prove this one, too, from the next connection on."""
        self._pairs.append((scheme, credentials))

    def prove_all(self) -> Iterator[bytes]:
        """Return the packets that prove all of them, to be sent in this order."""
        for scheme, credentials in self._pairs:
            yield self.prove(scheme, credentials, None)

    def prove(
        self, scheme: str, credentials: bytes, future: "asyncio.Future[None] | None"
    ) -> bytes:
        """Return the packet that proves one, to be sent now; `future` gets the answer."""
        self._waiting.append(future)
        body = jute.encode(AuthRequest(0, scheme, credentials))
        return frames.encode_request(XID_AUTH, OpCode.AUTH, body)

    def on_answer(self, failure: AuthFailedError | None) -> None:
        """The server accepted the first proof that it had not answered, or refused it."""
        future = self._waiting.popleft() if self._waiting else None
        if future is None:
            return
        if failure is not None:
            fail(future, failure)
        elif not future.done():
            future.set_result(None)

    def on_lost(self) -> None:
        """The connection is gone, and with it all answers."""
        while self._waiting:
            future = self._waiting.popleft()
            if future is not None:
                fail(future, ConnectionLossError(maybe_applied=False))
