"""Routing of requests to handlers: `broker.network.router`."""

import struct
from collections.abc import Callable

import pytest

from broker.handlers.api_versions import ApiVersionsHandler
from broker.network import router as router_module
from broker.network.reply import Reply, ReplyState
from broker.network.request import Request
from broker.network.router import (
    MAX_FETCH_ITEMS,
    MAX_ITEMS,
    MAX_MARKER_ITEMS,
    MAX_SURPLUS_BYTES,
    Handler,
    Router,
)
from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_partition import AlterPartitionRequest, RequestTopicData
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.fetch import FetchRequest, FetchTopic
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkawire.messages.produce import ProduceRequest, TopicProduceData
from kafkawire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
)
from kafkawire.messages.transactions import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from kafkawire.schema import decode, encode
from tests.unit.broker.requests import request

ANSWER = MetadataResponse(cluster_id="c")
NAMED = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")


def router() -> Router:
    def handle(_request: Request, message: MetadataRequest) -> Reply:
        assert message == MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        return Reply(ANSWER)

    made = Router(
        {
            ApiKey.METADATA: lambda: handle,
            ApiKey.API_VERSIONS: lambda: ApiVersionsHandler(made.served).handle,
        }
    )
    return made


def test_a_handler_gets_the_decoded_message() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    asked = request(ApiKey.METADATA, 5, message)
    assert router().handle(asked).message is ANSWER


@pytest.mark.parametrize(
    ("key", "version", "body", "reason"),
    [
        pytest.param(ApiKey.JOIN_GROUP, 0, b"", "API 11 is not served", id="no handler"),
        pytest.param(ApiKey.METADATA, 13, b"", "METADATA version 13 is not", id="too new"),
        pytest.param(ApiKey.METADATA, -1, b"", "METADATA version -1 is not", id="negative"),
        pytest.param(ApiKey.METADATA, 1, b"\x00", "MetadataRequest v1", id="cut short"),
        pytest.param(ApiKey.METADATA, 0, bytes(13), "MetadataRequest v0", id="far too long"),
    ],
)
def test_a_malformed_request_closes_the_connection(
    key: ApiKey, version: int, body: bytes, reason: str
) -> None:
    reply = router().handle(request(key, version, body))
    assert reply.state is ReplyState.CLOSE
    assert reason in reply.close_reason


def test_a_handler_is_made_once_at_the_first_request() -> None:
    made: list[str] = []

    def make() -> Handler:
        made.append("metadata")
        return lambda _request, _message: Reply(ANSWER)

    tested = Router({ApiKey.METADATA: make})
    assert made == []
    for _ in range(2):
        tested.handle(request(ApiKey.METADATA, 1, MetadataRequest()))
    assert made == ["metadata"]


def test_metadata_requests_of_librdkafka_may_have_surplus_bytes() -> None:
    asked: list[MetadataRequest] = []

    def handle(_request: Request, message: MetadataRequest) -> Reply:
        asked.append(message)
        return Reply(ANSWER)

    surplus = bytes.fromhex("00000000010000")
    Router({ApiKey.METADATA: lambda: handle}).handle(request(ApiKey.METADATA, 12, surplus))
    assert [message.topics for message in asked] == [None]


def test_a_message_with_surplus_bytes_is_decoded_at_most_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[int] = []

    def count(kind: type, body: memoryview, version: int, max_items: int) -> object:
        decoded.append(len(body))
        return decode(kind, body, version, max_items)

    monkeypatch.setattr(router_module, "decode", count)
    body = encode(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 5)
    for surplus in (MAX_SURPLUS_BYTES, MAX_SURPLUS_BYTES + 1):
        router().handle(request(ApiKey.METADATA, 5, body + bytes(surplus)))
    assert decoded == [len(body) + MAX_SURPLUS_BYTES, len(body), len(body) + MAX_SURPLUS_BYTES + 1]


def test_a_change_of_scram_users_may_end_with_its_tags_twice() -> None:
    message = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="alice", mechanism=1)], upsertions=[]
    )
    found: list[object] = []

    def handle(_request: Request, decoded: object) -> Reply:
        found.append(decoded)
        return Reply(AlterUserScramCredentialsResponse())

    router = Router({ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda: handle})
    body = encode(message, 0) + b"\0"
    reply = router.handle(request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, body))
    assert reply.close_reason == ""
    assert found == [message]


def test_surplus_bytes_of_another_api_close_the_connection() -> None:
    body = encode(NAMED, 3)
    reply = router().handle(request(ApiKey.API_VERSIONS, 3, body + b"\0"))
    assert reply.close_reason == "ApiVersionsRequest v3: 1 bytes follow the message"


def test_the_number_of_elements_in_a_request_is_limited() -> None:
    asked: list[int] = []

    def handle(_request: Request, message: MetadataRequest) -> Reply:
        assert message.topics is not None
        asked.append(len(message.topics))
        return Reply(ANSWER)

    tested = Router({ApiKey.METADATA: lambda: handle})
    for count in (MAX_ITEMS, MAX_ITEMS + 1):
        body = struct.pack(">i", count) + bytes(2 * count)
        reply = tested.handle(request(ApiKey.METADATA, 0, body))
    assert asked == [MAX_ITEMS]
    assert "more elements than one request may have" in reply.close_reason


def test_requests_with_all_partitions_of_a_broker_may_have_more_elements() -> None:
    body = encode(
        AlterPartitionRequest(topics=[RequestTopicData(partitions=[])] * 2 * MAX_ITEMS), 0
    )
    asked: list[int] = []

    def handle(_request: Request, message: AlterPartitionRequest) -> Reply:
        asked.append(len(message.topics))
        return Reply(ANSWER)

    def admit(_request: Request, handle_body: Callable[[memoryview], Reply]) -> Reply:
        return handle_body(memoryview(body)[:last])

    tested = Router({ApiKey.ALTER_PARTITION: lambda: handle}, admit)
    last = len(body)
    tested.handle(request(ApiKey.ALTER_PARTITION, 0, body))
    last -= 1
    reply = tested.handle(request(ApiKey.ALTER_PARTITION, 0, body))
    assert reply.state is ReplyState.CLOSE
    unguarded = Router({ApiKey.ALTER_PARTITION: lambda: handle})
    reply = unguarded.handle(request(ApiKey.ALTER_PARTITION, 0, body))
    assert "more elements than one request may have" in reply.close_reason
    assert asked == [2 * MAX_ITEMS]


FETCH = FetchRequest(topics=[FetchTopic(topic="t", partitions=[])] * MAX_FETCH_ITEMS)
MARKERS = WriteTxnMarkersRequest(markers=[WritableTxnMarker(topics=[])] * MAX_MARKER_ITEMS)


@pytest.mark.parametrize(
    ("api_key", "version", "most", "elements"),
    [
        pytest.param(ApiKey.FETCH, 4, FETCH, FETCH.topics, id="fetch"),
        pytest.param(ApiKey.WRITE_TXN_MARKERS, 1, MARKERS, MARKERS.markers, id="markers"),
    ],
)
def test_some_requests_may_have_more_elements_than_others(
    api_key: ApiKey, version: int, most: object, elements: list[object]
) -> None:
    asked: list[object] = []

    def handle(_request: Request, message: object) -> Reply:
        asked.append(message)
        return Reply(ANSWER)

    tested = Router({api_key: lambda: handle})
    tested.handle(request(api_key, version, most))
    assert len(asked) == 1
    elements.append(elements[0])
    try:
        reply = tested.handle(request(api_key, version, most))
    finally:
        elements.pop()
    assert (len(asked), reply.state) == (1, ReplyState.CLOSE)


def test_api_versions_lists_apis_with_handlers_and_their_versions() -> None:
    reply = router().handle(request(ApiKey.API_VERSIONS, 3, NAMED))
    assert isinstance(reply.message, ApiVersionsResponse)
    assert {
        ApiKey(api.api_key): (api.min_version, api.max_version) for api in reply.message.api_keys
    } == {key: APIS[key].advertised for key in (ApiKey.METADATA, ApiKey.API_VERSIONS)}


@pytest.mark.parametrize("version", [5, 99, -1])
def test_api_versions_in_an_unknown_version_is_answered_in_version_0(version: int) -> None:
    asked = request(ApiKey.API_VERSIONS, version, b"whatever a newer client says")
    reply = router().handle(asked)
    assert isinstance(reply.message, ApiVersionsResponse)
    assert reply.message.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [api.api_key for api in reply.message.api_keys] == [3, 18]
    assert asked.header.api_version == 0, "the response is encoded in the request's version"


@pytest.mark.parametrize(
    ("name", "software_version"),
    [("", ""), ("a", ""), ("a b", "1"), ("-a", "1"), ("a", "1-"), ("a", "1\n")],
)
def test_a_client_with_a_malformed_name_is_refused(name: str, software_version: str) -> None:
    message = ApiVersionsRequest(
        client_software_name=name, client_software_version=software_version
    )
    reply = router().handle(request(ApiKey.API_VERSIONS, 3, message))
    assert isinstance(reply.message, ApiVersionsResponse)
    assert reply.message.error_code == ErrorCode.INVALID_REQUEST
    assert not reply.message.api_keys


def test_before_version_3_a_client_has_no_name() -> None:
    reply = router().handle(request(ApiKey.API_VERSIONS, 2, ApiVersionsRequest()))
    assert isinstance(reply.message, ApiVersionsResponse)
    assert reply.message.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            ApiKey.PRODUCE,
            ProduceRequest(topic_data=[TopicProduceData(name="t")] * (MAX_ITEMS + 1)),
        ),
        (ApiKey.FETCH, FetchRequest(topics=[FetchTopic(topic="t")] * (MAX_FETCH_ITEMS + 1))),
    ],
    ids=["produce", "fetch"],
)
def test_compiled_decoders_limit_the_number_of_elements_too(key: ApiKey, message: object) -> None:
    tested = Router({key: lambda: lambda _request, _message: Reply(ANSWER)})
    reply = tested.handle(request(key, 9, message))
    assert "more elements than one request may have" in reply.close_reason
