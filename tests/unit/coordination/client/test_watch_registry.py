"""Callbacks of events, and requests that set watches again."""

from coordination.client.watch_registry import (
    REARM_BATCH_BYTES,
    Kind,
    WatchEvent,
    WatchRegistry,
)
from coordination.protocol.messages import EventType, SetWatches2Request, SetWatchesRequest


def first(_event: WatchEvent) -> None:
    """Do nothing, as a first callback."""


def second(_event: WatchEvent) -> None:
    """Do nothing, as a second callback."""


def test_a_one_shot_callback_is_called_once() -> None:
    registry = WatchRegistry()
    registry.add(Kind.DATA, "/a", first)
    registry.add(Kind.DATA, "/a", first)
    assert registry.hit(EventType.NODE_CHILDREN_CHANGED, "/a") == []
    assert registry.hit(EventType.NODE_DATA_CHANGED, "/a") == [first]
    assert registry.hit(EventType.NODE_DATA_CHANGED, "/a") == []


def test_a_deletion_triggers_each_callback_of_the_node_once() -> None:
    registry = WatchRegistry()
    for kind in (Kind.DATA, Kind.CHILD, Kind.PERSISTENT):
        registry.add(kind, "/a", first)
    registry.add(Kind.CHILD, "/a", second)
    assert registry.hit(EventType.NODE_DELETED, "/a") == [first, second]


def test_rearming_includes_every_watch_and_prefers_the_older_request() -> None:
    registry = WatchRegistry()
    registry.add(Kind.DATA, "/d", first)
    registry.add(Kind.EXIST, "/e", first)
    registry.add(Kind.CHILD, "/c", first)
    assert list(registry.rearm(9)) == [SetWatchesRequest(9, ["/d"], ["/e"], ["/c"])]
    registry.add(Kind.PERSISTENT, "/p", first)
    assert list(registry.rearm(9)) == [SetWatches2Request(9, ["/d"], ["/e"], ["/c"], ["/p"], ())]


def test_many_watches_are_rearmed_in_batches() -> None:
    registry = WatchRegistry()
    paths = [f"/{'x' * 1000}-{n}" for n in range(500)]
    for path in paths:
        registry.add(Kind.CHILD, path, first)
    requests = list(registry.rearm(1))
    assert len(requests) > 3
    assert [path for request in requests for path in request.child_watches] == paths
    for request in requests:
        assert sum(map(len, request.child_watches)) <= REARM_BATCH_BYTES


def test_no_watch_is_rearmed_after_an_expiry() -> None:
    registry = WatchRegistry()
    registry.add(Kind.PERSISTENT, "/a", first)
    registry.clear()
    assert list(registry.rearm(1)) == []


def test_removed_callbacks_get_no_events() -> None:
    registry = WatchRegistry()
    for path in ("/a", "/b"):
        registry.add(Kind.DATA, path, first)
        registry.add(Kind.PERSISTENT, path, second)
    registry.remove("/a")
    assert registry.hit(EventType.NODE_DATA_CHANGED, "/a") == []
    assert registry.hit(EventType.NODE_DATA_CHANGED, "/b") == [first, second]
