"""Controls the process of a network (edge)."""

import contextlib
import itertools
import json
import os
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ottla.testing.errors import StateError
from ottla.testing.network.links import Party, check_delay
from ottla.testing.server import Server

READY: Final = "network.ready"
TIMEOUT_S: Final = 60.0
NAME: Final = "network"
SOCKET: Final = "control"
PREFIX: Final = "ottla-"
MAX_PATH_BYTES: Final = 107
"""Limit of Linux for the path of a Unix socket, without its end."""


class NetworkControl:
    """A running network; `close` ends it, with all connections through it."""

    def __init__(self, directory: Path) -> None:
        self._folder = _short_folder()
        path = str(Path(self._folder.name, SOCKET))
        self._server = Server(NAME, NAME, [path], directory / NAME, READY)
        self._connection = socket.socket(socket.AF_UNIX)
        try:
            self._server.start()
            self._connection.settimeout(TIMEOUT_S)
            self._connection.connect(path)
            self._replies = self._connection.makefile("rb")
        except BaseException:
            # Also at Ctrl-C: nothing else knows this process.
            self._connection.close()
            self._server.discard()
            self._folder.cleanup()
            raise

    def route(self, to: Party, port: int, source: Party | None) -> int:
        """Return a new port whose connections lead to the `port` of a party.

        Without a source, connections may come from any broker.
        """
        number: int = self._ask({"do": "route", "to": to, "port": port, "source": source})["port"]
        return number

    def cut(self, some: Iterable[Party], others: Iterable[Party]) -> None:
        """Let no data pass between `some` parties and `others`."""
        self._ask({"do": "cut", "links": _links(some, others)})

    def slow(self, some: Iterable[Party], others: Iterable[Party], delay_s: float) -> None:
        """Delay data between `some` parties and `others`, in each direction.

        Raises:
            ValueError: the delay is negative or no finite number.
        """
        # Here, because an error in the network's process would end it.
        check_delay(delay_s)
        self._ask({"do": "slow", "links": _links(some, others), "delay_s": delay_s})

    def heal(self) -> None:
        """End all faults."""
        self._ask({"do": "heal"})

    def close(self) -> None:
        """End the process."""
        self._replies.close()
        self._connection.close()
        self._server.discard()
        self._folder.cleanup()

    def _ask(self, command: dict[str, object]) -> dict[str, Any]:
        line = b""
        # A connection that is broken has no further reply, either.
        with contextlib.suppress(ConnectionError):
            self._connection.sendall(json.dumps(command).encode() + b"\n")
            line = self._replies.readline()
        if not line:
            raise StateError(f"the network has ended:\n{self._server.log_tail()}")
        reply: dict[str, Any] = json.loads(line)
        return reply


def _short_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for a Unix socket, whose path is short, whatever TMPDIR and user chose."""
    folder = tempfile.TemporaryDirectory(prefix=PREFIX)
    if len(os.fsencode(Path(folder.name, SOCKET))) <= MAX_PATH_BYTES:
        return folder
    folder.cleanup()
    return tempfile.TemporaryDirectory(prefix=PREFIX, dir="/tmp")


def _links(some: Iterable[Party], others: Iterable[Party]) -> list[tuple[Party, Party]]:
    return [pair for pair in itertools.product(some, others) if pair[0] != pair[1]]
