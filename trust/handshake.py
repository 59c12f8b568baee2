"""Handshakes of TLS in memory, to check whether two sides accept each other (edge)."""

from __future__ import annotations

import ssl
from typing import Final

_MAX_STEPS: Final = 10
"""More than any version of TLS needs."""


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Let `client` connect to `server` under the name `host`.

    Raises:
        ssl.SSLError: one of them refuses the other.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_MAX_STEPS):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
        if not waiting:
            return
    raise ssl.SSLError("the handshake does not end")
