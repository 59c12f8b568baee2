"""Requests and their responses without a connection: `kafkawire.exchange`."""

import pytest

from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import DecodeError, ErrorCode, MisfitError, VersionError
from kafkawire.exchange import MAX_CORRELATION_ID, Exchange
from kafkawire.headers import decode_request_header, encode_response
from kafkawire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkawire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from kafkawire.messages.fetch import PartitionData as FetchedPartition
from kafkawire.schema import Parts

MAX_BYTES = 1_000_000
LIST_OFFSETS = ApiKey.LIST_OFFSETS


class Owner:
    """The owner of an exchange, with the results of its requests in the order of their arrival."""

    def __init__(
        self, low: int = 0, high: int = 99, api_key: ApiKey = ApiKey.DESCRIBE_CLUSTER
    ) -> None:
        self.results: list[object] = []
        self.exchange = Exchange[Exception]("me", MAX_BYTES, ceilings={ApiKey.PRODUCE: 11})
        row = ApiVersion(api_key=api_key, min_version=low, max_version=high)
        assert self.exchange.negotiate(ApiVersionsResponse(api_keys=[row]), 4) is None

    def ask(self) -> int:
        """Send a request and return its correlation id."""
        parts = self.exchange.request(
            DescribeClusterRequest(),
            DescribeClusterResponse,
            lambda response: self.results.append(response.cluster_id),
            self.results.append,
        )
        return correlation_id(parts)

    def feed(self, data: bytes) -> None:
        while data:
            room = self.exchange.free()
            part = data[: len(room)]
            room[: len(part)] = part
            self.exchange.receive(len(part))
            data = data[len(part) :]

    def answer(self, number: int, text: str = "answer") -> None:
        response = DescribeClusterResponse(cluster_id=text)
        self.feed(encode_response(ApiKey.DESCRIBE_CLUSTER, 1, number, response))


def correlation_id(parts: Parts) -> int:
    frame = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
    header, _ = decode_request_header(frame[4:])
    assert header.client_id == "me"
    return header.correlation_id


def test_responses_settle_requests_in_order() -> None:
    owner = Owner()
    for number in (owner.ask(), owner.ask()):
        owner.answer(number, f"answer {number}")
    assert owner.results == ["answer 0", "answer 1"]
    assert not owner.exchange.pending


def test_correlation_ids_restart_at_zero() -> None:
    owner = Owner()
    owner.exchange._next_correlation_id = MAX_CORRELATION_ID
    assert [owner.ask(), owner.ask()] == [MAX_CORRELATION_ID, 0]


def test_every_pending_request_fails_with_the_connection() -> None:
    owner, error = Owner(), ConnectionError("lost")
    owner.answer(owner.ask())
    owner.ask()
    owner.ask()
    owner.exchange.fail(error)
    owner.exchange.fail(error)
    assert owner.results == ["answer", error, error]


def test_a_response_to_another_request_is_refused() -> None:
    owner = Owner()
    with pytest.raises(DecodeError, match="without a request"):
        owner.answer(0)
    owner = Owner()
    owner.ask()
    with pytest.raises(DecodeError, match="correlation id 7, not 0"):
        owner.answer(7)


def test_a_request_without_a_response_is_not_pending() -> None:
    owner = Owner()
    parts = owner.exchange.request(
        DescribeClusterRequest(), DescribeClusterResponse, None, owner.results.append
    )
    assert correlation_id(parts) == 0
    assert not owner.exchange.pending


def test_content_may_depend_on_the_version() -> None:
    owner, seen = Owner(high=0), list[int]()

    def message(version: int) -> DescribeClusterRequest:
        seen.append(version)
        return DescribeClusterRequest()

    owner.exchange.request(message, DescribeClusterResponse, owner.results.append, print)
    assert seen == [0]


def test_the_highest_common_version_is_chosen() -> None:
    ours = APIS[LIST_OFFSETS].decodable[1]
    assert Owner(0, 3, LIST_OFFSETS).exchange.choose_version(LIST_OFFSETS) == 3
    assert Owner(0, 99, LIST_OFFSETS).exchange.choose_version(LIST_OFFSETS) == ours
    assert Owner(ours, ours, LIST_OFFSETS).exchange.choose_version(LIST_OFFSETS) == ours
    assert Owner(0, 99, LIST_OFFSETS).exchange.choose_version(LIST_OFFSETS, 5) == 5


def test_versions_above_the_ceiling_are_not_chosen() -> None:
    assert Owner(0, 99, ApiKey.PRODUCE).exchange.choose_version(ApiKey.PRODUCE) == 11


@pytest.mark.parametrize(("low", "high"), [(98, 99), (-1, -1)])
def test_no_common_version_is_reported_with_both_ranges(low: int, high: int) -> None:
    with pytest.raises(VersionError, match=rf"{low}\.\.{high}.*upgrade"):
        Owner(low, high, LIST_OFFSETS).exchange.choose_version(LIST_OFFSETS)


def test_an_api_that_the_broker_lacks_is_reported() -> None:
    with pytest.raises(VersionError, match="does not offer FETCH"):
        Owner().exchange.choose_version(ApiKey.FETCH)


def test_a_version_that_cannot_carry_the_request_is_reported() -> None:
    owner = Owner(0, 5, ApiKey.DELETE_TOPICS)
    request = DeleteTopicsRequest(topics=[])
    request.topics = [None]  # type: ignore[list-item]
    with pytest.raises(VersionError, match="DeleteTopics in version 5, which"):
        owner.exchange.request(request, DeleteTopicsResponse, print, print)
    assert not owner.exchange.pending


def test_a_value_that_no_version_can_carry_is_not_blamed_on_the_version() -> None:
    owner = Owner(0, 5, ApiKey.DELETE_TOPICS)
    request = DeleteTopicsRequest(topics=[], topic_names=["t"], timeout_ms=1.5)  # type: ignore[arg-type]
    with pytest.raises(MisfitError, match=r"timeout_ms must be int32, got 1\.5"):
        owner.exchange.request(request, DeleteTopicsResponse, print, print)
    assert not owner.exchange.pending


@pytest.mark.parametrize(
    ("asked", "known", "again"),
    [(4, [3], 3), (4, [9], 3), (4, [], 0), (1, [0], 0), (0, [3], None)],
)
def test_an_older_broker_is_asked_again_in_a_version_that_it_knows(
    asked: int, known: list[int], again: int | None
) -> None:
    key = ApiKey.API_VERSIONS
    rows = [ApiVersion(api_key=key, min_version=0, max_version=newest) for newest in known]
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=rows)
    assert Owner().exchange.negotiate(refusal, asked) == again


@pytest.mark.parametrize("body", ["0023 00000000", "0023 02 6a756e6b"])
def test_a_refusal_of_api_versions_is_in_version_0(body: str) -> None:
    owner = Owner()
    owner.exchange.request(
        ApiVersionsRequest(), ApiVersionsResponse, owner.results.append, print, version=4
    )
    frame = bytes(4) + bytes.fromhex(body)
    owner.feed(len(frame).to_bytes(4, "big") + frame)
    assert owner.results == [ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)]


def test_records_stay_valid_as_long_as_they_are_referred_to() -> None:
    owner, kept = Owner(0, 12, ApiKey.FETCH), list[memoryview]()

    def keep(response: FetchResponse) -> None:
        records = response.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        kept.append(records)

    for number, value in enumerate((b"a", b"b")):
        owner.exchange.request(FetchRequest(), FetchResponse, keep, print)
        data = FetchedPartition(records=value * 100_000)
        topic = FetchableTopicResponse(topic="t", partitions=[data])
        owner.feed(encode_response(ApiKey.FETCH, 12, number, FetchResponse(responses=[topic])))
    assert [bytes(each) for each in kept] == [b"a" * 100_000, b"b" * 100_000]
