"""Four-letter words (decision): commands of operators, with text as response; their counters."""

import os
import platform
import resource
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from coordination.server.coordinator_config import CoordinatorConfig
from coordination.server.state.service import Peer, Service
from coordination.server.state.watches import Watches
from monitoring.samples import Samples

# Clients parse the leading three numbers to detect the features of the server.
FEATURE_LEVEL: Final = "3.8.0"
PART_LINES: Final = 1_000
"""Lines of a part of a long response: a few milliseconds of work."""


class Metrics:
    """Counters since the start, or since the last `srst`."""

    def __init__(self) -> None:
        self.stall_count = 0
        self.reset()

    def reset(self) -> None:
        """Reset the counters, for `srst`."""
        self.received_count = 0
        self.sent_count = 0
        self.expired_count = 0
        self.rejected_count = 0
        self.latency_count = 0
        self.latency_sum_ms = 0.0
        self.latency_min_ms = 0.0
        self.latency_max_ms = 0.0

    @property
    def latency_avg_ms(self) -> float:
        """Mean time from a packet to its reply."""
        return self.latency_sum_ms / self.latency_count if self.latency_count else 0.0

    def on_latency(self, elapsed_ms: float) -> None:
        """Record the latency of a batch of replies."""
        if not self.latency_count or elapsed_ms < self.latency_min_ms:
            self.latency_min_ms = elapsed_ms
        if elapsed_ms > self.latency_max_ms:
            self.latency_max_ms = elapsed_ms
        self.latency_count += 1
        self.latency_sum_ms += elapsed_ms


class ReportedConnection(Protocol):
    """Connection in the responses."""

    peer_name: str
    received_count: int
    sent_count: int
    session_id: int
    last_op: str

    @property
    def held_count(self) -> int:
        """Number of outputs that wait for a sync."""


class ReportedServer(Protocol):
    """Server in the responses."""

    config: CoordinatorConfig
    metrics: Metrics
    service: Service
    synced_zxid: int

    @property
    def connections(self) -> Collection[ReportedConnection]:
        """All admitted connections."""

    @property
    def bound_port(self) -> int:
        """Port of the plain listener."""

    @property
    def bound_tls_port(self) -> int | None:
        """Port of the TLS listener, if there is one."""

    @property
    def uptime_ms(self) -> int:
        """Time since the start."""

    @property
    def sync_count(self) -> int:
        """Number of syncs of the log."""

    @property
    def sync_times_ms(self) -> Samples:
        """Times of syncs of the log."""

    @property
    def unsynced_count(self) -> int:
        """Number of transactions that are not on disk yet."""


def respond(command: str, server: ReportedServer) -> Iterator[str]:
    """Return the parts of the response to `command`; the server may change between two of them."""
    found = COMMANDS[command.encode()](server)
    return iter((found,)) if isinstance(found, str) else found


def refusal(command: str) -> str:
    """Return the response to a disabled command, in ZooKeeper's words."""
    return f"{command} is not executed because it is not in the whitelist.\n"


def _version() -> str:
    try:
        own = metadata.version("ottla")
    except metadata.PackageNotFoundError:
        own = "0"
    return f"{FEATURE_LEVEL}-ottla-{own}, built on 2026-11-21 00:00 UTC"


def _ruok(_server: ReportedServer) -> str:
    return "imok"


def _isro(_server: ReportedServer) -> str:
    return "rw"


def _srvr(server: ReportedServer) -> str:
    return f"Zookeeper version: {_version()}\n{_statistics(server)}"


def _stat(server: ReportedServer) -> str:
    clients = "".join(f" {_connection_counts(each)})\n" for each in server.connections)
    return f"Zookeeper version: {_version()}\nClients:\n{clients}\n{_statistics(server)}"


def _statistics(server: ReportedServer) -> str:
    metrics = server.metrics
    latency = (
        f"{metrics.latency_min_ms:.0f}/{metrics.latency_avg_ms:.4f}/{metrics.latency_max_ms:.0f}"
    )
    return (
        f"Latency min/avg/max: {latency}\n"
        f"Received: {metrics.received_count}\n"
        f"Sent: {metrics.sent_count}\n"
        f"Connections: {len(server.connections)}\n"
        f"Outstanding: {server.unsynced_count}\n"
        f"Zxid: {server.synced_zxid:#x}\n"
        "Mode: standalone\n"
        f"Node count: {server.service.state.tree.node_count}\n"
    )


def _connection_counts(connection: ReportedConnection) -> str:
    return (
        f"/{connection.peer_name}[1](queued={connection.held_count},"
        f"recved={connection.received_count},sent={connection.sent_count}"
    )


def _connection_line(connection: ReportedConnection) -> str:
    counts = _connection_counts(connection)
    return f"{counts},sid={connection.session_id:#x},lop={connection.last_op})"


def _cons(server: ReportedServer) -> str:
    return "".join(f" {_connection_line(each)}\n" for each in server.connections) + "\n"


def _crst(server: ReportedServer) -> str:
    for connection in server.connections:
        connection.received_count = connection.sent_count = 0
    return "Connection stats reset.\n"


def _srst(server: ReportedServer) -> str:
    server.metrics.reset()
    return "Server stats reset.\n"


def _mntr(server: ReportedServer) -> str:
    metrics = server.metrics
    tree, watches = server.service.state.tree, server.service.watches
    values: dict[str, object] = {
        "version": _version(),
        "server_state": "standalone",
        "avg_latency": f"{metrics.latency_avg_ms:.4f}",
        "max_latency": f"{metrics.latency_max_ms:.0f}",
        "min_latency": f"{metrics.latency_min_ms:.0f}",
        "packets_received": metrics.received_count,
        "packets_sent": metrics.sent_count,
        "num_alive_connections": len(server.connections),
        "outstanding_requests": server.unsynced_count,
        "znode_count": tree.node_count,
        "watch_count": watches.data.watch_count + watches.children.watch_count,
        "ephemerals_count": sum(len(owned) for owned in tree.ephemerals.values()),
        "global_sessions": len(server.service.sessions),
        "approximate_data_size": tree.data_bytes,
        "open_file_descriptor_count": _open_files(),
        "max_file_descriptor_count": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "uptime": server.uptime_ms,
        "expired_session_count": metrics.expired_count,
        "connection_rejected_count": metrics.rejected_count,
        "stall_count": metrics.stall_count,
        "resident_bytes": _resident_bytes(),
        "wal_sync_count": server.sync_count,
        "synced_zxid": server.synced_zxid,
        "unsynced_count": server.unsynced_count,
    }
    return "".join(f"zk_{name}\t{value}\n" for name, value in values.items())


def _resident_bytes() -> int:
    """Return the memory in use now; the kernel's maximum would include that of the parent."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return -1
    return int(pages) * resource.getpagesize()


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only, and cheap
    except OSError:
        return -1


def _conf(server: ReportedServer) -> str:
    config, secure = server.config, server.bound_tls_port
    values: dict[str, object] = {
        "clientPort": server.bound_port,
        **({} if secure is None else {"secureClientPort": secure}),
        "tickTime": config.tick_ms,
        "maxClientCnxns": config.max_connections_per_address,
        "minSessionTimeout": config.min_session_timeout_ms,
        "maxSessionTimeout": config.max_session_timeout_ms,
        "lingerMs": config.linger_ms,
        "walFsync": "always" if config.does_sync else "off",
        "serverId": config.server_id,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _envi(_server: ReportedServer) -> str:
    return (
        "Environment:\n"
        f"zookeeper.version={_version()}\n"
        f"host.name={platform.node()}\n"
        f"python.version={platform.python_version()}\n"
        f"os.name={platform.system()}\n"
        f"os.arch={platform.machine()}\n"
        f"os.version={platform.release()}\n"
        f"user.dir={Path.cwd()}\n"
    )


def _dump(server: ReportedServer) -> Iterator[str]:
    return _in_parts(_dump_lines(server.service))


def _dump_lines(service: Service) -> Iterator[str]:
    sessions, owned = list(service.sessions), list(service.state.tree.ephemerals.items())
    yield f"SessionTracker dump:\nSession count: {len(sessions)}\n"
    for each in sessions:
        yield f"{each.session_id:#x}\t{each.timeout_ms}ms\n"
    yield f"ephemeral nodes dump:\nSessions with Ephemerals ({len(owned)}):\n"
    for session_id, paths in owned:
        yield f"{session_id:#x}:\n"
        for path in list(paths):
            yield f"\t{path}\n"


def _wchs(server: ReportedServer) -> Iterator[str]:
    watches = server.service.watches
    watchers = {*watches.data.by_watcher(), *watches.children.by_watcher()}
    fewer, more = sorted((watches.data.by_path(), watches.children.by_path()), key=len)
    common_count, paths = 0, iter(list(fewer))
    while part := list(islice(paths, PART_LINES)):
        common_count += sum(path in more for path in part)
        yield ""
    path_count = len(fewer) + len(more) - common_count
    total = watches.data.watch_count + watches.children.watch_count
    yield f"{len(watchers)} connections watching {path_count} paths\nTotal watches:{total}\n"


def _wchc(server: ReportedServer) -> Iterator[str]:
    return _in_parts(_lines_by_session(server.service.watches))


def _lines_by_session(watches: Watches[Peer]) -> Iterator[str]:
    data, children = watches.data.by_watcher(), watches.children.by_watcher()
    for watcher in {**data, **children}:
        yield f"{watcher.session_id:#x}\n"
        for path in _union(data.get(watcher, ()), children.get(watcher, ())):
            yield f"\t{path}\n"


def _wchp(server: ReportedServer) -> Iterator[str]:
    return _in_parts(_lines_by_path(server.service.watches))


def _lines_by_path(watches: Watches[Peer]) -> Iterator[str]:
    data, children = watches.data.by_path(), watches.children.by_path()
    for path in _union(data, children):
        watchers = {**data.get(path, {}), **children.get(path, {})}
        if watchers:
            yield f"{path}\n"
        for watcher in watchers:
            yield f"\t{watcher.session_id:#x}\n"


def _union(paths: Iterable[str], others: Iterable[str]) -> Iterator[str]:
    """Yield each path once, though both may change meanwhile; each has no path twice."""
    # Copies, of which one of a million paths takes 10 ms.
    first, second, seen = list(paths), list(others), set[str]()
    for path in first:
        if second:
            seen.add(path)
        yield path
    for path in second:
        if path not in seen:
            yield path


def _in_parts(lines: Iterator[str]) -> Iterator[str]:
    while part := list(islice(lines, PART_LINES)):
        yield "".join(part)


COMMANDS: Final[Mapping[bytes, Callable[[ReportedServer], str | Iterator[str]]]] = {
    b"ruok": _ruok,
    b"isro": _isro,
    b"srvr": _srvr,
    b"stat": _stat,
    b"cons": _cons,
    b"crst": _crst,
    b"srst": _srst,
    b"mntr": _mntr,
    b"conf": _conf,
    b"envi": _envi,
    b"dump": _dump,
    b"wchs": _wchs,
    b"wchc": _wchc,
    b"wchp": _wchp,
}
