"""A broker under hostile requests, and what they cost it. An edge: a process and its `/proc`.

The loop is one thread: while another client waits for an answer, the processor time which that
thread takes is time for which the loop was blocked. It is counted, not waited for, so that a busy
machine changes no verdict.
"""

import select
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkawire.apis import ApiKey
from kafkawire.headers import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from tests.conftest import BrokerProcess

MIB: Final = 1 << 20
BLOCKED_MS_PER_MIB: Final = 50.0
"""Of requests below 1 MiB each may take this, too."""
ORDERS: Final = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")
ORDER_FACTOR: Final = 3
"""Requests of a controller change the state of every partition that they name."""
BYTES_PER_BYTE: Final = 8
MEMORY_NOISE_BYTES: Final = 24 * MIB
"""Allowance for garbage, caches and the buffers of a connection beside a request."""
ANSWER_TIMEOUT_S: Final = 60.0
SETTLE_S: Final = 0.05
"""How long an answer is read for: a request that waits for something is left alone after this."""
PROBE: Final = encode_request(ApiKey.API_VERSIONS, 0, 7, "probe", ApiVersionsRequest())


SLOW_TRIES: Final = 3
"""A block is the shortest of so many: neighbours on the processor make each of them longer."""


@dataclass(frozen=True, slots=True)
class Harm:
    """Harm that a request did to a broker: `kind` names it in a word, `text` describes it."""

    kind: str
    text: str
    is_deadly: bool = True


class JudgedBroker:
    """One broker process; `endure` a frame and hear what was wrong about it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._port = broker.port
        self._probe = socket.create_connection(("127.0.0.1", self._port), ANSWER_TIMEOUT_S)
        self._schedstat = Path(f"/proc/{broker.pid}/task/{broker.pid}/schedstat")
        self._seen_events = 0

    def end(self) -> None:
        """End the process at once, if it lives."""
        self._probe.close()
        self._broker.kill()

    def endure(self, what: str, frame: bytes) -> Harm | None:
        """Send `frame` on a connection of its own; return the harm that it did, if any.

        The broker must live on, log no stack trace, and neither block its loop nor take memory
        beyond the limits above.
        """
        harm: Harm | None = None
        for _ in range(SLOW_TRIES):
            harm = self._endure_once(f"{what}, {len(frame)} bytes", frame)
            if harm is None or harm.is_deadly:
                return harm
        return harm

    def _endure_once(self, what: str, frame: bytes) -> Harm | None:
        before = self._reset_peak()
        try:
            with socket.create_connection(("127.0.0.1", self._port), ANSWER_TIMEOUT_S) as client:
                blocked_ms = self._send(client, frame)
                # The loop may take the request up after the first answer.
                blocked_ms = max(blocked_ms, self._ask(), self._ask())
                self._read(client)
            blocked_ms = max(blocked_ms, self._ask())
        except TimeoutError:
            return Harm("silence", f"{what}: no answer to others for {ANSWER_TIMEOUT_S} s")
        except ConnectionError as error:
            text = f"{what}: another client's connection: {error!r}"
            return self._trouble(what) or Harm("cut", text)
        grown = self._status("VmHWM") - before
        if trouble := self._trouble(what):
            return trouble
        limit_ms = BLOCKED_MS_PER_MIB * max(1.0, len(frame) / MIB)
        if what.startswith(ORDERS):
            limit_ms *= ORDER_FACTOR
        if blocked_ms > limit_ms:
            return Harm("block", f"{what}: the loop was blocked for {blocked_ms:.0f} ms", False)
        if grown > BYTES_PER_BYTE * len(frame) + MEMORY_NOISE_BYTES:
            return Harm("memory", f"{what}: {grown / MIB:.0f} MiB more memory", False)
        return None

    def _send(self, client: socket.socket, frame: bytes) -> float:
        """Send all of `frame`, asking on the side meanwhile; return the longest block in ms."""
        client.setblocking(False)
        rest, blocked_ms = memoryview(frame), 0.0
        deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
        while rest:
            _, writable, _ = select.select([], [client], [], 0.05)
            if writable:
                try:
                    rest = rest[client.send(rest[: 256 * 1024]) :]
                except ConnectionError:
                    # Refused before it was read: that is an answer.
                    return max(blocked_ms, self._ask())
            else:
                blocked_ms = max(blocked_ms, self._ask())
            if time.monotonic() > deadline_s:
                raise TimeoutError
        return max(blocked_ms, self._ask())

    def _read(self, client: socket.socket) -> None:
        """Read what comes until the connection ends or is quiet."""
        try:
            client.shutdown(socket.SHUT_WR)
            client.settimeout(SETTLE_S)
            while client.recv(1 << 20):
                pass
        except (TimeoutError, ConnectionError, OSError):
            return

    def _ask(self) -> float:
        """Ask as another client; return the ms for which the loop worked until it answered."""
        begin_ns = self._busy_ns()
        self._probe.sendall(PROBE)
        [size] = struct.unpack(">i", self._receive(4))
        assert self._receive(size)[:4] == b"\0\0\0\7"
        return (self._busy_ns() - begin_ns) / 1e6

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._probe.recv(size - len(data))
            if not chunk:
                raise ConnectionError("closed")
            data += chunk
        return data

    def _busy_ns(self) -> int:
        return int(self._schedstat.read_text().split()[0])

    def _reset_peak(self) -> int:
        """Let the peak of memory begin at what is there now, and return that."""
        Path(f"/proc/{self._broker.pid}/clear_refs").write_text("5")
        return self._status("VmRSS")

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self._broker.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith(name)]
        return int(line.split()[1]) * 1024

    def _trouble(self, what: str) -> Harm | None:
        """Return what the broker logged that no request may cause."""
        if not Path(f"/proc/{self._broker.pid}").exists():
            return Harm("end", f"{what}: the broker ended:\n{self._broker.log_tail()}")
        new, self._seen_events = self._broker.events[self._seen_events :], len(self._broker.events)
        for event in new:
            if "exception" in event:
                return Harm("stack trace", f"{what}: {event['event']}\n{event['exception']}")
        if any(line.startswith("Traceback") for line in list(self._broker.output)[-50:]):
            return Harm("stack trace", f"{what}:\n{self._broker.log_tail()}")
        return None
