"""Resources that a cluster needs before it starts (edge): a free directory and free ports."""

import contextlib
import fcntl
import os
import random
import socket
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from ottla.cli.failure import CommandError
from ottla.cli.up.plan import HOST

LOCK_FILE: Final = ".lock"
CHOSEN_PORTS: Final = (15_000, 32_000)
"""Range of chosen ports, below the system's ephemeral ports, so that no connection takes one."""
MAX_ATTEMPTS: Final = 1_000


@contextlib.contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Create the directory and hold an exclusive lock on it.

    Raises:
        CommandError: another process holds the lock, or the directory cannot be used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(
            f"cannot use {directory}: {error.strerror}; choose another --dir"
        ) from error
    try:
        _lock(lock, directory)
        yield
    finally:
        os.close(lock)


def _lock(lock: int, directory: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CommandError(
            f"another `ottla up` runs on {directory}: stop it, or choose another --dir"
        ) from None


def require_free(ports: Iterable[int], host: str = HOST) -> None:
    """Check that this process can listen on every one of `ports`, at `host` ("": everywhere).

    Raises:
        CommandError: a port is in use, or needs more privileges.
    """
    for port in ports:
        try:
            _listen(host, port)
        except OSError as error:
            raise CommandError(
                f"port {port} cannot be used: {(error.strerror or str(error)).lower()}; "
                "choose another --port, or 0 for free ones"
            ) from error


def reserve_ports(count: int, host: str = HOST, *, but: Collection[int] = ()) -> list[int]:
    """Return `count` distinct ports that are free at `host` ("": everywhere), and reserve them.

    They are none of `but`, which other processes of the cluster are about to use. Until this
    process ends, no other cluster chooses them, not even while a broker of this one is down.

    Raises:
        CommandError: `MAX_ATTEMPTS` attempts did not find enough.
    """
    found: list[int] = []
    for _ in range(MAX_ATTEMPTS):
        if len(found) == count:
            return found
        port = random.randrange(*CHOSEN_PORTS)
        if port not in found and port not in but and _reserve(host, port):
            found.append(port)
    raise CommandError(f"no {count} ports are free between {CHOSEN_PORTS[0]} and {CHOSEN_PORTS[1]}")


def _reserve(host: str, port: int) -> bool:
    """Reserve a port for the servers of this cluster; return False if it is in use.

    A socket that is bound, but does not listen, holds it. Servers can listen beside that socket,
    because both sides allow it with SO_REUSEADDR.
    """
    holder = _socket(host)
    try:
        holder.bind((host, port))
    except OSError:
        holder.close()
        return False
    # Only now: with it, the bind would succeed beside the socket of another cluster.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.detach()
    return True


def _listen(host: str, port: int) -> None:
    with _socket(host) as probe:
        # As servers do: allows a port whose last connections are still closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        probe.listen(1)


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
