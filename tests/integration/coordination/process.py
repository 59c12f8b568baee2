"""A coordinator or a real ZooKeeper in its own process, and raw connections to it."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from coordination.protocol import frames, jute
from coordination.protocol.frames import Handshake
from coordination.protocol.messages import NO_PASSWORD, ConnectRequest, ConnectResponse, ReplyHeader
from tests.ports import free_port
from tests.programs import Program

ROOT = Path(__file__).resolve().parents[3]
START_TIMEOUT_S = 60.0
SERVING_TIMEOUT_S = 2.0
DEADLINE_S = 120.0
POLL_INTERVAL_S = 0.02
_PAUSE = threading.Event()
CLASSPATH = "/usr/share/java/zookeeper.jar"


def wait_until(condition: Callable[[], bool], timeout_s: float = DEADLINE_S) -> None:
    """Return once `condition` holds; fail after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {timeout_s} s: {condition}")
        # Leaves the processor to the server under test.
        _PAUSE.wait(POLL_INTERVAL_S)


class ServerProcess:
    """Server process; `kill` and `stop` end it, `start` restarts it on the same port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.process: Program | subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        if self.process is not None:
            self.process.kill()
            self._reap()

    def stop(self) -> int:
        """Stop the process in order; return the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self._reap()

    def _reap(self) -> int:
        assert self.process is not None
        code = self.process.wait(DEADLINE_S)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process = None
        return code


class Coordinator(ServerProcess):
    """Our coordinator."""

    def __init__(self, directory: Path, *options: str) -> None:
        super().__init__(free_port())
        self.directory = directory
        self.options = options
        self.log = directory.with_name(directory.name + ".log")
        self.start()

    def start(self, *more: str) -> None:
        """Start, and wait for the ready line."""
        with self.log.open("a") as log:
            self.process = Program(
                "coordination",
                [
                    f"--listen=127.0.0.1:{self.port}",
                    f"--data-dir={self.directory}",
                    # As for ZooKeeper below: all connections of tests come from one address.
                    "--max-connections-per-address=0",
                    "--four-letter-words=*",
                    *self.options,
                    *more,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), f"{line!r}\n{self.log.read_text()}"
        self.port = int(line.rpartition(":")[2])


class ZooKeeper(ServerProcess):
    """A ZooKeeper, standalone or as a member of an ensemble; by default Debian's."""

    def __init__(
        self,
        directory: Path,
        *lines: str,
        port: int | None = None,
        tick_ms: int = 2000,
        classpath: str = CLASSPATH,
        properties: Sequence[str] = (),
    ) -> None:
        super().__init__(free_port() if port is None else port)
        self.directory = directory
        self._classpath = classpath
        self._properties = properties
        (directory / "data").mkdir(parents=True, exist_ok=True)
        config = [
            f"tickTime={tick_ms}",
            f"dataDir={directory / 'data'}",
            f"clientPort={self.port}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            *lines,
        ]
        (directory / "zoo.cfg").write_text("\n".join(config) + "\n")

    def start(self, *, until_serving: bool = True) -> None:
        with (self.directory / "log").open("a") as log:
            self.process = subprocess.Popen(
                [
                    "java",
                    "-Xmx256m",
                    "-cp",
                    self._classpath,
                    "-Dzookeeper.extendedTypesEnabled=true",
                    *(f"-D{each}" for each in self._properties),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    str(self.directory / "zoo.cfg"),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        if until_serving:
            wait_until(self.is_serving, START_TIMEOUT_S)

    def is_serving(self) -> bool:
        try:
            # A ZooKeeper that is still starting may accept a connection and never respond.
            return "Mode:" in four_letter(self.port, "srvr", timeout_s=SERVING_TIMEOUT_S)
        except OSError:
            return False


def has_zookeeper() -> bool:
    return shutil.which("java") is not None and Path("/usr/share/java/zookeeper.jar").exists()


def ensemble(
    directory: Path, size: int, prepare: Callable[[Path], None] = lambda _member: None
) -> list[ZooKeeper]:
    """Start an ensemble and wait until every member serves; call `prepare` on each directory."""
    peers = [(free_port(), free_port()) for _ in range(size)]
    lines = [f"server.{n + 1}=127.0.0.1:{a}:{b}" for n, (a, b) in enumerate(peers)]
    timing = ("initLimit=50", "syncLimit=25", "minSessionTimeout=400", "maxSessionTimeout=60000")
    members: list[ZooKeeper] = []
    try:
        for number in range(size):
            member = ZooKeeper(directory / f"{number + 1}", *lines, *timing, tick_ms=200)
            members.append(member)
            (member.directory / "data" / "myid").write_text(str(number + 1))
            prepare(member.directory)
            member.start(until_serving=False)
        for member in members:
            wait_until(member.is_serving, START_TIMEOUT_S)
    except BaseException:
        kill_all(members)
        raise
    return members


def four_letter(port: int, command: str, *, timeout_s: float = DEADLINE_S) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.sendall(command.encode())
        return read_to_end(connection).decode()


def read_to_end(connection: socket.socket) -> bytes:
    chunks = []
    while chunk := connection.recv(65536):
        chunks.append(chunk)
    return b"".join(chunks)


class RawClient:
    """Blocking connection that shows every packet, including ones hidden by the client."""

    def __init__(self, port: int, timeout_ms: int = 10_000) -> None:
        self.timeout_ms = timeout_ms
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def shake_hands(
        self,
        session_id: int = 0,
        password: bytes = NO_PASSWORD,
        *,
        last_zxid: int = 0,
        protocol: int = 0,
        read_only: bool | None = False,
    ) -> Handshake | None:
        """Return the response; None if the server closed the connection instead."""
        request = ConnectRequest(protocol, last_zxid, self.timeout_ms, session_id, password)
        self.socket.sendall(frames.encode_handshake(Handshake(request, read_only)))
        payload = self.receive()
        return None if payload is None else frames.decode_handshake(ConnectResponse, payload)

    def send(self, xid: int, op: int, request: tuple[object, ...] | None = None) -> None:
        body = b"" if request is None else jute.encode(request)
        self.socket.sendall(frames.encode_request(xid, op, body))

    def ask(
        self, xid: int, op: int, request: tuple[object, ...] | None = None
    ) -> tuple[ReplyHeader, bytes]:
        """Send a request; return the next packet's header and body."""
        self.send(xid, op, request)
        payload = self.receive()
        assert payload is not None, "closed instead of a reply"
        header, start = jute.decode(ReplyHeader, payload)
        return header, payload[start:]

    def receive(self) -> bytes | None:
        """Return the next payload; None at the end of the connection."""
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def is_closed(self) -> bool:
        """Wait for the next payload; return whether the server closed the connection instead."""
        return self.receive() is None

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                chunk = self.socket.recv(size - len(data))
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            data += chunk
        return data


def session_of(answer: Handshake | None) -> tuple[int, bytes]:
    assert answer is not None
    record = answer.record
    assert isinstance(record, ConnectResponse)
    return record.session_id, record.passwd or b""


def kill_all(servers: Sequence[ServerProcess]) -> None:
    for server in servers:
        server.kill()
