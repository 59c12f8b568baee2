"""ZooKeeper's own shell prints the same for our coordinator as for a ZooKeeper server."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.coordination.process import (
    CLASSPATH,
    Coordinator,
    ServerProcess,
    ZooKeeper,
    has_zookeeper,
)

pytestmark = pytest.mark.skipif(not has_zookeeper(), reason="needs Debian's zookeeper and java")
SHELL_TIMEOUT_S = 120
COMMANDS = """
create /cli first
create -e /cli-eph x
create -s /cli/seq- x
create -e -s /cli/es- x
create -c /cli/box
create -t 100000 /cli/ttl t
ls /
ls -s /cli
ls -R /cli
ls -w /cli
stat /cli
stat -w /cli
get -s /cli
set -s /cli second
set -v 7 /cli third
get /none
create /cli/a/b x
create /cli again
delete /cli
delete -v 9 /cli/box
delete /cli/box
getAcl -s /cli
setAcl /cli world:anyone:cdrwa
addauth digest bob:secret
setAcl /cli/ttl auth::crdwa
getAcl /cli/ttl
whoami
getAllChildrenNumber /cli
getEphemerals
getEphemerals /cli
addWatch /cli
addWatch -m PERSISTENT /cli/ttl
create /cli/watched
removewatches /cli
sync /cli
deleteall /cli
ls /
"""
# Output that differs from run to run, or comes from the terminal library.
VARYING = [
    (re.compile(r"0x[0-9a-f]+"), "ZXID"),
    (re.compile(r"(?m)^([cm]time = ).*$"), r"\1TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"localhost:\d+"), "ADDRESS"),
    (re.compile(r"\[zk: [^]]*\] ?"), ""),
    (re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]"), ""),
]


def shell(server: ServerProcess) -> list[str]:
    done = subprocess.run(
        [
            "java",
            "-cp",
            CLASSPATH,
            "org.apache.zookeeper.ZooKeeperMain",
            "-server",
            server.address,
        ],
        input=COMMANDS,
        capture_output=True,
        text=True,
        timeout=SHELL_TIMEOUT_S,
        check=False,
    )
    text = done.stdout + done.stderr
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    lines = [line.strip() for line in text.splitlines()]
    # Events arrive in another thread, and lists have the order of a hash set.
    return sorted(_canonical(line) for line in lines if line and "SLF4J" not in line)


def _canonical(line: str) -> str:
    found = re.fullmatch(r"\[(.*)\]", line)
    return f"[{', '.join(sorted(found[1].split(', ')))}]" if found else line


def test_zkcli_prints_the_same(tmp_path: Path) -> None:
    ours = Coordinator(tmp_path / "ours", "--min-session-timeout=4000")
    theirs = ZooKeeper(tmp_path / "theirs")
    theirs.start()
    try:
        our_lines, their_lines = shell(ours), shell(theirs)
    finally:
        ours.kill()
        theirs.kill()
    assert our_lines == their_lines
    assert "Created /cli/seq-0000000000" in our_lines
    assert len(our_lines) > 60
