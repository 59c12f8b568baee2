"""The exported snapshot equals, byte for byte, one that ZooKeeper 3.8.0 has loaded."""

import json
import zlib
from pathlib import Path

import pytest

import coordination.__main__
from coordination.errors import DataError
from coordination.protocol.messages import OPEN_ACL
from coordination.server.disk import state_snapshot
from coordination.server.disk.data_dir import DataDir, snapshot_path
from coordination.server.disk.zookeeper_export import export_zookeeper
from coordination.server.state.tree import Node, State
from coordination.server.state.txns import CONTAINER_OWNER, ttl_owner

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "zookeeper_frames.json").read_text())
NATIVE = GOLDEN["native_snapshot_accepted_by_3.8.0"]
SESSION_ID = 0x0100AABBCCDD0001
BORN_MS = 1_700_000_000_000
CLOSING = b"\0\0\0\1/"


def node(data: bytes, zxid: int, **fields: int) -> Node:
    made = Node(data, OPEN_ACL, 0, zxid, fields.pop("ctime", 0))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def captured_state() -> State:
    state = State()
    state.timeouts_ms[SESSION_ID] = 30_000
    tree = state.tree
    tree.nodes["/zookeeper/config"].acl, tree.nodes["/zookeeper/config"].aversion = OPEN_ACL, 0
    tree.nodes[""].cversion = 3
    epoch = node(b"7", 16, mzxid=2304, ctime=BORN_MS, mtime=BORN_MS, version=7)
    tree.restore("/controller_epoch", epoch)
    tree.restore("/brokers", node(b"", 17, cversion=1, pzxid=18))
    tree.restore("/brokers/ids", node(b"", 18, cversion=5, pzxid=4096))
    broker = node(b'{"version":5}', 4096, version=1, owner=SESSION_ID)
    tree.restore("/brokers/ids/1", broker)
    state.zxid = 0x1234
    return state


def parts(data: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Split a snapshot into the part before the nodes, the sorted nodes, and the remainder."""
    position = start = 36
    nodes = []
    while data[position : position + 5] != CLOSING:
        begin = position
        position += 4 + int.from_bytes(data[position : position + 4])
        position += 4 + int.from_bytes(data[position : position + 4]) + 8 + 60
        nodes.append(data[begin:position])
    return data[:start], sorted(nodes), data[position:]


def test_the_export_equals_a_snapshot_that_zookeeper_accepted(tmp_path: Path) -> None:
    path = export_zookeeper(captured_state(), tmp_path)
    assert path.relative_to(tmp_path) == Path(NATIVE["file_name"])
    ours, native = parts(path.read_bytes()), parts(bytes.fromhex(NATIVE["hex"]))
    assert ours[:2] == native[:2]
    assert len(ours[2]) == len(native[2])


def test_both_checksums_cover_all_bytes_before_them(tmp_path: Path) -> None:
    for data in (
        export_zookeeper(captured_state(), tmp_path).read_bytes(),
        bytes.fromhex(NATIVE["hex"]),
    ):
        first = len(data) - len(parts(data)[2]) + len(CLOSING)
        for position in (first, len(data) - 13):
            checksum = int.from_bytes(data[position : position + 8])
            assert checksum == zlib.adler32(data[:position])


def test_an_export_to_a_used_directory_is_refused(tmp_path: Path) -> None:
    export_zookeeper(State(), tmp_path)
    with pytest.raises(DataError, match="not empty"):
        export_zookeeper(State(), tmp_path)


@pytest.mark.parametrize("ttl_count", [0, 2])
def test_the_command_names_the_property_without_which_an_ensemble_deletes_ttl_nodes(
    ttl_count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(coordination.__main__, "set_up_logging", lambda: None)
    state = captured_state()
    state.tree.restore("/box", node(b"", 19, owner=CONTAINER_OWNER))
    for number in range(ttl_count):
        state.tree.restore(f"/ttl-{number}", node(b"", 20, owner=ttl_owner(1_000)))
    source = DataDir(tmp_path / "ours")
    identity = source.identity
    state_snapshot.write(snapshot_path(source.path, state.zxid), state, identity.store_id, 0)
    source.close()
    options = [f"--data-dir={source.path}", f"--export-zookeeper={tmp_path / 'theirs'}"]
    assert coordination.__main__.main(options) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("written: ")
    expected = (
        "ottla coordinator: the export has TTL nodes (2): start every member of the ensemble with "
        "-Dzookeeper.extendedTypesEnabled=true, or it deletes them at its first start.\n"
    )
    assert printed.err == (expected if ttl_count else "")
