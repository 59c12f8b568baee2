"""Edge: whether anybody listens where the URL of a stand-alone master points.

Spark itself tries for a minute, and then says little. YARN and Kubernetes are left to it.
"""

import socket
from typing import Final

from analytics.errors import AuditError

CONNECT_TIMEOUT_S: Final = 5.0
DEFAULT_PORT: Final = 7077
_STANDALONE: Final = "spark://"


def check_master(url: str) -> None:
    """Return when one of the masters in `url` takes a connection, or it names no such masters.

    Raises:
        AuditError: none does; the message says why.
    """
    if not url.startswith(_STANDALONE):
        return
    places = url.removeprefix(_STANDALONE).split(",")
    reasons = [reason for place in places if (reason := _refusal(place)) is not None]
    if len(reasons) == len(places):
        raise AuditError(
            f"no Spark master answers at {url}: {'; '.join(reasons)}; "
            "start one, or leave --master out to run here"
        )


def _refusal(place: str) -> str | None:
    """Why nobody can be reached at `place` (host:port); None if somebody can."""
    host, mark, port = place.rpartition(":")
    try:
        address = (host, int(port)) if mark else (place, DEFAULT_PORT)
        with socket.create_connection(address, CONNECT_TIMEOUT_S):
            return None
    except (OSError, ValueError, OverflowError) as error:
        return f"{place}: {getattr(error, 'strerror', None) or error}"
