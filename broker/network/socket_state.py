"""The system's view of a connection whose transport is not read (edge).

A transport reports that its client has closed the connection only while it is read.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

_ESTABLISHED: Final = 1
"""State of an open connection in Linux's `tcp_info`; any other one ends."""
_TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None)


def has_gone(transport: asyncio.Transport) -> bool:
    """Whether the client has closed the connection, or it is broken; False if that is unknown."""
    known = transport.get_extra_info("socket")
    if known is None or _TCP_INFO is None:
        return False
    try:
        state: int = known.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]
    except OSError:
        # Not a TCP connection.
        return False
    return state != _ESTABLISHED
