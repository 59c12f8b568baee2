"""Four-letter words (decision): commands of operators, with text as response."""

import os
import platform
import resource
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from coordination.server.server import Server
    from coordination.server.server_connection import Connection

# Clients parse the leading three numbers to detect the features of the server.
FEATURE_LEVEL: Final = "3.8.0"


class Report(NamedTuple):
    """Data for the responses."""

    server: "Server"
    wal: Mapping[str, object]


def respond(command: str, report: Report, connection: "Connection") -> str:
    """Return the response to `command`."""
    return COMMANDS[command.encode()](report, connection)


def refusal(command: str) -> str:
    """Return the response to a disabled command, in ZooKeeper's words."""
    return f"{command} is not executed because it is not in the whitelist.\n"


def _version() -> str:
    try:
        own = metadata.version("ottla")
    except metadata.PackageNotFoundError:
        own = "0"
    return f"{FEATURE_LEVEL}-ottla-{own}, built on 2026-11-21 00:00 UTC"


def _ruok(_report: Report, _connection: "Connection") -> str:
    return "imok"


def _isro(_report: Report, _connection: "Connection") -> str:
    return "rw"


def _srvr(report: Report, _connection: "Connection") -> str:
    return f"Zookeeper version: {_version()}\n{_statistics(report)}"


def _stat(report: Report, _connection: "Connection") -> str:
    clients = "".join(f" {_connection_line(each)}\n" for each in report.server.connections)
    return f"Zookeeper version: {_version()}\nClients:\n{clients}\n{_statistics(report)}"


def _statistics(report: Report) -> str:
    server, metrics = report.server, report.server.metrics
    latency = (
        f"{metrics.latency_min_ms:.0f}/{metrics.latency_avg_ms:.4f}/{metrics.latency_max_ms:.0f}"
    )
    return (
        f"Latency min/avg/max: {latency}\n"
        f"Received: {metrics.received_count}\n"
        f"Sent: {metrics.sent_count}\n"
        f"Connections: {len(server.connections)}\n"
        f"Outstanding: {report.wal['unsynced_count']}\n"
        f"Zxid: {server.synced_zxid:#x}\n"
        "Mode: standalone\n"
        f"Node count: {server.service.state.tree.node_count}\n"
    )


def _connection_line(connection: "Connection") -> str:
    return (
        f"/{connection.peer_name}[1](queued={connection.held_count},"
        f"recved={connection.received_count},sent={connection.sent_count},"
        f"sid={connection.session_id:#x},lop={connection.last_op})"
    )


def _cons(report: Report, _connection: "Connection") -> str:
    return "".join(f" {_connection_line(each)}\n" for each in report.server.connections) + "\n"


def _crst(report: Report, _connection: "Connection") -> str:
    for connection in report.server.connections:
        connection.received_count = connection.sent_count = 0
    return "Connection stats reset.\n"


def _srst(report: Report, _connection: "Connection") -> str:
    report.server.metrics.reset()
    return "Server stats reset.\n"


def _mntr(report: Report, _connection: "Connection") -> str:
    server, metrics = report.server, report.server.metrics
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
        "outstanding_requests": report.wal["unsynced_count"],
        "znode_count": tree.node_count,
        "watch_count": watches.data.watch_count + watches.children.watch_count,
        "ephemerals_count": sum(len(owned) for owned in tree.ephemerals.values()),
        "global_sessions": len(server.service.sessions),
        "approximate_data_size": tree.data_bytes,
        "open_file_descriptor_count": _open_files(),
        "max_file_descriptor_count": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "uptime": int((server.loop.time() - server.started_at_s) * 1000),
        "expired_session_count": metrics.expired_count,
        "connection_rejected_count": metrics.rejected_count,
        "stall_count": metrics.stall_count,
        "resident_bytes": _resident_bytes(),
        **report.wal,
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


def _conf(report: Report, _connection: "Connection") -> str:
    config = report.server.config
    return (
        f"clientPort={report.server.bound_port}\n"
        f"tickTime={config.tick_ms}\n"
        f"maxClientCnxns={config.max_connections_per_address}\n"
        f"minSessionTimeout={config.min_session_timeout_ms}\n"
        f"maxSessionTimeout={config.max_session_timeout_ms}\n"
        f"lingerMs={config.linger_ms}\n"
        f"walFsync={'always' if config.does_sync else 'off'}\n"
        f"serverId={config.server_id}\n"
    )


def _envi(_report: Report, _connection: "Connection") -> str:
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


def _dump(report: Report, _connection: "Connection") -> str:
    service = report.server.service
    lines = [f"SessionTracker dump:\nSession count: {len(service.sessions)}"]
    lines += [f"{each.session_id:#x}\t{each.timeout_ms}ms" for each in service.sessions]
    owned = service.state.tree.ephemerals
    lines.append(f"ephemeral nodes dump:\nSessions with Ephemerals ({len(owned)}):")
    for session_id, paths in owned.items():
        lines.append(f"{session_id:#x}:")
        lines += [f"\t{path}" for path in paths]
    return "\n".join(lines) + "\n"


def _wchs(report: Report, _connection: "Connection") -> str:
    watches = report.server.service.watches
    watchers = {*watches.data.by_watcher(), *watches.children.by_watcher()}
    paths = {*watches.data.by_path(), *watches.children.by_path()}
    total = watches.data.watch_count + watches.children.watch_count
    return f"{len(watchers)} connections watching {len(paths)} paths\nTotal watches:{total}\n"


def _wchc(report: Report, _connection: "Connection") -> str:
    lines: dict[str, dict[str, None]] = {}
    watches = report.server.service.watches
    for table in (watches.data, watches.children):
        for path, watchers in table.by_path().items():
            for watcher in watchers:
                lines.setdefault(f"{watcher.session_id:#x}", {})[path] = None
    return _grouped(lines)


def _wchp(report: Report, _connection: "Connection") -> str:
    lines: dict[str, dict[str, None]] = {}
    watches = report.server.service.watches
    for table in (watches.data, watches.children):
        for path, watchers in table.by_path().items():
            for watcher in watchers:
                lines.setdefault(path, {})[f"{watcher.session_id:#x}"] = None
    return _grouped(lines)


def _grouped(lines: Mapping[str, Mapping[str, None]]) -> str:
    return "".join(
        f"{head}\n" + "".join(f"\t{each}\n" for each in members) for head, members in lines.items()
    )


COMMANDS: Final[Mapping[bytes, Callable[[Report, "Connection"], str]]] = {
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
