"""Metadata, ApiVersions and DescribeCluster over a real socket."""

import itertools
from collections.abc import Sequence

import pytest

from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.headers import decode_response_header
from kafkawire.ids import ZERO_TOPIC_ID, topic_id_from_text
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkawire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafkawire.schema import decode
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire
from tests.waiting import until_sync

NOT_ASKED_FOR = -(2**31)
names = (f"metadata-{number}" for number in itertools.count())


def metadata(
    wire: Wire,
    topics: Sequence[str | MetadataRequestTopic] | None,
    *,
    version: int = 12,
    auto_create: bool = False,
    **options: bool,
) -> MetadataResponse:
    request = MetadataRequest(
        topics=None
        if topics is None
        else [
            MetadataRequestTopic(name=topic) if isinstance(topic, str) else topic
            for topic in topics
        ],
        allow_auto_topic_creation=auto_create if version >= 4 else True,
        **options,
    )
    return wire.ask(ApiKey.METADATA, version, request, MetadataResponse)


def only(response: MetadataResponse) -> MetadataResponseTopic:
    assert len(response.topics) == 1
    return response.topics[0]


def when_led(wire: Wire, name: str) -> MetadataResponseTopic:
    """Return the metadata of a topic as soon as its partitions have leaders."""
    found: list[MetadataResponseTopic] = []

    def is_led() -> bool:
        found.append(only(metadata(wire, [name])))
        partitions = found[-1].partitions
        return bool(partitions) and all(each.leader_id >= 0 for each in partitions)

    until_sync(is_led, f"leaders of {name}")
    return found[-1]


def test_metadata_names_the_broker_its_cluster_and_the_controller(
    shared_broker: BrokerProcess, wire: Wire
) -> None:
    response = metadata(wire, [])
    broker = response.brokers[0]
    assert (broker.host, broker.port) == ("127.0.0.1", shared_broker.port)
    assert response.controller_id == broker.node_id == 1001
    assert response.cluster_id is not None
    assert topic_id_from_text(response.cluster_id) != ZERO_TOPIC_ID
    assert len(response.cluster_id) == 22
    assert response.topics == []


@pytest.mark.parametrize("version", range(13))
def test_a_topic_is_described_in_every_version(wire: Wire, version: int) -> None:
    name = next(names)
    wire.create_topic(name, partitions=3)
    topic = only(metadata(wire, [name], version=version))
    assert (topic.error_code, topic.name, topic.is_internal) == (ErrorCode.NONE, name, False)
    assert [
        (p.error_code, p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes)
        for p in topic.partitions
    ] == [(ErrorCode.NONE, index, 1001, [1001], [1001]) for index in range(3)]
    assert (topic.topic_id != ZERO_TOPIC_ID) == (version >= 10)
    assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)


@pytest.mark.parametrize(("version", "everything"), [(0, ()), (1, None), (12, None)])
def test_all_topics_can_be_requested(
    wire: Wire, version: int, everything: tuple[str, ...] | None
) -> None:
    name = next(names)
    wire.create_topic(name)
    found = {topic.name for topic in metadata(wire, everything, version=version).topics}
    assert name in found
    assert metadata(wire, [], version=1).topics == []


@pytest.mark.parametrize("version", [0, 3, 4, 12])
def test_asking_for_an_unknown_topic_creates_it(wire: Wire, version: int) -> None:
    name = next(names)
    topic = only(metadata(wire, [name], version=version, auto_create=True))
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.LEADER_NOT_AVAILABLE, 0)
    topic = when_led(wire, name)
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 1)
    assert name in {topic.name for topic in metadata(wire, None).topics}


@pytest.mark.parametrize(
    ("name", "auto_create", "code"),
    [
        ("unknown", False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", False, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a b", True, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", True, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, True, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_a_topic_that_is_not_there_and_not_created_is_an_error(
    wire: Wire, name: str, auto_create: bool, code: ErrorCode
) -> None:
    topic = only(metadata(wire, [name], auto_create=auto_create))
    assert (topic.error_code, topic.name, topic.partitions) == (code, name, [])


def test_a_topic_named_twice_is_described_once(wire: Wire) -> None:
    name = next(names)
    wire.create_topic(name)
    assert only(metadata(wire, [name, name])).name == name


def test_a_topic_can_be_requested_by_its_id(wire: Wire) -> None:
    name = next(names)
    wire.create_topic(name)
    topic_id = only(metadata(wire, [name])).topic_id
    found = only(metadata(wire, [MetadataRequestTopic(name=None, topic_id=topic_id)]))
    assert (found.name, found.topic_id, len(found.partitions)) == (name, topic_id, 1)


def test_an_unknown_topic_id_is_an_error(wire: Wire) -> None:
    unknown = topic_id_from_text("A" * 21 + "Q")
    found = only(metadata(wire, [MetadataRequestTopic(name=None, topic_id=unknown)]))
    assert (found.error_code, found.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_in_versions_without_them(wire: Wire, version: int) -> None:
    asked = MetadataRequestTopic(name=None, topic_id=topic_id_from_text("A" * 21 + "Q"))
    found = only(metadata(wire, [asked], version=version))
    assert (found.error_code, found.name) == (ErrorCode.INVALID_REQUEST, "")


def test_authorized_operations_are_returned_only_on_request(wire: Wire) -> None:
    name = next(names)
    wire.create_topic(name)
    silent = metadata(wire, [name], version=8)
    asked = metadata(
        wire,
        [name],
        version=8,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert silent.cluster_authorized_operations == NOT_ASKED_FOR
    assert only(silent).topic_authorized_operations == NOT_ASKED_FOR
    assert asked.cluster_authorized_operations > 0
    assert only(asked).topic_authorized_operations > 0


def test_auto_creation_can_be_switched_off(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"auto.create.topics.enable": "false"})
    with Wire(broker.port) as wire:
        topic = only(metadata(wire, ["t"], auto_create=True))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_auto_creation_takes_the_brokers_defaults(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"num.partitions": "4"})
    with Wire(broker.port) as wire:
        metadata(wire, ["t"], auto_create=True)
        assert len(when_led(wire, "t").partitions) == 4


def test_more_replicas_than_brokers_cannot_be_created(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"default.replication.factor": "2"})
    with Wire(broker.port) as wire:
        topic = only(metadata(wire, ["t"], auto_create=True))
    assert topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_each_listener_returns_its_own_address(start_broker: StartBroker) -> None:
    broker = start_broker(
        overrides={
            "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
            "advertised.listeners": "INNER://127.0.0.1:0,OUTER://broker.example:9999",
            "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
        }
    )
    bound = broker.wait_for_event("broker.started")["bound_addresses"]
    assert isinstance(bound, list)
    inner, outer = (int(str(address).rpartition(":")[2]) for address in bound)
    with Wire(inner) as wire:
        broker_seen = metadata(wire, []).brokers[0]
        assert (broker_seen.host, broker_seen.port) == ("127.0.0.1", inner)
    with Wire(outer) as wire:
        broker_seen = metadata(wire, []).brokers[0]
        assert (broker_seen.host, broker_seen.port) == ("broker.example", 9999)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_exactly_the_served_apis(wire: Wire, version: int) -> None:
    message = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    response = wire.ask(ApiKey.API_VERSIONS, version, message, ApiVersionsResponse)
    assert response.error_code == ErrorCode.NONE
    assert {
        ApiKey(api.api_key): (api.min_version, api.max_version) for api in response.api_keys
    } == {key: api.advertised for key, api in APIS.items() if api.advertised is not None}


def test_api_versions_of_an_unknown_version_is_answered_in_version_0(wire: Wire) -> None:
    header = ApiKey.API_VERSIONS.to_bytes(2, "big") + (99).to_bytes(2, "big") + b"\0\0\0\7\xff\xff"
    body = header + b"\0" + b"anything that a newer client says"
    wire.send_bytes(len(body).to_bytes(4, "big") + body)
    frame = wire.receive_frame()
    correlation_id, start = decode_response_header(ApiKey.API_VERSIONS, 0, frame)
    response = decode(ApiVersionsResponse, frame[start:], 0)
    assert (correlation_id, response.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert [
        (api.min_version, api.max_version)
        for api in response.api_keys
        if api.api_key == ApiKey.API_VERSIONS
    ] == [(0, 4)]
    assert metadata(wire, []).brokers, "the connection stays open"


@pytest.mark.parametrize("version", [0, 1])
def test_the_cluster_is_described(wire: Wire, version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = wire.ask(ApiKey.DESCRIBE_CLUSTER, version, request, DescribeClusterResponse)
    assert response.cluster_id == metadata(wire, []).cluster_id
    assert (response.controller_id, [broker.broker_id for broker in response.brokers]) == (
        1001,
        [1001],
    )
    assert response.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_only_endpoints_of_brokers_are_described(
    wire: Wire, endpoint_type: int, code: ErrorCode
) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    response = wire.ask(ApiKey.DESCRIBE_CLUSTER, 1, request, DescribeClusterResponse)
    assert (response.error_code, response.brokers) == (code, [])
