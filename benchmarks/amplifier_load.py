"""The effect of the most expensive requests of one client on other clients (edge).

For each array of each API, a request fills the array with as many elements as the broker decodes,
empty or named. A few connections send it repeatedly, while a bystander sends only ApiVersions
requests. Prints the longest wait of the bystander, and the memory growth of the broker.

`python -m benchmarks.amplifier_load [API...]`
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.loads.process import HOST, ServerProcess, free_port
from broker.network.limits import BROKER_APIS, MAX_CLIENT_REQUEST_BYTES
from broker.network.router import max_items
from kafkawire.apis import APIS, ApiKey
from kafkawire.declaration import Kind, Layout, WireType, layout_of
from kafkawire.headers import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.create_partitions import CreatePartitionsRequest
from kafkawire.messages.create_topics import CreateTopicsRequest
from kafkawire.messages.produce import ProduceRequest

GOAL_MS: Final = 250
SECONDS_EACH: Final = 1.0
ANSWER_TIMEOUT_S: Final = 5.0
SETTLE_S: Final = 0.3
ATTACKERS: Final = 3
BYSTANDER_PAUSE_S: Final = 0.001
# Requests that would take the broker out of service.
LEFT_OUT: Final = BROKER_APIS | {ApiKey.CONTROLLED_SHUTDOWN}
_SIZE: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Amplifier:
    """A request of the maximum cost that a broker accepts."""

    key: ApiKey
    version: int
    array: str
    frame: bytes

    def __str__(self) -> str:
        return f"{self.key.name} v{self.version} {self.array}"


def amplifiers(wanted: Sequence[str]) -> Iterator[Amplifier]:
    """Yield one request for each array of each API, with empty and with named elements."""
    for key, api in APIS.items():
        if api.advertised is None or key in LEFT_OUT or (wanted and key.name not in wanted):
            continue
        version = api.advertised[1]
        for path in _arrays(layout_of(api.request), version):
            for is_named in (False, True):
                frame = _fill(key, version, path, is_named=is_named)
                if frame is not None:
                    title = f"{'.'.join(path)}{' (named)' if is_named else ''}"
                    yield Amplifier(key, version, title, frame)


def _arrays(layout: Layout, version: int) -> Iterator[tuple[str, ...]]:
    for each in layout.fields:
        element = each.wire.element
        if element is None or not each.is_in(version):
            continue
        yield (each.name,)
        if element.layout is not None:
            for path in _arrays(element.layout, version):
                yield (each.name, *path)


def _fill(key: ApiKey, version: int, path: Sequence[str], *, is_named: bool) -> bytes | None:
    """Return a request with the longest possible array at `path`; None if it cannot be sent."""
    count = max_items(key) - len(path) + 1
    while count > 1:
        message = APIS[key].request()
        if isinstance(message, ProduceRequest):
            message.acks = 1
        elif isinstance(message, CreateTopicsRequest | CreatePartitionsRequest):
            # The load measures the request, not thousands of topics in the coordinator.
            message.validate_only = True
        _set(message, path, count, is_named=is_named)
        try:
            frame = encode_request(key, version, 1, "amplifier", message)
        except Exception:
            return None
        if len(frame) <= MAX_CLIENT_REQUEST_BYTES:
            return frame
        count //= 2
    return None


def _set(message: Any, path: Sequence[str], count: int, *, is_named: bool) -> None:
    layout = layout_of(type(message))
    field = next(each for each in layout.fields if each.name == path[0])
    element = field.wire.element
    assert element is not None
    size = count if len(path) == 1 else 1
    items = [_item(element, number, is_named=is_named) for number in range(size)]
    if len(path) > 1:
        _set(items[0], path[1:], count, is_named=is_named)
    setattr(message, path[0], items)


def _item(wire: WireType[Any], number: int, *, is_named: bool) -> Any:
    if wire.layout is not None:
        item = wire.layout.type()
        for each in wire.layout.fields:
            if is_named and each.wire.kind is Kind.STRING:
                setattr(item, each.name, f"t{number}")
                break
        for each in wire.layout.fields:
            if is_named and each.name in ("partition", "partition_index", "index"):
                setattr(item, each.name, number)
        return item
    if wire.kind is Kind.STRING:
        return f"t{number}" if is_named else ""
    return number if is_named else 0


class Bystander:
    """A client that sends one ApiVersions request at a time, and measures the response times."""

    def __init__(self, port: int) -> None:
        self.longest_s = 0.0
        self._socket = socket.create_connection((HOST, port))
        self._frame = encode_request(
            ApiKey.API_VERSIONS,
            3,
            1,
            "bystander",
            ApiVersionsRequest(client_software_name="b", client_software_version="1"),
        )
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take_longest(self) -> float:
        """Return the longest wait since the last call."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s

    def stop(self) -> None:
        """Stop sending."""
        self._is_over = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while not self._is_over:
            began_s = time.perf_counter()
            self._socket.sendall(self._frame)
            _receive(self._socket)
            self.longest_s = max(self.longest_s, time.perf_counter() - began_s)
            time.sleep(BYSTANDER_PAUSE_S)


def _receive(connection: socket.socket) -> int:
    """Read one response; return its size."""
    left = _SIZE.unpack(_exactly(connection, _SIZE.size))[0]
    size: int = left
    while left:
        left -= len(_exactly(connection, min(left, 1 << 16)))
    return size


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("closed by the broker")
        data += piece
    return bytes(data)


def attack(port: int, frame: bytes, end_s: float, answers: list[int]) -> None:
    """Send `frame` as fast as the broker accepts it until `end_s`; collect response sizes."""
    connection = socket.create_connection((HOST, port))

    def send() -> None:
        with contextlib.suppress(OSError):
            while time.perf_counter() < end_s:
                connection.sendall(frame)

    sender = threading.Thread(target=send)
    sender.start()
    with contextlib.suppress(OSError):
        connection.settimeout(ANSWER_TIMEOUT_S)
        while time.perf_counter() < end_s or not answers:
            answers.append(_receive(connection))
    connection.close()
    sender.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The effect of an amplifier on the bystander, on the processor and on memory."""

    wait_ms: float
    cpu_ms: float
    answer_count: int
    grown_mib: int


def measure(server: ServerProcess, bystander: Bystander, frame: bytes) -> Outcome:
    """Let all attackers send `frame` for a fixed time."""
    bystander.take_longest()
    before, cpu_before_s = server.rss_bytes(), server.cpu_s()
    answers: list[int] = []
    end_s = time.perf_counter() + SECONDS_EACH
    threads = [
        threading.Thread(target=attack, args=(server.port, frame, end_s, answers))
        for _ in range(ATTACKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The broker still has to handle the requests that it has read.
    time.sleep(SETTLE_S)
    return Outcome(
        wait_ms=bystander.take_longest() * 1000,
        cpu_ms=(server.cpu_s() - cpu_before_s) * 1000 / max(len(answers), 1),
        answer_count=len(answers),
        grown_mib=(server.rss_bytes() - before) >> 20,
    )


def say(line: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(wanted: Sequence[str]) -> None:
    """Print a line per amplifier, with a mark on each one that misses the goal."""
    with tempfile.TemporaryDirectory(prefix="ottla-amplifier-") as folder:
        port = free_port()
        arguments = ["-m", "broker"]
        for override in (
            f"listeners=PLAINTEXT://{HOST}:{port}",
            f"log.dirs={folder}",
            "broker.id=1",
            "auto.create.topics.enable=false",
            "offsets.topic.num.partitions=4",
        ):
            arguments += ["--override", override]
        with ServerProcess(arguments, port, log=Path(folder) / "log") as server:
            time.sleep(2)
            bystander = Bystander(port)
            say(f"{'request':58} {'bytes':>9} answers CPU ms   MiB wait ms")
            for each in amplifiers(wanted):
                found = measure(server, bystander, each.frame)
                mark = "  <-- above the goal" if found.wait_ms > GOAL_MS else ""
                say(
                    f"{each!s:58} {len(each.frame):9,} {found.answer_count:7} {found.cpu_ms:6.0f} "
                    f"{found.grown_mib:5} {found.wait_ms:7.0f}{mark}"
                )
            bystander.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
