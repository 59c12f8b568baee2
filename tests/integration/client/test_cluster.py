"""Bootstrap, version negotiation, metadata and connections against a scripted cluster."""

import asyncio
import socket
from dataclasses import replace
from functools import partial

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from ottla import Admin, Producer
from ottla.client.client_config import Address, ClientConfig, parse_bootstrap
from ottla.client.errors import (
    BrokerError,
    BrokerUnreachableError,
    ClientClosedError,
    ConnectionLostError,
    NoBrokerAvailableError,
    NotAuthorizedError,
    OttlaError,
    ProtocolError,
    RequestTimedOutError,
    UnknownTopicError,
)
from ottla.client.network.broker_connection import Connection
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection_pool import ConnectionPool, Purpose
from ottla.client.network.first_answer import HEAD_START_S
from ottla.client.network.handshake import open_connection
from ottla.client.retry import Backoff
from tests.integration.client.client_support import FAST, other_tasks
from tests.integration.client.fake_broker import FakeCluster
from tests.integration.client.fake_fault import (
    Fault,
    Garbage,
    HangUp,
    LoseResponse,
    Never,
    Omit,
    Refuse,
)
from tests.waiting import DEADLINE_S, until

NOWHERE = "127.0.0.1:1"
VERY_PATIENT = {"connect_timeout_ms": 600_000, "request_timeout_ms": 600_000}
"""Longer than the deadline of any test."""


def config(cluster: FakeCluster, **settings: int) -> ClientConfig:
    quick = ClientConfig(
        bootstrap=parse_bootstrap(cluster.bootstrap),
        retry_backoff_ms=5,
        retry_backoff_max_ms=20,
        reconnect_backoff_ms=5,
        reconnect_backoff_max_ms=20,
    )
    return replace(quick, **settings)  # type: ignore[arg-type]


async def connect(cluster: FakeCluster, **settings: int) -> Connection:
    wanted = config(cluster, **settings)
    return await open_connection(wanted.bootstrap[0], wanted, lambda _: None)


async def test_one_live_bootstrap_server_is_enough(cluster: FakeCluster) -> None:
    async with Admin([NOWHERE, cluster.bootstrap, NOWHERE]) as admin:
        assert await admin.list_topics() == []


@pytest.mark.parametrize("host", ["two..dots", "x" * 64 + ".example", "nul\0", "\ud800"])
async def test_a_host_that_cannot_exist_is_unreachable(cluster: FakeCluster, host: str) -> None:
    with pytest.raises(NoBrokerAvailableError, match="bootstrap_servers"):
        await Admin(f"{host}:9092").start()
    async with Admin([f"{host}:9092", cluster.bootstrap]) as admin:
        assert await admin.list_topics() == []


async def test_a_port_above_the_limit_leads_to_no_other_port(cluster: FakeCluster) -> None:
    settings = config(cluster)
    beyond = Address("localhost", settings.bootstrap[0].port + 65_536)
    with pytest.raises(BrokerUnreachableError, match=f"port {beyond.port}"):
        await open_connection(beyond, settings, lambda _: None)


async def test_metadata_with_an_invalid_port_does_not_end_the_refreshes(pair: FakeCluster) -> None:
    settings = config(pair)
    port, pair.brokers[1].port = pair.brokers[1].port, 70_000
    known = Cluster(replace(settings, bootstrap=settings.bootstrap[:1]))
    await known.start()
    try:
        with pytest.raises(BrokerUnreachableError, match="70000"):
            await known.request(BrokerId(1), MetadataRequest(topics=[]), MetadataResponse)
        await pair.brokers[0].stop()
        await until(lambda: not known.health().is_healthy)
        pair.brokers[1].port = port
        await pair.brokers[0].start()
        await until(lambda: known.metadata.brokers[BrokerId(1)].port == port)
    finally:
        await known.close()


@pytest.mark.parametrize("api_key", [ApiKey.API_VERSIONS, ApiKey.METADATA])
async def test_a_silent_bootstrap_server_costs_little_beside_another(
    pair: FakeCluster, api_key: ApiKey
) -> None:
    pair.script(api_key, Never())
    opened = Cluster(config(pair, **VERY_PATIENT))
    began_s = asyncio.get_running_loop().time()
    # It would take ten minutes if the brokers were tried one after another.
    async with asyncio.timeout(DEADLINE_S):
        await opened.start()
    assert asyncio.get_running_loop().time() - began_s >= HEAD_START_S
    assert len(pair.seen(ApiKey.METADATA)) == (2 if api_key is ApiKey.METADATA else 1)
    if api_key is ApiKey.API_VERSIONS:
        await until(
            lambda: sum(broker.connection_count for broker in pair.brokers.values()) == 1,
            "the connection to the silent broker to be closed",
        )
    await opened.close()


async def test_metadata_is_refreshed_beside_a_broker_that_falls_silent(pair: FakeCluster) -> None:
    opened = Cluster(config(pair, **VERY_PATIENT))
    await opened.start()
    pair.script(ApiKey.METADATA, Never())
    async with asyncio.timeout(DEADLINE_S):
        await opened.refresh()
    await opened.close()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (LoseResponse(), ConnectionLostError),
        (Garbage(b"HTTP/1.1 400 Bad Request"), ProtocolError),
        # Longer than the head start of the first broker.
        (Never(), RequestTimedOutError),
    ],
    ids=lambda value: str(value),
)
async def test_a_change_of_unknown_outcome_is_sent_to_no_other_broker(
    pair: FakeCluster, fault: Fault, error: type[OttlaError]
) -> None:
    opened = Cluster(config(pair, request_timeout_ms=int(1_500 * HEAD_START_S)))
    await opened.start()
    pair.script(ApiKey.CREATE_TOPICS, fault)
    with pytest.raises(error) as caught:
        await opened.request_any(CreateTopicsRequest(topics=[]), CreateTopicsResponse)
    assert not isinstance(caught.value, NoBrokerAvailableError)
    assert len(pair.seen(ApiKey.CREATE_TOPICS)) == 1
    await opened.close()


async def test_a_change_that_was_not_sent_goes_to_the_next_broker(pair: FakeCluster) -> None:
    opened = Cluster(config(pair))
    await opened.start()
    for gone in pair.brokers.values():
        await gone.stop()
        # Until the client knows that, it would send the change on a connection that has ended.
        await until(partial(has_no_connection_to, opened, gone.port), "the end of the connection")
        await opened.request_any(CreateTopicsRequest(topics=[]), CreateTopicsResponse)
        await gone.start()
    assert len(pair.seen(ApiKey.CREATE_TOPICS)) == 2
    await opened.close()


def has_no_connection_to(opened: Cluster, port: int) -> bool:
    return all(each.address.port != port for each in opened._pool._open.values())


async def test_an_attempt_that_another_caller_waits_for_is_not_abandoned(
    cluster: FakeCluster,
) -> None:
    release = cluster.hold(ApiKey.API_VERSIONS)
    pool, address = pool_of(cluster), config(cluster).bootstrap[0]
    first, second = (
        asyncio.ensure_future(pool.get(BrokerId(-2), Purpose.CONTROL, address)) for _ in range(2)
    )
    await cluster.wait_for(ApiKey.API_VERSIONS)
    first.cancel()
    await asyncio.wait([first])
    pool.abandon(BrokerId(-2), Purpose.CONTROL)
    release.set()
    assert (await second).is_open
    await pool.close()


@pytest.mark.parametrize("newest", [0, 1, 2, 3])
async def test_an_older_broker_gets_a_second_request_in_its_own_version(
    cluster: FakeCluster, newest: int
) -> None:
    cluster.versions[ApiKey.API_VERSIONS] = (0, newest)
    connection = await connect(cluster)
    assert connection.choose_version(ApiKey.PRODUCE) == 11
    await connection.close()


async def test_an_undecodable_refusal_of_versions_means_version_0(
    cluster: FakeCluster,
) -> None:
    refusal = b"\0\0\0\0" + ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big") + b"\x02junk"
    cluster.script(ApiKey.API_VERSIONS, Garbage(refusal))
    connection = await connect(cluster)
    assert [seen.version for seen in cluster.requests] == [4, 0]
    await connection.close()


@pytest.mark.parametrize(
    ("fault", "limit", "error"),
    [
        (HangUp(), {}, BrokerUnreachableError),
        (Garbage(b"HTTP/1.1 400 Bad Request"), {}, ProtocolError),
        (Never(), {"connect_timeout_ms": 50}, BrokerUnreachableError),
        (Never(), {"request_timeout_ms": 50}, BrokerUnreachableError),
        (Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), {}, NotAuthorizedError),
    ],
    ids=lambda value: str(value),
)
async def test_a_handshake_that_fails_leaves_no_socket(
    cluster: FakeCluster, fault: Fault, limit: dict[str, int], error: type[OttlaError]
) -> None:
    cluster.script(ApiKey.API_VERSIONS, fault)
    with pytest.raises(error):
        await connect(cluster, **limit)


async def test_a_peer_without_any_api_is_not_a_broker(cluster: FakeCluster) -> None:
    cluster.script(ApiKey.API_VERSIONS, Omit())
    with pytest.raises(ProtocolError, match="offers no request"):
        await connect(cluster)


async def test_a_peer_that_announces_a_huge_frame_is_disconnected(cluster: FakeCluster) -> None:
    connection = await connect(cluster, max_response_bytes=100_000)
    cluster.script(ApiKey.METADATA, Garbage(bytes(100_001)))
    with pytest.raises(ProtocolError, match="the limit is 100000"):
        await connection.request(MetadataRequest(), MetadataResponse)
    await connection.close()


async def test_the_system_notices_a_host_that_is_gone(cluster: FakeCluster) -> None:
    connection = await connect(cluster)
    assert connection._transport is not None
    held = connection._transport.get_extra_info("socket")
    assert held.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
    await connection.close()


async def test_an_unexpected_response_ends_the_connection(cluster: FakeCluster) -> None:
    connection = await connect(cluster)
    cluster.script(ApiKey.METADATA, Garbage(b"\0\0\0\x01" + bytes(100)))
    lost = connection.request(MetadataRequest(topics=None), MetadataResponse)
    with pytest.raises(ProtocolError):
        await lost
    with pytest.raises(ProtocolError):
        await connection.request(MetadataRequest(topics=None), MetadataResponse)
    await connection.close()


async def test_requests_are_pipelined_and_responses_arrive_in_order(cluster: FakeCluster) -> None:
    for name in ("a", "b", "c"):
        cluster.create(name)
    connection = await connect(cluster)
    release = cluster.hold(ApiKey.METADATA)
    responses = [
        connection.request(MetadataRequest(topics=None), MetadataResponse) for _ in range(3)
    ]
    responses[1].cancel()
    assert connection.in_flight_count == 3
    release.set()
    assert [topic.name for topic in (await responses[2]).topics] == ["a", "b", "c"]
    assert responses[0].done()
    await connection.close()


async def test_a_large_response_is_received_whole(cluster: FakeCluster) -> None:
    for number in range(5_000):
        cluster.create(f"topic-{number:05}")
    connection = await connect(cluster)
    responses = [
        connection.request(MetadataRequest(topics=None), MetadataResponse) for _ in range(3)
    ]
    for response in responses:
        names = [topic.name for topic in (await response).topics]
        assert names == sorted(cluster.logs.topics)
    await connection.close()


async def test_a_late_response_fails_all_pending_requests(cluster: FakeCluster) -> None:
    connection = await connect(cluster)
    cluster.script(ApiKey.METADATA, Never())
    responses = [
        connection.request(MetadataRequest(), MetadataResponse, timeout_s=0.03) for _ in range(2)
    ]
    for response in responses:
        with pytest.raises(RequestTimedOutError, match="METADATA"):
            await response
    assert not connection.is_open
    await connection.close()


async def test_close_fails_pending_requests_and_may_be_repeated(cluster: FakeCluster) -> None:
    connection = await connect(cluster)
    cluster.script(ApiKey.METADATA, Never())
    response = connection.request(MetadataRequest(), MetadataResponse)
    await cluster.wait_for(ApiKey.METADATA)
    await connection.close()
    with pytest.raises(ConnectionLostError, match="by this client"):
        await response
    await connection.close()


async def test_each_purpose_has_one_connection_per_broker(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with Producer(cluster.bootstrap) as producer:
        for _ in range(5):
            await asyncio.gather(*[producer.send_and_wait("t", b"v") for _ in range(5)])
    # One for bootstrap, one for the metadata of the discovered broker, one for produce requests.
    assert cluster.brokers[0].accepted_count <= 3


async def test_metadata_is_refreshed_by_age(cluster: FakeCluster) -> None:
    opened = Cluster(config(cluster, metadata_max_age_ms=20))
    await opened.start()
    await cluster.wait_for(ApiKey.METADATA, 4)
    await opened.close()


async def test_many_topics_are_asked_for_in_several_requests(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.network.cluster.MAX_TOPICS_PER_REQUEST", 2)
    for topic in "abcde":
        cluster.create(topic)
    known = Cluster(config(cluster))
    known.keep_topics("abcde")
    await known.start()
    try:
        assert known.metadata.topics.keys() == set("abcde")
        asked = [[topic.name for topic in each.topics] for each in cluster.seen(ApiKey.METADATA)]
        assert asked == [["a", "b"], ["c", "d"], ["e"]]
    finally:
        await known.close()


async def test_a_caller_that_waits_for_a_topic_finds_it_although_other_topics_are_kept(
    cluster: FakeCluster,
) -> None:
    opened = Cluster(config(cluster))
    await opened.start()
    waiting = asyncio.ensure_future(opened.topic("late", timeout_s=60, patience_s=60))
    await cluster.wait_for(ApiKey.METADATA, 3)
    # As of a caller that gives up, or a consumer with another assignment.
    opened.keep_topics([])
    cluster.create("late")
    async with asyncio.timeout(20):
        assert list((await waiting).partitions) == [0]
    await opened.close()


async def test_a_cancelled_wait_for_a_topic_leaves_its_name_out_of_later_requests(
    cluster: FakeCluster,
) -> None:
    opened = Cluster(config(cluster))
    await opened.start()
    waiting = asyncio.ensure_future(opened.topic("typo", timeout_s=60, patience_s=60))
    await cluster.wait_for(ApiKey.METADATA, 2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await opened.refresh()
    assert list(cluster.seen(ApiKey.METADATA)[-1].topics) == []
    await opened.close()


async def test_a_topic_that_arrives_after_its_wait_was_cancelled_stays_known(
    cluster: FakeCluster,
) -> None:
    """A producer adopts it, so that later records do not wait for it, and need its leaders."""
    cluster.create("t")
    opened = Cluster(config(cluster))
    await opened.start()
    released = cluster.hold(ApiKey.METADATA)
    waiting = asyncio.ensure_future(opened.topic("t", timeout_s=60, patience_s=60))
    await cluster.wait_for(ApiKey.METADATA, 2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    released.set()
    await until(lambda: "t" in opened.metadata.topics, "the response")
    await opened.refresh()
    assert [topic.name for topic in cluster.seen(ApiKey.METADATA)[-1].topics] == ["t"]
    assert list(opened.metadata.topics["t"].partitions) == [0]
    await opened.close()


async def test_a_caller_that_gives_a_topic_up_leaves_it_to_the_owner(cluster: FakeCluster) -> None:
    opened = Cluster(config(cluster))
    await opened.start()
    waiting = asyncio.ensure_future(opened.topic("late", timeout_s=60, patience_s=0))
    await asyncio.sleep(0)
    # As of a consumer that is assigned a partition of it.
    opened.keep_topics(["late"])
    with pytest.raises(UnknownTopicError):
        await waiting
    await opened.refresh()
    assert [topic.name for topic in cluster.seen(ApiKey.METADATA)[-1].topics] == ["late"]
    await opened.close()


async def test_an_answer_without_brokers_is_asked_for_again(cluster: FakeCluster) -> None:
    """A broker of Kafka that has just started sends it, and it has no topic either."""
    cluster.create("t")
    opened = Cluster(config(cluster))
    opened.keep_all_topics(wanted=True)
    await opened.start()
    cluster.script(ApiKey.METADATA, Omit())
    with pytest.raises(BrokerError, match="the broker has none yet"):
        await opened.refresh()
    assert opened.metadata.topics.keys() == {"t"}
    await until(lambda: not opened._refresh_failure_count, "a successful refresh")
    await opened.close()


async def test_simultaneous_refreshes_share_requests(cluster: FakeCluster) -> None:
    opened = Cluster(config(cluster))
    await opened.start()
    before = len(cluster.seen(ApiKey.METADATA))
    for _ in range(100):
        opened.request_refresh()
    await asyncio.gather(*[opened.refresh() for _ in range(20)])
    assert len(cluster.seen(ApiKey.METADATA)) - before <= 2
    await opened.close()


async def test_a_refresh_survives_the_cancellation_of_its_caller(cluster: FakeCluster) -> None:
    opened = Cluster(config(cluster))
    await opened.start()
    release = cluster.hold(ApiKey.METADATA)
    first = asyncio.ensure_future(opened.refresh())
    await cluster.wait_for(ApiKey.METADATA, 2)
    second = asyncio.ensure_future(opened.refresh())
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    assert (await second).cluster_id == "fake"
    await opened.close()


async def test_the_client_recovers_after_all_brokers_were_gone(cluster: FakeCluster) -> None:
    opened = Cluster(config(cluster))
    await opened.start()
    broker = cluster.brokers[0]
    await broker.stop()
    with pytest.raises(NoBrokerAvailableError, match=str(broker.port)):
        await opened.refresh()
    await broker.start()
    await until(lambda: not opened._refresh_failure_count, "a successful refresh")
    await opened.close()


async def test_metadata_is_refreshed_while_a_broker_cannot_be_reached(pair: FakeCluster) -> None:
    slow = 60_000
    opened = Cluster(config(pair, reconnect_backoff_ms=slow, reconnect_backoff_max_ms=slow))
    await opened.start()
    gone = next(broker_id for broker_id in opened.metadata.brokers if broker_id != 0)

    def reach() -> None:
        opened.ready_connection(gone, Purpose.PRODUCE)

    opened.on_change = reach
    await pair.brokers[gone].stop()
    opened.on_change()
    await pair.wait_for(ApiKey.METADATA, 6)
    await opened.close()


async def test_close_fails_a_waiting_refresh(cluster: FakeCluster) -> None:
    opened = Cluster(config(cluster))
    await opened.start()
    cluster.script(ApiKey.METADATA, Never())
    waiting = asyncio.ensure_future(opened.refresh())
    await cluster.wait_for(ApiKey.METADATA, 2)
    await opened.close()
    with pytest.raises(ClientClosedError):
        await waiting
    with pytest.raises(ClientClosedError):
        await opened.refresh()
    opened.request_refresh()
    assert opened.ready_connection(next(iter(opened.metadata.brokers)), Purpose.FETCH) is None
    await opened.close()


async def test_the_client_follows_a_broker_to_its_new_address(pair: FakeCluster) -> None:
    (log,) = pair.create("t", [0])
    async with Producer(f"127.0.0.1:{pair.brokers[1].port}", **FAST) as producer:
        await producer.send_and_wait("t", b"before")
        await pair.brokers[0].stop()
        pair.brokers[0].port = 0
        await pair.brokers[0].start()
        await producer.send_and_wait("t", b"after")
    assert log.values() == [b"before", b"after"]


async def test_a_failed_start_leaves_no_task() -> None:
    before = other_tasks()
    with pytest.raises(NoBrokerAvailableError):
        await Admin(NOWHERE).start()
    assert other_tasks() == before


def pool_of(cluster: FakeCluster) -> ConnectionPool:
    no_wait = Backoff(initial_s=0, max_s=0, random=lambda: 0.5)
    return ConnectionPool(config(cluster), no_wait, lambda: None, lambda: None)


async def test_an_attempt_at_an_old_address_ends_when_the_broker_moves(
    pair: FakeCluster,
) -> None:
    old, new = config(pair).bootstrap
    pair.script(ApiKey.API_VERSIONS, Never())
    pool, broker_id = pool_of(pair), BrokerId(7)
    early = asyncio.ensure_future(pool.get(broker_id, Purpose.CONTROL, old))
    await pair.wait_for(ApiKey.API_VERSIONS)
    assert (await pool.get(broker_id, Purpose.CONTROL, new)).address == new
    with pytest.raises(BrokerUnreachableError, match="moved"):
        await early
    assert pool.failure_count(broker_id) == 0
    await pool.close()


async def test_an_attempt_that_another_one_cancelled_counts_as_a_failure(
    cluster: FakeCluster,
) -> None:
    cluster.script(ApiKey.API_VERSIONS, Never())
    pool, address = pool_of(cluster), config(cluster).bootstrap[0]
    before = other_tasks()
    pool.begin_open(BrokerId(0), Purpose.PRODUCE, address)
    [attempt] = other_tasks() - before
    await cluster.wait_for(ApiKey.API_VERSIONS)
    # As an application that cancels all tasks of its event loop.
    attempt.cancel()
    await until(lambda: pool.failure_count(BrokerId(0)) == 1, "the failure")
    await pool.close()


async def test_closing_a_pool_fails_waiting_callers(cluster: FakeCluster) -> None:
    cluster.script(ApiKey.API_VERSIONS, Never())
    pool, address = pool_of(cluster), config(cluster).bootstrap[0]
    waiting = asyncio.ensure_future(pool.get(BrokerId(0), Purpose.CONTROL, address))
    await cluster.wait_for(ApiKey.API_VERSIONS)
    await pool.close()
    with pytest.raises(ClientClosedError):
        await waiting
