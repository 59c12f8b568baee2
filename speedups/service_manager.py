"""Messages to the service manager that started a daemon, such as systemd (edge).

The manager names a socket in the environment. Without one, nothing is sent. This module is below
both daemons, so it imports nothing of Ottla.

Source: sd_notify(3), sd_watchdog_enabled(3).
"""

import asyncio
import contextlib
import os
import socket
from typing import Final

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE: Final = "WATCHDOG_PID"
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"
MICROSECONDS_PER_S: Final = 1_000_000
SIGNS_PER_TIMEOUT: Final = 2
"""A sign of life is sent this many times in the time after which the manager kills the daemon."""


class ServiceManager:
    """The service manager of this process. Child processes do not inherit it."""

    def __init__(self) -> None:
        self._address = os.environ.pop(SOCKET_VARIABLE, "")
        if self._address.startswith("@"):
            # An abstract socket of Linux.
            self._address = "\0" + self._address[1:]
        self._alive_interval_s = _alive_interval_s(
            os.environ.pop(WATCHDOG_VARIABLE, ""), os.environ.pop(WATCHDOG_PID_VARIABLE, "")
        )

    def ready(self) -> None:
        """Report that the daemon serves, and begin to send signs of life from the running loop."""
        self._send(READY)
        if self._address and self._alive_interval_s is not None:
            self._show_life(asyncio.get_running_loop(), self._alive_interval_s)

    def stopping(self) -> None:
        """Report that the daemon stops in order. Signs of life continue until its loop ends."""
        self._send(STOPPING)

    def _show_life(self, loop: asyncio.AbstractEventLoop, interval_s: float) -> None:
        self._send(ALIVE)
        loop.call_later(interval_s, self._show_life, loop, interval_s)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # A manager that is away must not stop the daemon.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.setblocking(False)
            sender.sendto(message.encode(), self._address)


def _alive_interval_s(timeout: str, pid: str) -> float | None:
    """Return the interval between signs of life; None if the manager expects none of us."""
    if not timeout.isdigit() or int(timeout) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(timeout) / MICROSECONDS_PER_S / SIGNS_PER_TIMEOUT
