"""A coordinator under hostile requests: like `judged_broker`, with pings as probes (edge)."""

import json
import struct
from typing import cast

from coordination.client.heartbeat import PING_PACKET
from coordination.protocol import frames
from coordination.protocol.frames import Handshake
from coordination.protocol.messages import NO_PASSWORD, XID_PING, ConnectRequest
from tests.conftest import BrokerProcess, Event
from tests.fuzz.judged_broker import JudgedBroker
from tests.integration.coordination.process import Coordinator

PROBE_TIMEOUT_MS = 60_000
LINES_SHOWN = 40


class LoggedCoordinator:
    """Coordinator process with the interface that `JudgedBroker` needs, including its log."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._stream = coordinator.log.open(encoding="utf-8", errors="replace")
        # The begin of a line whose rest the coordinator is still writing.
        self._begun = ""
        self._events: list[Event] = []
        self._output: list[str] = []
        self.port, self.pid = coordinator.port, coordinator.pid

    @property
    def events(self) -> list[Event]:
        self._read()
        return self._events

    @property
    def output(self) -> list[str]:
        self._read()
        return self._output

    def _read(self) -> None:
        *lines, self._begun = (self._begun + self._stream.read()).split("\n")
        for line in lines:
            self._output.append(f"{line}\n")
            if line.startswith("{"):
                self._events.append(json.loads(line))

    def log_tail(self) -> str:
        return "".join(self.output[-LINES_SHOWN:])

    def kill(self) -> None:
        self._coordinator.kill()
        self._stream.close()


class JudgedCoordinator(JudgedBroker):
    """Coordinator that receives hostile streams and is probed by pings of another session."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(cast(BrokerProcess, LoggedCoordinator(coordinator)))
        hello = ConnectRequest(0, 0, PROBE_TIMEOUT_MS, 0, NO_PASSWORD)
        self._probe.sendall(frames.encode_handshake(Handshake(hello, False)))
        [size] = struct.unpack(">i", self._receive(4))
        self._receive(size)

    def _ping(self) -> float:
        begin_ns = self._busy_ns()
        self._probe.sendall(PING_PACKET)
        [size] = struct.unpack(">i", self._receive(4))
        assert struct.unpack_from(">i", self._receive(size))[0] == XID_PING
        return (self._busy_ns() - begin_ns) / 1e6
