"""Runs kazoo's own test suite, unchanged, against Ottla's coordinator or ZooKeeper.

    python tests/interop/coordination/kazoo_suite.py [--subset] [--server ours|zookeeper]

The first run needs the network: it installs the source distribution of kazoo and its test
dependencies in `--work-dir` (default `~/.cache/ottla/kazoo`). The suite's own harness starts and
stops the server. Seven tests that cannot pass on any stand-alone server, ZooKeeper included, and
three that race with the server are deselected.
"""

import argparse
import contextlib
import os
import random
import socket
import subprocess
import sys
import tarfile
import venv
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KAZOO = "kazoo-2.11.0"
REQUIREMENTS = [
    "pytest",
    "pytest-timeout",
    "objgraph",
    "gevent>=1.2",
    "eventlet>=0.17.1",
    "pyjks",
    "pyopenssl<24",
    "pure-sasl",
]
NEEDS_AN_ENSEMBLE = [
    "test_client.py::TestClient::test_update_host_list",
    "test_eventlet_handler.py::TestEventletClient::test_update_host_list",
    "test_gevent_handler.py::TestGeventClient::test_update_host_list",
    "test_client.py::TestReconfig::test_add_remove_observer",
    "test_client.py::TestReconfig::test_bad_input",
    "test_client.py::TestReconfig::test_no_super_auth",
    "test_connection.py::TestReadOnlyMode::test_read_only",
]
# Races that a fast server sometimes wins: the response to the large write must not arrive before
# the connection is cut, and the refusal of a login not before `start` has seen the connection.
RACES_WITH_THE_SERVER = [
    "test_connection.py::TestConnectionDrop::test_connection_dropped",
    "test_sasl.py::TestLegacySASLDigestAuthentication::test_invalid_sasl_auth",
    "test_sasl.py::TestSASLDigestAuthentication::test_invalid_sasl_auth",
]
# Takes under a minute: the client, its transactions, locks, elections and a server that stops.
SUBSET = [
    "test_client.py::TestClient",
    "test_client.py::TestClientTransactions",
    "test_client.py::TestAuthentication",
    "test_client.py::TestSSLClient",
    "test_sasl.py::TestLegacySASLDigestAuthentication",
    "test_sasl.py::TestSASLDigestAuthentication",
    "test_connection.py::TestConnectionHandler",
    "test_counter.py",
    "test_election.py",
    "test_queue.py",
    "test_party.py",
    "test_barrier.py",
]
ZOOKEEPER_CLASSPATH = "/usr/share/java/zookeeper.jar:/usr/share/java/*"


# Port range of the suite's servers: first, end (exclusive), ports per server.
PORTS = (20_000, 32_000, 10)


def main(argv: list[str]) -> int:
    options = parse(argv)
    work_dir = options.work_dir.resolve()
    python = prepare(work_dir)
    suite = work_dir / KAZOO / "kazoo" / "tests"
    chosen = [str(suite / name) for name in SUBSET] if options.subset else [str(suite)]
    skipped = [
        f"--deselect={suite.relative_to(suite.parents[1]) / name}"
        for name in (*NEEDS_AN_ENSEMBLE, *RACES_WITH_THE_SERVER)
    ]
    command = [str(python), "-m", "pytest", "-q", "-rs"]
    command += ["-o", "log_cli=false", "-o", "addopts=", "-W", "ignore", *skipped, *chosen]
    command += options.extra

    return subprocess.run(
        command,
        cwd=work_dir / KAZOO,
        env=environment(options.server, work_dir, python, options.port or free_ports()),
        check=False,
    ).returncode


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subset", action="store_true")
    parser.add_argument("--server", choices=["ours", "zookeeper"], default="ours")
    parser.add_argument("--work-dir", type=Path, default=Path.home() / ".cache" / "ottla" / "kazoo")
    parser.add_argument("--port", type=int, default=0, help="first port; 0 finds free ones")
    parsed, extra = parser.parse_known_args(argv)
    parsed.extra = extra
    return parsed


def free_ports() -> int:
    """Return the first of ten free ports, below the system's ephemeral ports."""
    starts = list(range(*PORTS))
    random.shuffle(starts)
    for start in starts:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", start)):
            return start
    raise RuntimeError(f"no free port within {PORTS}")


def prepare(work_dir: Path) -> Path:
    """Download and install missing parts; return the Python to run the suite with."""
    work_dir.mkdir(parents=True, exist_ok=True)
    archive = work_dir / f"{KAZOO}.tar.gz"
    if not archive.exists():
        name, _, version = KAZOO.rpartition("-")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run(
            [*pip, "--no-binary", name, f"{name}=={version}", "-d", str(work_dir)], check=True
        )
    if not (work_dir / KAZOO).exists():
        with tarfile.open(archive) as file:
            if hasattr(tarfile, "data_filter"):
                file.extraction_filter = tarfile.data_filter
            # Older Pythons, such as Debian's 3.11.2, have no filter and need none here.
            file.extractall(work_dir)
    python = work_dir / "venv" / "bin" / "python"
    # Named by its contents, because an older environment lacks some of the requirements.
    state = zlib.crc32(" ".join(REQUIREMENTS).encode())
    is_installed = work_dir / "venv" / f".installed-{state:08x}"
    if not is_installed.exists():
        # Without pip, and not compiled: most modules are never imported.
        venv.create(work_dir / "venv")
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        install = [*pip, "install", "--quiet", "--no-compile"]
        subprocess.run([*install, *REQUIREMENTS, str(work_dir / KAZOO)], check=True)
        is_installed.touch()
    return python


def environment(server: str, work_dir: Path, python: Path, port: int) -> dict[str, str]:
    """Return the variables of kazoo's harness; ours puts a script named `java` first."""
    variables = dict(
        os.environ,
        ZOOKEEPER_CLASSPATH=ZOOKEEPER_CLASSPATH,
        ZOOKEEPER_CLUSTER_SIZE="1",
        ZOOKEEPER_VERSION="3.8.0",
        ZOOKEEPER_PORT_OFFSET=str(port),
        COORDINATOR_PYTHON=sys.executable,
        COORDINATOR_ROOT=str(ROOT),
    )
    if server == "ours":
        shims = work_dir / "shims"
        shims.mkdir(exist_ok=True)
        shim = shims / "java"
        module = Path(__file__).with_name("java_shim.py")
        shim.write_text(f'#!/bin/sh\nexec "{python}" "{module}" "$@"\n')
        shim.chmod(0o755)
        variables["PATH"] = f"{shims}{os.pathsep}{variables['PATH']}"
    return variables


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
