"""A broker under hostile requests, and the cost of these. An edge: a process and its `/proc`.

The loop is one thread. While another client waits for a response, the processor time of this thread
is the time for which the loop was blocked. Processor time is used instead of elapsed time, so that
a busy machine does not change the result.
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
"""Limit of the blocked time per MiB of a request; also the limit of a smaller request."""
BYTES_PER_BYTE: Final = 8
MEMORY_NOISE_BYTES: Final = 24 * MIB
"""Allowance for garbage, caches and buffers of the connection, in addition to the request."""
RESPONSE_TIMEOUT_S: Final = 60.0
SETTLE_S: Final = 0.05
"""Time for reading responses; requests that wait for longer are abandoned."""
PROBE: Final = encode_request(ApiKey.API_VERSIONS, 0, 7, "probe", ApiVersionsRequest())


SLOW_TRIES: Final = 3
"""Number of attempts before a slow request counts, as other processes add to each measurement."""
REFERENCE_ROUNDS: Final = 100_000
REFERENCE_MS: Final = 10.0
"""Processor time of these rounds of `slowness` on the machine that the limits are for."""


@dataclass(frozen=True, slots=True)
class Harm:
    """Harm that a request did to a broker: `kind` classifies it, `text` describes it."""

    kind: str
    text: str
    is_deadly: bool = True


def slowness() -> float:
    """Return how many times longer than the reference this machine takes now, at least 1.

    Other processes slow a processor down, also in processor time: they share its caches.
    """
    begin_ns = time.thread_time_ns()
    counts: dict[int, int] = {}
    for number in range(REFERENCE_ROUNDS):
        counts[number % 1021] = counts.get(number % 1021, 0) + number
    return max(1.0, (time.thread_time_ns() - begin_ns) / 1e6 / REFERENCE_MS)


class JudgedBroker:
    """Broker process that receives hostile frames and is checked after each."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._port = broker.port
        self._probe = socket.create_connection(("127.0.0.1", self._port), RESPONSE_TIMEOUT_S)
        self._schedstat = Path(f"/proc/{broker.pid}/task/{broker.pid}/schedstat")
        self._seen_events = 0

    def end(self) -> None:
        """Kill the process, if it is alive."""
        self._probe.close()
        self._broker.kill()

    def endure(self, label: str, frame: bytes) -> Harm | None:
        """Send `frame` on its own connection; return the harm that it did, if any.

        The broker must stay alive, log no stack trace, and neither block its loop nor use memory
        beyond the limits above.
        """
        harm: Harm | None = None
        for _ in range(SLOW_TRIES):
            harm = self._endure_once(f"{label}, {len(frame)} bytes", frame)
            if harm is None or harm.is_deadly:
                return harm
        return harm

    def _endure_once(self, label: str, frame: bytes) -> Harm | None:
        before = self._reset_peak()
        try:
            with socket.create_connection(("127.0.0.1", self._port), RESPONSE_TIMEOUT_S) as client:
                blocked_ms = self._send(client, frame)
                # The loop may start the request only after the first response.
                blocked_ms = max(blocked_ms, self._ping(), self._ping())
                self._read(client)
            blocked_ms = max(blocked_ms, self._ping())
        except TimeoutError:
            text = f"{label}: no response to another client for {RESPONSE_TIMEOUT_S} s"
            return Harm("silence", text)
        except ConnectionError as error:
            text = f"{label}: another client's connection: {error!r}"
            return self._trouble(label) or Harm("cut", text)
        grown = self._status("VmHWM") - before
        if trouble := self._trouble(label):
            return trouble
        limit_ms = BLOCKED_MS_PER_MIB * max(1.0, len(frame) / MIB)
        if blocked_ms > limit_ms and blocked_ms > limit_ms * slowness():
            return Harm("block", f"{label}: the loop was blocked for {blocked_ms:.0f} ms", False)
        if grown > BYTES_PER_BYTE * len(frame) + MEMORY_NOISE_BYTES:
            return Harm("memory", f"{label}: {grown / MIB:.0f} MiB more memory", False)
        return None

    def _send(self, client: socket.socket, frame: bytes) -> float:
        """Send `frame`, and probe meanwhile; return the longest time of a blocked loop in ms."""
        client.setblocking(False)
        rest, blocked_ms = memoryview(frame), 0.0
        deadline_s = time.monotonic() + RESPONSE_TIMEOUT_S
        while rest:
            _, writable, _ = select.select([], [client], [], 0.05)
            if writable:
                try:
                    rest = rest[client.send(rest[: 256 * 1024]) :]
                except ConnectionError:
                    # The broker closed the connection before it read the frame, which is allowed.
                    return max(blocked_ms, self._ping())
            else:
                blocked_ms = max(blocked_ms, self._ping())
            if time.monotonic() > deadline_s:
                raise TimeoutError
        return max(blocked_ms, self._ping())

    def _read(self, client: socket.socket) -> None:
        """Read responses until the connection ends or is quiet."""
        try:
            client.shutdown(socket.SHUT_WR)
            client.settimeout(SETTLE_S)
            while client.recv(1 << 20):
                pass
        except (TimeoutError, ConnectionError, OSError):
            return

    def _ping(self) -> float:
        """Send a probe as another client; return the loop's processor time until the response."""
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
        """Reset the peak of memory to the current use, and return that."""
        Path(f"/proc/{self._broker.pid}/clear_refs").write_text("5")
        return self._status("VmRSS")

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self._broker.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith(name)]
        return int(line.split()[1]) * 1024

    def _trouble(self, label: str) -> Harm | None:
        """Return the broker's death or a logged stack trace, which no request may cause."""
        if not Path(f"/proc/{self._broker.pid}").exists():
            return Harm("end", f"{label}: the broker ended:\n{self._broker.log_tail()}")
        new, self._seen_events = self._broker.events[self._seen_events :], len(self._broker.events)
        for event in new:
            if "exception" in event:
                return Harm("stack trace", f"{label}: {event['event']}\n{event['exception']}")
        if any(line.startswith("Traceback") for line in list(self._broker.output)[-50:]):
            return Harm("stack trace", f"{label}:\n{self._broker.log_tail()}")
        return None
