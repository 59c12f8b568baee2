"""Watch events of a change: their receivers and their order."""

from collections import Counter
from collections.abc import Iterator

import pytest

from coordination.errors import ErrorCode
from coordination.protocol import node_path
from coordination.protocol.messages import (
    Acl,
    AddWatchMode,
    AddWatchRequest,
    CreateFlag,
    DeleteRequest,
    EventType,
    OpCode,
    ReadRequest,
    SetDataRequest,
    SetWatches2Request,
    SetWatchesRequest,
    WatcherType,
    WatchesRequest,
)
from coordination.server.state.acl import digest_identity
from coordination.server.state.watches import MAX_REMOVALS, Mode, WatchTable
from tests.unit.coordination.fakes import FakePeer, peer, service

CREATED, DELETED = EventType.NODE_CREATED, EventType.NODE_DELETED
CHANGED, CHILDREN = EventType.NODE_DATA_CHANGED, EventType.NODE_CHILDREN_CHANGED


def two_peers() -> tuple[FakePeer, FakePeer]:
    shared = service()
    return peer(shared), peer(shared)


def test_several_registrations_on_one_path_make_one_event() -> None:
    writer, watcher = two_peers()
    writer.create("/a")
    watcher.ask(OpCode.GET_DATA, ReadRequest("/a", True))
    watcher.ask(OpCode.EXISTS, ReadRequest("/a", True))
    writer.ask(OpCode.SET_DATA, SetDataRequest("/a", b"1", -1))
    writer.ask(OpCode.SET_DATA, SetDataRequest("/a", b"2", -1))
    assert watcher.seen == [(CHANGED, "/a")]


def test_a_child_watch_fires_once_for_two_children() -> None:
    writer, watcher = two_peers()
    writer.create("/a")
    watcher.ask(OpCode.GET_CHILDREN2, ReadRequest("/a", True))
    writer.create("/a/1")
    writer.create("/a/2")
    assert watcher.seen == [(CHILDREN, "/a")]
    assert len(watcher.ask(OpCode.GET_CHILDREN, ReadRequest("/a", False)).children) == 2


def test_exists_watches_a_missing_node_and_getdata_does_not() -> None:
    writer, watcher = two_peers()
    assert watcher.ask(OpCode.EXISTS, ReadRequest("/a", True)) == ErrorCode.NO_NODE
    assert watcher.ask(OpCode.GET_DATA, ReadRequest("/b", True)) == ErrorCode.NO_NODE
    assert watcher.ask(OpCode.GET_CHILDREN, ReadRequest("/b", True)) == ErrorCode.NO_NODE
    writer.create("/a")
    writer.create("/b")
    assert watcher.seen == [(CREATED, "/a")]


def test_a_connection_with_both_watches_gets_one_deletion_event() -> None:
    writer, watcher = two_peers()
    writer.create("/a")
    watcher.ask(OpCode.GET_DATA, ReadRequest("/a", True))
    watcher.ask(OpCode.GET_CHILDREN, ReadRequest("/a", True))
    watcher.ask(OpCode.GET_CHILDREN, ReadRequest("/", True))
    writer.ask(OpCode.DELETE, DeleteRequest("/a", -1))
    assert watcher.seen == [(DELETED, "/a"), (CHILDREN, "/")]


def test_the_writer_gets_an_event_for_its_own_change() -> None:
    client = peer(service())
    client.ask(OpCode.EXISTS, ReadRequest("/a", True))
    client.create("/a")
    assert client.seen == [(CREATED, "/a")]
    assert client.tags == [client.service.state.zxid]


def test_a_persistent_watch_stays() -> None:
    writer, watcher = two_peers()
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/a", 0))
    writer.create("/a")
    writer.ask(OpCode.SET_DATA, SetDataRequest("/a", b"", -1))
    writer.create("/a/b")
    writer.ask(OpCode.SET_DATA, SetDataRequest("/a/b", b"", -1))
    assert watcher.seen == [(CREATED, "/a"), (CHANGED, "/a"), (CHILDREN, "/a")]


def test_a_recursive_watch_gets_no_children_changed_events() -> None:
    writer, watcher = two_peers()
    writer.create("/a")
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/a", 1))
    writer.create("/a/b")
    writer.create("/a/b/c")
    writer.ask(OpCode.SET_DATA, SetDataRequest("/a/b/c", b"", -1))
    writer.create("/ab")
    writer.ask(OpCode.DELETE, DeleteRequest("/a/b/c", -1))
    assert watcher.seen == [
        (CREATED, "/a/b"),
        (CREATED, "/a/b/c"),
        (CHANGED, "/a/b/c"),
        (DELETED, "/a/b/c"),
    ]


def test_a_recursive_watch_on_the_root_gets_each_event_once() -> None:
    writer, watcher = two_peers()
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/", 1))
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/a", 1))
    writer.create("/a")
    writer.create("/a/b")
    assert watcher.seen == [(CREATED, "/a"), (CREATED, "/a/b")]


def test_watches_can_be_checked_and_removed() -> None:
    writer, watcher = two_peers()
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/a", 0))
    anything = WatchesRequest("/a", WatcherType.ANY)
    assert watcher.ask(OpCode.CHECK_WATCHES, anything) is None
    assert watcher.ask(OpCode.REMOVE_WATCHES, anything) is None
    assert watcher.ask(OpCode.REMOVE_WATCHES, anything) == ErrorCode.NO_WATCHER
    assert watcher.ask(OpCode.CHECK_WATCHES, WatchesRequest("/a", 5)) == ErrorCode.MARSHALLING_ERROR
    writer.create("/a")
    assert watcher.seen == []


def test_set_watches_sends_missed_events_and_sets_the_other_watches() -> None:
    writer, watcher = two_peers()
    for path in ("/same", "/changed", "/gone", "/parent", "/quiet"):
        writer.create(path)
    since = writer.service.state.zxid
    writer.ask(OpCode.SET_DATA, SetDataRequest("/changed", b"", -1))
    writer.ask(OpCode.DELETE, DeleteRequest("/gone", -1))
    writer.create("/parent/child")
    writer.create("/born")
    watcher.ask(
        OpCode.SET_WATCHES,
        SetWatchesRequest(
            since,
            ("/same", "/changed", "/gone"),
            ("/born", "/unborn"),
            ("/parent", "/gone", "/quiet"),
        ),
    )
    assert watcher.seen == [
        (CHANGED, "/changed"),
        (DELETED, "/gone"),
        (CREATED, "/born"),
        (CHILDREN, "/parent"),
        (DELETED, "/gone"),
    ]
    watcher.seen.clear()
    writer.ask(OpCode.SET_DATA, SetDataRequest("/same", b"", -1))
    writer.create("/unborn")
    writer.create("/quiet/child")
    assert watcher.seen == [(CHANGED, "/same"), (CREATED, "/unborn"), (CHILDREN, "/quiet")]


def test_set_watches_sets_persistent_watches_without_missed_events() -> None:
    writer, watcher = two_peers()
    writer.create("/p")
    writer.create("/r")
    watcher.ask(OpCode.SET_WATCHES2, SetWatches2Request(0, (), (), (), ("/p",), ("/r",)))
    assert watcher.seen == []
    writer.create("/p/1")
    writer.create("/r/1")
    assert watcher.seen == [(CHILDREN, "/p"), (CREATED, "/r/1")]


def test_the_end_of_a_session_notifies_the_watchers_of_its_nodes() -> None:
    owner, watcher = two_peers()
    owner.create("/e", b"", CreateFlag.EPHEMERAL)
    watcher.ask(OpCode.GET_DATA, ReadRequest("/e", True))
    owner.service.close_session(owner.session_id, cxid=0, wall_ms=0)
    assert watcher.seen == [(DELETED, "/e")]
    assert watcher.ask(OpCode.EXISTS, ReadRequest("/e", False)) == ErrorCode.NO_NODE


def test_a_lost_connection_leaves_no_watches_behind() -> None:
    writer, watcher = two_peers()
    for mode in (0, 1):
        watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/a", mode))
    watcher.ask(OpCode.GET_CHILDREN, ReadRequest("/", True))
    assert writer.service.forget_peer(watcher)
    writer.create("/a")
    tables = writer.service.watches
    assert watcher.seen == []
    assert (tables.data.watch_count, tables.children.watch_count) == (0, 0)


def test_many_watches_of_a_lost_connection_are_removed_in_parts() -> None:
    writer, watcher = two_peers()
    names = [f"/{number}" for number in range(2 * MAX_REMOVALS + 1)]
    watches = SetWatchesRequest(0, (), names, ())
    watcher.ask(OpCode.SET_WATCHES, watches)
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/", 1))
    writer.ask(OpCode.EXISTS, ReadRequest("/other", True))
    counts = []
    while not writer.service.forget_peer(watcher):
        counts.append(writer.service.watches.data.watch_count)
        # Watches that are still there may fire meanwhile.
        writer.create(
            next(name for name in names if writer.service.watches.data.has(name, watcher))
        )
    assert counts == [MAX_REMOVALS + 3, 2]
    assert writer.service.watches.data.watch_count == 1
    assert writer.service.watches.children.watch_count == 0
    writer.create("/other")
    assert writer.seen == [(CREATED, "/other")]


def test_a_watcher_without_read_permission_gets_no_events() -> None:
    bob = digest_identity(b"bob:1")
    writer, watcher = two_peers()
    for path in ("/a", "/b"):
        watcher.ask(OpCode.EXISTS, ReadRequest(path, True))
    writer.identities = (bob,)
    writer.create("/a", acl=(Acl(31, "digest", bob.id),))
    writer.create("/b", acl=(Acl(31, "digest", bob.id), Acl(1, "world", "anyone")))
    assert watcher.seen == [(CREATED, "/b")]
    watcher.identities = (bob,)
    watcher.ask(OpCode.GET_DATA, ReadRequest("/a", True))
    watcher.identities = ()
    writer.ask(OpCode.DELETE, DeleteRequest("/a", -1))
    assert watcher.seen == [(CREATED, "/b")]


def test_a_persistent_watch_outlasts_a_one_shot_watch_on_the_same_path() -> None:
    writer, watcher = two_peers()
    writer.create("/a")
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/a", AddWatchMode.PERSISTENT))
    watcher.ask(OpCode.GET_DATA, ReadRequest("/a", True))
    for value in (b"1", b"2"):
        writer.ask(OpCode.SET_DATA, SetDataRequest("/a", value, -1))
    assert watcher.seen == [(CHANGED, "/a")] * 2


def test_watches_are_checked_and_removed_by_kind() -> None:
    writer, watcher = two_peers()
    writer.create("/a")
    watcher.ask(OpCode.GET_DATA, ReadRequest("/a", True))
    watcher.ask(OpCode.GET_CHILDREN, ReadRequest("/a", True))
    data = WatchesRequest("/a", WatcherType.DATA)
    children = WatchesRequest("/a", WatcherType.CHILDREN)
    assert watcher.ask(OpCode.REMOVE_WATCHES, data) is None
    assert watcher.ask(OpCode.CHECK_WATCHES, data) == ErrorCode.NO_WATCHER
    assert watcher.ask(OpCode.CHECK_WATCHES, children) is None
    assert watcher.ask(OpCode.REMOVE_WATCHES, children) is None
    assert watcher.ask(OpCode.REMOVE_WATCHES, children) == ErrorCode.NO_WATCHER


def test_a_recursive_watch_has_a_part_for_data_and_one_for_children() -> None:
    writer, watcher = two_peers()
    data = WatchesRequest("/a", WatcherType.DATA)
    children = WatchesRequest("/a", WatcherType.CHILDREN)
    recursive = AddWatchRequest("/a", AddWatchMode.PERSISTENT_RECURSIVE)
    watcher.ask(OpCode.ADD_WATCH, recursive)
    assert watcher.ask(OpCode.CHECK_WATCHES, children) is None
    assert watcher.ask(OpCode.REMOVE_WATCHES, children) is None
    assert watcher.ask(OpCode.REMOVE_WATCHES, children) == ErrorCode.NO_WATCHER
    writer.create("/a")
    writer.ask(OpCode.DELETE, DeleteRequest("/a", -1))
    assert watcher.seen == [(CREATED, "/a"), (DELETED, "/a")]

    watcher.seen.clear()
    watcher.ask(OpCode.SET_WATCHES2, SetWatches2Request(0, (), (), (), (), ("/a",)))
    assert watcher.ask(OpCode.REMOVE_WATCHES, data) is None
    writer.create("/a")
    writer.create("/a/b")
    writer.ask(OpCode.SET_DATA, SetDataRequest("/a/b", b"", -1))
    writer.ask(OpCode.DELETE, DeleteRequest("/a/b", -1))
    assert watcher.seen == [(DELETED, "/a/b")], "only deletions concern the part for children"


def test_a_recursive_watch_hides_no_one_shot_watch_of_children_on_the_same_path() -> None:
    writer, watcher = two_peers()
    writer.create("/a")
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest("/a", AddWatchMode.PERSISTENT_RECURSIVE))
    watcher.ask(OpCode.GET_CHILDREN, ReadRequest("/a", True))
    writer.create("/a/b")
    writer.create("/a/c")
    assert watcher.seen == [(CREATED, "/a/b"), (CHILDREN, "/a"), (CREATED, "/a/c")]


class CountedLengths(Counter[int]):
    """Lengths of recursive watches that count how many of them are visited."""

    visited_count = 0

    def __iter__(self) -> Iterator[int]:
        for length in super().__iter__():
            self.visited_count += 1
            yield length


@pytest.mark.parametrize(
    ("path", "visited_count"),
    [
        pytest.param("/a/b", 0, id="few ancestors"),
        pytest.param("/a" + "/b" * 100, 50, id="many ancestors"),
    ],
)
def test_a_change_visits_ancestors_or_lengths_whichever_are_fewer(
    path: str, visited_count: int
) -> None:
    table: WatchTable[str] = WatchTable()
    lengths = table._recursive_lengths = CountedLengths()
    table.add("/", "root", Mode.RECURSIVE)
    table.add("/a", "parent", Mode.RECURSIVE)
    for length in range(3, 51):
        table.add("/" + "x" * (length - 1), "other", Mode.RECURSIVE)
    assert set(table.fire(path)) == {"root", "parent"}
    assert lengths.visited_count == visited_count


def test_a_path_that_no_node_can_have_is_not_watched() -> None:
    watcher = peer(service())
    longest = "/" + "a" * (node_path.MAX_CHARS - 1)
    paths = (f"{longest}a",)
    refused = [
        watcher.ask(OpCode.EXISTS, ReadRequest(paths[0], True)),
        watcher.ask(OpCode.ADD_WATCH, AddWatchRequest(paths[0], 0)),
        watcher.ask(OpCode.ADD_WATCH, AddWatchRequest(paths[0], 1)),
        watcher.ask(OpCode.SET_WATCHES, SetWatchesRequest(0, (), paths, ())),
        watcher.ask(OpCode.SET_WATCHES2, SetWatches2Request(0, (), (), (), paths, ())),
        watcher.ask(OpCode.SET_WATCHES2, SetWatches2Request(0, (), (), (), (), paths)),
    ]
    assert refused == [ErrorCode.BAD_ARGUMENTS] * len(refused)
    watches = watcher.service.watches
    assert (watches.data.watch_count, watches.children.watch_count) == (0, 0)
    watcher.ask(OpCode.ADD_WATCH, AddWatchRequest(longest, 1))
    assert watches.data.watch_count == 1


def test_the_longest_path_with_a_sequence_can_be_watched() -> None:
    client = peer(service())
    client.service.state.tree.nodes["/"].cversion = -(2**31)
    path = "/" + "a" * (node_path.MAX_CREATED_CHARS - 1)
    created = client.create(path, flags=CreateFlag.PERSISTENT_SEQUENTIAL)
    assert len(created) == node_path.MAX_CHARS
    client.ask(OpCode.EXISTS, ReadRequest(created, True))
    client.ask(OpCode.DELETE, DeleteRequest(created, -1))
    assert client.seen == [(DELETED, created)]
