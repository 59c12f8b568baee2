"""The structure of the product: imports, inheritance and prose."""

import ast
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts.decision_modules import PACKAGES
from scripts.prose import PLACES, files, hits_in
from tests.unit.sources import forget_trees, nodes_of, tree_of

__all__ = ["forget_trees"]
ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
}
SERVER = {"broker", "controller", "clusterstate", "coordination", "storage"}
# Prefixes of the names by which a process reaches outside its event loop (ADR 0070). The simulated
# worlds replace them in tests/simulation/world/outside.py.
OUTSIDE = {
    "clock": ("time.", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today"),
    "dice": ("random.", "secrets.", "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getrandom"),
    "thread": ("threading.Thread", "threading.Timer", "concurrent.futures.", "asyncio.to_thread"),
    "socket": ("socket.socket", "socket.create_", "socket.from", "socket.get"),
    "file": (
        "open",
        "io.open",
        "io.FileIO",
        "os.open",
        "os.fdopen",
        "tempfile.",
        "fcntl.",
        "mmap.",
    ),
    "process": (
        *(
            "subprocess.",
            "multiprocessing.",
            "signal.",
            "os.fork",
            "os.exec",
            "os.kill",
            "os._exit",
        ),
        "os.spawn",
    ),
}
# The modules that may. An addition needs a line in `outside.py`, or the worlds cannot repeat it.
SEAMS = {
    "clock": {
        "broker.log_setup",
        "broker.node",
        "broker.security.oauth.key_set_reader",
        "coordination.client.heartbeat",
        "coordination.server.coordinator",
        "coordination.server.coordinator_log",
        "ottla.cli.commands.backup",
        "ottla.cli.commands.groups",
        "ottla.cli.commands.logs",
        "ottla.cli.up.preparing",
        "ottla.cli.perf_run",
        "ottla.cli.transfer",
        "ottla.cli.up.supervisor",
        "ottla.cli.up.table_observations",
        "ottla.console.web.serving",
        "ottla.client.admin.admin",
        "ottla.client.producer.producer",
        "ottla.zookeeper.consumer",
        "storage.compaction.cleaner",
        "storage.compaction.worker",
        "storage.directory.load_progress",
        "ottla.testing.launching",
        "ottla.testing.server",
    },
    "dice": {
        "broker.cluster.cluster_topics",
        "broker.cluster.controller_role",
        "broker.cluster.embedded_coordinator",
        "broker.cluster.member",
        "broker.cluster.peer_security",
        "broker.groups.group_coordinator",
        "broker.handlers.delegation_tokens",
        "broker.node",
        "broker.secured_listeners",
        "coordination.client.client",
        "coordination.server.coordinator",
        "coordination.server.disk.data_dir",
        "ottla.cli.up.coordinator_login",
        "ottla.cli.up.authority",
        "ottla.cli.up.console_child",
        "ottla.cli.up.cluster_resources",
        "ottla.cli.up.security_folder",
        "ottla.console.web.serving",
        "ottla.client.admin.admin_users",
        "ottla.client.network.authenticate",
        "ottla.client.network.cluster",
        "ottla.client.producer.producer",
        "ottla.client.security",
        "ottla.zookeeper.consumer",
        "ottla.zookeeper.group",
        "ottla.zookeeper.producer",
        "storage.compaction.worker",
        "storage.disk.layout",
        "ottla.testing.topics",
    },
    "thread": {
        "broker.handlers.long_produce",
        "broker.node",
        "broker.security.oauth.key_set_reader",
        "coordination.client.heartbeat",
        "coordination.server.disk.journal",
        "ottla.cli.record_source",
        "ottla.client.network.authenticate",
        "ottla.sync",
        "ottla.console.web.detail_routes",
        "storage.directory.log_directory",
        "storage.directory.opening",
        "ottla.testing.client_thread",
    },
    "socket": {
        "broker.network.acceptor",
        "broker.serving",
        "coordination.server.listeners",
        "ottla.cli.up.cluster_resources",
        "ottla.cli.up.joining",
        "ottla.testing.network.control",
        "ottla.testing.reserved_port",
        "speedups.service_manager",
        "ottla.console.web.serving",
        "ottla.zookeeper.consumer",
    },
    "file": {
        "ottla.cli.__main__",
        "broker.network.buffer_pool",
        "coordination.client.session_file",
        "coordination.server.disk.data_dir",
        "coordination.server.disk.wal_writer",
        "kafkawire.compression",
        "kafkawire.response_receiver",
        "logcheck.local_file",
        "monitoring.log_lines",
        "ottla.cli.backup.copying",
        "ottla.cli.backup.writing",
        "ottla.cli.up.coordinator_login",
        "ottla.cli.up.cluster_resources",
        "ottla.cli.up.output",
        "ottla.cli.up.private_file",
        "storage.directory.directory_lock",
        "storage.disk.checkpoint",
        "storage.disk.space_reserve",
        "storage.segment.index_file",
        "storage.segment.log_file",
        "storage.segment.segment_files",
        "storage.segment.transaction_index_file",
        "trust.tls_store",
        "ottla.launcher.children",
        "ottla.testing.network.control",
        "ottla.testing.workplace",
    },
    "process": {
        "speedups.stop_signals",
        "coordination.server.coordinator",
        "coordination.server.disk.snapshotter",
        "ottla.cli.__main__",
        "ottla.cli.commands.coordinator",
        "ottla.cli.console_run",
        "ottla.cli.termination",
        "ottla.cli.up.console_child",
        "ottla.cli.up.events",
        "ottla.cli.up.process",
        "ottla.cli.up.running",
        "ottla.cli.up.supervisor",
        "storage.compaction.worker",
        "ottla.launcher.children",
        "ottla.launcher.commands",
        "ottla.testing.launching",
        "ottla.testing.server",
    },
}
# PySpark looks for the method that only the subclass has.
INHERITED_ONCE = {"analytics.data_source.SegmentReader"}


def imports() -> dict[str, set[str]]:
    """Return the modules of ours that each module imports, also inside functions."""
    found: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        found[name] = {
            f"{node.module}.{alias.name}"
            if f"{node.module}.{alias.name}" in MODULES
            else node.module
            for node in nodes_of(path)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        } & MODULES.keys() - {name}
    return found


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that reach each other, by depth-first search (Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for imported in graph[module]:
            if imported not in order:
                visit(imported)
            if imported in stack:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == order[module]:
            position = stack.index(module)
            if len(stack) - position > 1:
                found.append(sorted(stack[position:]))
            del stack[position:]

    for module in graph:
        if module not in order:
            visit(module)
    return found


def bases_by_class() -> dict[str, list[str]]:
    """Return the full names of the bases of each class, by its full name."""
    found: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        classes = [node for node in nodes_of(path) if isinstance(node, ast.ClassDef)]
        names = {node.name: f"{module}.{node.name}" for node in classes}
        names |= {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in nodes_of(path)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in classes:
            bases = [ast.unparse(base).split("[")[0] for base in node.bases]
            found[f"{module}.{node.name}"] = [names.get(base, base) for base in bases]
    return found


def names_used(tree: ast.Module) -> set[str]:
    """Return the full names of imported things that a module uses, apart from annotations."""
    imported = {"open": "open"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {
                each.asname or each.name.split(".")[0]: each.name
                if each.asname
                else each.name.split(".")[0]
                for each in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            imported |= {
                each.asname or each.name: f"{node.module}.{each.name}" for each in node.names
            }

    def full_name(node: ast.AST) -> str | None:
        if isinstance(node, ast.Attribute):
            owner = full_name(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        return imported.get(node.id) if isinstance(node, ast.Name) else None

    found: set[str] = set()
    remaining: list[ast.AST] = [tree]
    while remaining:
        node = remaining.pop()
        if (name := full_name(node)) is not None:
            found.add(name)
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns"):
                values = value if isinstance(value, list) else [value]
                remaining += [each for each in values if isinstance(each, ast.AST)]
    return found


def kinds_of_outside(tree: ast.Module) -> set[str]:
    """Return the kinds of things outside the event loop that a module uses."""
    names = names_used(tree)
    return {
        kind
        for kind, prefixes in OUTSIDE.items()
        for name in names
        if any(name == each or (name.startswith(each) and each != "open") for each in prefixes)
    }


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("import time\ndef f(clock=time.monotonic): ...", {"clock"}),
        ("from time import time_ns as now\nnow()", {"clock"}),
        ("import random as dice\ndice.random()", {"dice"}),
        ("from uuid import UUID, uuid4\nuuid4()", {"dice"}),
        ("from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor()", {"thread"}),
        ("import socket\nsocket.create_connection(a)\nopen(b)", {"socket", "file"}),
        ("import subprocess, os\nsubprocess.run(os.environ)", {"process"}),
        ("import os.path\nos.open(a, 0)", {"file"}),
        ("import random\ndef f(chance: random.Random) -> random.Random: ...", set()),
        ("def f(log, time): log.open(time.time())", set()),
        ("from uuid import UUID\nUUID(int=0)", set()),
    ],
)
def test_uses_of_things_outside_the_event_loop_are_recognised(source: str, kinds: set[str]) -> None:
    assert kinds_of_outside(ast.parse(source)) == kinds


def test_only_known_modules_reach_outside_the_event_loop() -> None:
    """Another clock, thread or socket would escape the simulated worlds (ADR 0070)."""
    found: dict[str, set[str]] = {kind: set() for kind in OUTSIDE}
    for module, path in MODULES.items():
        if not module.startswith("analytics"):
            for kind in kinds_of_outside(tree_of(path)):
                found[kind].add(module)
    differing = {kind: found[kind] ^ SEAMS[kind] for kind in OUTSIDE}
    assert not any(differing.values()), f"not as in SEAMS: {differing}"


def test_the_product_limits_waits_with_asyncio_timeout() -> None:
    """`asyncio.wait_for` of Python 3.11 loses a cancellation.

    It returns the result of a future that completes in the same turn of the event loop as the
    cancellation, and the cancelled task runs on.
    """
    losing = [
        module
        for module, path in MODULES.items()
        if "wait_for" in path.read_text(encoding="utf-8")
        if "asyncio.wait_for" in names_used(tree_of(path))
    ]
    assert losing == []


def test_search_finds_a_cycle() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert cycles(graph) == [["b", "c"]]


def test_no_modules_import_each_other() -> None:
    graph = imports()
    assert sum(map(len, graph.values())) > len(graph), "hardly any import was found"
    assert cycles(graph) == []


def test_no_class_is_inherited_by_a_single_other_one() -> None:
    """A class that is inherited once is one object in two places: compose it instead.

    Protocols, which have few implementations by nature, and exceptions are exempt.
    """
    bases = bases_by_class()
    heirs = defaultdict(list)
    for name in bases:
        for base in bases[name]:
            heirs[base].append(name)
    once = {
        name: heirs[name]
        for name in bases
        if len(heirs[name]) == 1
        and "typing.Protocol" not in bases[name]
        and not name.endswith(("Error", "Exception"))
    }
    assert len(heirs) > 20, "hardly any class was found"
    assert once.keys() == INHERITED_ONCE, once


def test_modules_of_the_server_have_names_of_their_own() -> None:
    names = Counter(
        name.rpartition(".")[2]
        for name, path in MODULES.items()
        # A handler has the name of its messages.
        if name.partition(".")[0] in SERVER
        and path.parent.name != "handlers"
        and path.name != "__init__.py"
    )
    shared = {name for name, count in names.items() if count > 1}
    assert shared <= {"__main__", "daemon", "errors"}


def test_prose_follows_the_rules() -> None:
    """`python -m scripts.prose` prints the same hits."""
    assert [str(hit) for path in files(list(PLACES)) for hit in hits_in(path)] == []
