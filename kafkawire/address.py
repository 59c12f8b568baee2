"""Addresses at which no process can listen (decision).

They come from files, users and other processes. An event loop raises errors of several kinds for
them, or connects to another port: uvloop takes a port modulo 65536, and so does a name's look-up.
"""

from typing import Final

MAX_PORT: Final = 65_535


class AddressError(OSError):
    """No process can listen at an address, so connecting to it is pointless."""


def check_address(host: str, port: int) -> None:
    """Check an address before a connection to it.

    Raises:
        AddressError: no process can listen at it.
    """
    if not 1 <= port <= MAX_PORT:
        raise AddressError(f"port {port} is not within 1..{MAX_PORT}")
    try:
        is_name = bool(host.encode("idna")) and "\0" not in host
    except UnicodeError:
        is_name = False
    if not is_name:
        raise AddressError(f"{host!r} is not the name of a host")
