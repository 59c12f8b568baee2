"""The descriptor that keeps a connection open for its alert: `trust.tls_alert`."""

from __future__ import annotations

import errno
import socket
from typing import Self

import pytest

from trust.tls_alert import sending_alert


class Exhausted(socket.socket):
    """A socket of a process without a free file descriptor."""

    def dup(self) -> Self:
        raise OSError(errno.EMFILE, "Too many open files")


def test_a_connection_without_a_second_descriptor_is_closed() -> None:
    accepted = Exhausted()
    with pytest.raises(OSError, match="Too many"), sending_alert(accepted):
        raise AssertionError("no handshake begins")
    assert accepted.fileno() == -1
