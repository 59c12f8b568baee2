"""A coordinator that is paused for longer than the sessions of its brokers, beside long requests.

The brokers lose their sessions by their own clocks and register again. The coordinator does not
count the time in which it was paused.
"""

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkawire.messages.group_membership import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkawire.messages.produce import ProduceResponse
from tests.conftest import Event
from tests.integration.broker.broker_cluster import IDS, BrokerCluster
from tests.integration.broker.test_groups import find, heartbeat, join, join_request, sync
from tests.integration.broker.wire import Wire, batch, produce_request
from tests.integration.coordination.process import Coordinator, four_letter, wait_until

PATIENCE_MS = 60_000
"""Timeout of the requests; longer than any pause."""
SESSION_TIMEOUT_MS = 2_000
LONG_SESSION_MS = 120_000
STOP_LIMIT_S = 30
"""Less than the time after which a broker gives up its connection to a silent coordinator."""
GROUP = "g"
FETCH_VERSION, JOIN_VERSION, SYNC_VERSION, PRODUCE_VERSION = 12, 9, 5, 9
MOVING = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)

M = TypeVar("M")


@contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def receive(wire: Wire, key: ApiKey, version: int, response: type[M]) -> M:
    _, answer = wire.receive(key, version)
    assert isinstance(answer, response)
    return answer


def is_waiting(wire: Wire) -> bool:
    """Whether the broker has sent neither a response nor an end."""
    return not select.select([wire.socket], [], [], 0)[0]


def send_fetch(wire: Wire, topic: str) -> None:
    """Send a fetch at the end of an empty topic, which waits for a record."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=PATIENCE_MS, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    wire.send(ApiKey.FETCH, FETCH_VERSION, request)


def receive_fetched(wire: Wire) -> PartitionData:
    answer = receive(wire, ApiKey.FETCH, FETCH_VERSION, FetchResponse)
    return answer.responses[0].partitions[0]


def patient_join(member_id: str = "") -> JoinGroupRequest:
    request = join_request(GROUP, member_id, session_timeout_ms=PATIENCE_MS)
    request.rebalance_timeout_ms = PATIENCE_MS
    return request


def begin_join(wire: Wire) -> str:
    """Send the join of a second member, which waits for the first one; return the member id."""
    answer = wire.ask(ApiKey.JOIN_GROUP, JOIN_VERSION, patient_join(), JoinGroupResponse)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    wire.send(ApiKey.JOIN_GROUP, JOIN_VERSION, patient_join(answer.member_id))
    return answer.member_id


def join_both(leader: Wire, leader_id: str, follower: Wire) -> None:
    """Let both members join generation 2 and get their assignments."""
    again = join(leader, patient_join(leader_id))
    joined = receive(follower, ApiKey.JOIN_GROUP, JOIN_VERSION, JoinGroupResponse)
    assert (again.error_code, joined.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert (again.generation_id, joined.generation_id) == (2, 2)
    assert {each.member_id for each in again.members} == {leader_id, joined.member_id}
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=2,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
    )
    follower.send(ApiKey.SYNC_GROUP, SYNC_VERSION, request)
    assert sync(leader, again, GROUP, SYNC_VERSION).assignment == b"mine"
    synced = receive(follower, ApiKey.SYNC_GROUP, SYNC_VERSION, SyncGroupResponse)
    assert synced.error_code == ErrorCode.NONE


def is_other_epoch(epoch: object, event: Event) -> bool:
    return event["broker_epoch"] != epoch


@pytest.mark.parametrize("least_s", [0, pytest.param(10, marks=pytest.mark.soak)])
def test_long_requests_are_answered_beside_a_paused_coordinator(
    coordinator: Coordinator, tmp_path: Path, least_s: int
) -> None:
    overrides = {
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }
    with BrokerCluster(tmp_path, coordinator.address, overrides) as cluster, ExitStack() as opened:

        def connect(broker_id: int) -> Wire:
            wire = opened.enter_context(cluster.wire(broker_id))
            wire.socket.settimeout(PATIENCE_MS / 1000)
            return wire

        cluster.start(*IDS)
        for topic in ("produced", "fetched", "quiet"):
            cluster.create_topic(topic, [[1, 2, 3]])
            cluster.until_in_sync(topic, {1, 2, 3})
        asking = connect(1)
        wait_until(lambda: find(asking, GROUP).error_code == ErrorCode.NONE)
        cluster.until_in_sync("__consumer_offsets", {1, 2, 3})
        home = find(asking, GROUP).node_id
        leader, follower = connect(home), connect(home)
        first = join(leader, patient_join())
        assert sync(leader, first, GROUP).error_code == ErrorCode.NONE
        fetching, quiet, producing, other = (connect(1) for _ in range(4))

        with paused(coordinator.pid):
            slow = next(each for each in (2, 3) if each != home)
            with paused(cluster.brokers[slow].pid):
                send_fetch(fetching, "fetched")
                send_fetch(quiet, "quiet")
                begin_join(follower)
                request = produce_request([("produced", 0, batch(b"a"))], acks=-1)
                request.timeout_ms = PATIENCE_MS
                producing.send(ApiKey.PRODUCE, PRODUCE_VERSION, request)
                for each in set(IDS) - {slow}:
                    cluster.brokers[each].wait_for_event("session.expired")
                # The pause itself is the experiment, not a wait for a condition.
                time.sleep(least_s)
                assert all(map(is_waiting, (fetching, quiet, follower, producing)))
            cluster.brokers[slow].wait_for_event("session.expired")
            produced = receive(producing, ApiKey.PRODUCE, PRODUCE_VERSION, ProduceResponse)
            [answer] = produced.responses[0].partition_responses
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
            assert other.produce("fetched", batch(b"b")).error_code == ErrorCode.NONE
            fetched = receive_fetched(fetching)
            assert (fetched.error_code, fetched.records != b"") == (ErrorCode.NONE, True)
            join_both(leader, first.member_id, follower)
            assert is_waiting(quiet)

        for broker in cluster.brokers.values():
            first_epoch = broker.wait_for_event("broker.registered")["broker_epoch"]
            broker.wait_for_event("broker.registered", where=partial(is_other_epoch, first_epoch))
        cluster.until_all_say(lambda asked: len(cluster.metadata(asked).brokers) == len(IDS))
        for topic in ("produced", "fetched", "quiet", "__consumer_offsets"):
            cluster.until_in_sync(topic, {1, 2, 3})

        def is_member() -> bool:
            found = find(asking, GROUP)
            if found.error_code != ErrorCode.NONE:
                return False
            with cluster.wire(found.node_id) as wire:
                code = heartbeat(wire, GROUP, first.member_id, 2)
            assert code in (ErrorCode.NONE, *MOVING)
            return code == ErrorCode.NONE

        wait_until(is_member)
        for topic, count in (("produced", 1), ("fetched", 1), ("quiet", 0)):
            wire = connect(cluster.leaders(1, topic)[0])
            assert wire.fetch(topic, 0).high_watermark == count
            assert wire.produce(topic, batch(b"c")).base_offset == count
        answered = receive_fetched(quiet)
        assert answered.records or answered.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert cluster.running == list(IDS)
        events = [event for broker in cluster.brokers.values() for event in broker.events]
        assert [event for event in events if event["level"] == "error"] == []
        assert "zk_stall_count\t0" not in four_letter(coordinator.port, "mntr")


def test_brokers_stop_soon_beside_a_paused_coordinator(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    overrides = {"zookeeper.session.timeout.ms": str(LONG_SESSION_MS)}
    with BrokerCluster(tmp_path, coordinator.address, overrides) as cluster:
        cluster.start(1, 2)
        cluster.create_topic("t", [[1, 2], [2, 1]])
        with paused(coordinator.pid):
            codes = [broker.stop(STOP_LIMIT_S) for broker in cluster.brokers.values()]
        assert codes == [0, 0]
        # The coordinator finds the requests that end the sessions.
        wait_until(lambda: "/brokers/ids/" not in four_letter(coordinator.port, "dump"))
