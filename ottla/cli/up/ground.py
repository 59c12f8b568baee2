"""What must be free before a cluster can start (edge): a directory and ports."""

import contextlib
import fcntl
import os
import random
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ottla.cli.failure import CommandError
from ottla.cli.up.plan import HOST

LOCK_FILE: Final = ".lock"
CHOSEN_PORTS: Final = (15_000, 32_000)
"""Below those that the system gives to outgoing connections, so that nobody takes one meanwhile."""
MAX_ATTEMPTS: Final = 1_000


@contextlib.contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Hold the directory for this process.

    Raises:
        CommandError: somebody else holds it, or it cannot be used.
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


def require_free(ports: Iterable[int]) -> None:
    """Return when every one of `ports` could be listened on.

    Raises:
        CommandError: one of them is in use, or needs more rights.
    """
    for port in ports:
        try:
            _listen(port)
        except OSError as error:
            raise CommandError(
                f"port {port} cannot be used: {(error.strerror or str(error)).lower()}; "
                "choose another --port, or 0 for free ones"
            ) from error


def free_ports(count: int) -> list[int]:
    """Return that many different ports that are free now.

    Raises:
        CommandError: there are none.
    """
    found: list[int] = []
    for _ in range(MAX_ATTEMPTS):
        if len(found) == count:
            return found
        port = random.randrange(*CHOSEN_PORTS)
        with contextlib.suppress(OSError):
            _listen(port)
            if port not in found:
                found.append(port)
    raise CommandError(f"no {count} ports are free between {CHOSEN_PORTS[0]} and {CHOSEN_PORTS[1]}")


def _listen(port: int) -> None:
    with socket.socket() as probe:
        # As servers do: a port whose last connections are closing may be used.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
        probe.listen(1)
