"""Edge: the check that a stand-alone Spark master accepts connections.

Spark itself retries for a minute and then reports little. YARN and Kubernetes are not checked.
"""

import socket
from typing import Final

from analytics.errors import AuditError

CONNECT_TIMEOUT_S: Final = 5.0
DEFAULT_PORT: Final = 7077
_STANDALONE: Final = "spark://"


def check_master(url: str) -> None:
    """Return once a stand-alone master in `url` accepts a connection, or if `url` names none.

    Raises:
        AuditError: no master accepts a connection; the message gives the reasons.
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
    """Return the reason why `place` (host:port) is unreachable; None if it is reachable."""
    host, mark, port = place.rpartition(":")
    try:
        address = (host, int(port)) if mark else (place, DEFAULT_PORT)
        with socket.create_connection(address, CONNECT_TIMEOUT_S):
            return None
    except (OSError, ValueError, OverflowError) as error:
        return f"{place}: {getattr(error, 'strerror', None) or error}"
