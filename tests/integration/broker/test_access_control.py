"""A broker with an authorizer: entries in the coordinator decide over requests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count

import pytest

from kafkawire.acl import (
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.conftest import READY_EVENT, BrokerProcess, StartBroker
from tests.integration.broker.acl_client import (
    CLIENT_HOST,
    CLUSTER,
    WITH_AUTHORIZER,
    acl,
    add,
    group,
    listed,
    remove,
    reserve_for_admin,
    topic,
)
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import wait_until

TOPIC = ResourceType.TOPIC
NONE = ErrorCode.NONE
NAMES = (f"t{number}" for number in count())


@pytest.fixture(scope="module")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), WITH_AUTHORIZER)
    try:
        broker.wait_for_event(READY_EVENT)
        with Wire(broker.port) as admin:
            reserve_for_admin(admin)
        yield broker
        assert broker.stop() == 0, broker.log_tail()
    finally:
        broker.kill()


@pytest.fixture
def admin(guarded_broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(guarded_broker.port) as connected:
        yield connected


@pytest.fixture
def client(guarded_broker: BrokerProcess, admin: Wire) -> Iterator[Wire]:
    """A client without any right at the start of a test."""
    with Wire(guarded_broker.port, CLIENT_HOST) as connected:
        yield connected
    remove(admin, AclFilter(host=CLIENT_HOST))


def metadata(wire: Wire, *names: str) -> dict[str | None, int]:
    topics = [MetadataRequestTopic(name=name) for name in names] if names else None
    response = wire.ask(ApiKey.METADATA, 12, MetadataRequest(topics=topics), MetadataResponse)
    return {each.name: each.error_code for each in response.topics}


def test_entry_counts_for_the_next_request(admin: Wire, client: Wire) -> None:
    name = next(NAMES)
    admin.create_topic(name)
    denied, allowed = ErrorCode.TOPIC_AUTHORIZATION_FAILED, NONE
    assert metadata(client, name) == {name: denied}
    assert add(admin, acl(Operation.READ, topic(name))) == [NONE]
    assert metadata(client, name) == {name: allowed}
    assert client.produce(name, batch(b"x")).error_code == denied
    assert add(admin, acl(Operation.WRITE, topic(name))) == [NONE]
    assert client.produce(name, batch(b"x")).error_code == allowed
    remove(admin, AclFilter(name=name, operation=Operation.WRITE))
    assert client.produce(name, batch(b"x")).error_code == denied
    assert client.fetch(name, 0).error_code == allowed


def test_unknown_topic_is_not_revealed(admin: Wire, client: Wire) -> None:
    name, missing = next(NAMES), next(NAMES)
    admin.create_topic(name)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert metadata(client, name, missing) == {name: code, missing: code}
    assert metadata(client) == {}
    for unknown in (name, missing):
        assert client.produce(unknown, batch(b"x")).error_code == code
        assert client.fetch(unknown, 0).error_code == code
    add(admin, acl(Operation.DESCRIBE, topic("t", PatternType.PREFIXED)))
    assert metadata(client, name, missing) == {
        name: NONE,
        missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert name in metadata(client)


@pytest.mark.parametrize("version", range(4))
def test_entries_are_added_listed_and_removed(admin: Wire, client: Wire, version: int) -> None:
    del client
    orders, every = topic("orders"), topic("*")
    acls = {
        acl(Operation.READ, orders),
        acl(Operation.WRITE, orders, permission=Permission.DENY),
        acl(Operation.ALTER, every),
        acl(Operation.DESCRIBE, group("g")),
    }
    if version:
        acls.add(acl(Operation.READ, topic("ord", PatternType.PREFIXED)))
    assert set(add(admin, *sorted(acls, key=str), version=version)) == {NONE}
    assert add(admin, acl(Operation.READ, orders), version=version) == [NONE]
    by_host = AclFilter(host=CLIENT_HOST, pattern_type=PatternType.LITERAL)
    literals = {each for each in acls if each[0].pattern_type is PatternType.LITERAL}
    assert listed(admin, by_host, version) == literals
    if version:
        match = AclFilter(
            resource_type=TOPIC,
            name="orders",
            pattern_type=PatternType.MATCH,
            host=CLIENT_HOST,
        )
        assert listed(admin, match, version) == {each for each in acls if each[0] != group("g")}
    only_reads = AclFilter(
        host=CLIENT_HOST, operation=Operation.READ, pattern_type=PatternType.LITERAL
    )
    reads = {each for each in literals if each[1].operation is Operation.READ}
    assert remove(admin, only_reads, by_host, version=version) == [reads, literals - reads]
    assert listed(admin, by_host, version) == set()


@pytest.mark.parametrize(
    ("kind", "name", "pattern_type"),
    [
        (ResourceType.CLUSTER, "my-cluster", PatternType.LITERAL),
        (TOPIC, "", PatternType.LITERAL),
        (TOPIC, "a/b", PatternType.LITERAL),
        (TOPIC, "..", PatternType.PREFIXED),
        (TOPIC, "a\0", PatternType.LITERAL),
        (TOPIC, "a", PatternType.MATCH),
        (TOPIC, "a", PatternType.ANY),
        (ResourceType.ANY, "a", PatternType.LITERAL),
    ],
)
def test_entry_that_would_apply_to_nothing_is_refused_alone(
    admin: Wire, client: Wire, kind: ResourceType, name: str, pattern_type: PatternType
) -> None:
    del client
    bad = acl(Operation.READ, ResourcePattern(kind, name, pattern_type))
    good = acl(Operation.READ, topic("good"))
    assert add(admin, bad, good) == [ErrorCode.INVALID_REQUEST, NONE]
    assert listed(admin, AclFilter(host=CLIENT_HOST)) == {good}


GOOD_ENTRY = AclCreation(
    resource_type=TOPIC,
    resource_name="good",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:ANONYMOUS",
    host=CLIENT_HOST,
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)
GOOD_FILTER = DeleteAclsFilter(
    resource_type_filter=TOPIC,
    resource_name_filter="good",
    pattern_type_filter=PatternType.LITERAL,
    principal_filter=None,
    host_filter=None,
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)
ENTRY_FIELDS = ("resource_type", "resource_pattern_type", "operation", "permission_type")
FILTER_FIELDS = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")


@pytest.mark.parametrize("place", range(4))
def test_request_with_the_number_of_the_unknown_closes_the_connection(
    guarded_broker: BrokerProcess, place: int
) -> None:
    entry = replace(GOOD_ENTRY)
    setattr(entry, ENTRY_FIELDS[place], 0)
    wanted = replace(GOOD_FILTER)
    setattr(wanted, FILTER_FIELDS[place], 0)
    for key, message in (
        (ApiKey.CREATE_ACLS, CreateAclsRequest(creations=[GOOD_ENTRY, entry])),
        (ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=[GOOD_FILTER, wanted])),
        (ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(**asdict(wanted))),
    ):
        with Wire(guarded_broker.port) as wire:
            wire.send(key, 3, message)
            assert wire.is_closed()


@pytest.mark.parametrize("number", [99, -1])
@pytest.mark.parametrize("place", range(4))
def test_entry_with_an_undefined_number_is_refused_and_such_a_filter_matches_nothing(
    admin: Wire, client: Wire, place: int, number: int
) -> None:
    """As in Kafka; clients of later versions have operations and resources that this one lacks."""
    del client
    entry = replace(GOOD_ENTRY)
    setattr(entry, ENTRY_FIELDS[place], number)
    creation = CreateAclsRequest(creations=[entry, GOOD_ENTRY])
    created = admin.ask(ApiKey.CREATE_ACLS, 3, creation, CreateAclsResponse)
    assert [each.error_code for each in created.results] == [ErrorCode.INVALID_REQUEST, NONE]
    wanted = replace(GOOD_FILTER)
    setattr(wanted, FILTER_FIELDS[place], number)
    found = admin.ask(
        ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(**asdict(wanted)), DescribeAclsResponse
    )
    assert (found.error_code, found.resources) == (NONE, [])
    deletion = DeleteAclsRequest(filters=[wanted, GOOD_FILTER])
    deleted = admin.ask(ApiKey.DELETE_ACLS, 3, deletion, DeleteAclsResponse).filter_results
    assert [(each.error_code, len(each.matching_acls)) for each in deleted] == [
        (NONE, 0),
        (NONE, 1),
    ]


def test_lists_are_for_those_with_rights_on_the_cluster(admin: Wire, client: Wire) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    wanted = DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )
    answer = client.ask(ApiKey.DESCRIBE_ACLS, 3, wanted, DescribeAclsResponse)
    assert (answer.error_code, list(answer.resources)) == (code, [])
    assert add(client, acl(Operation.ALL)) == [code]
    add(admin, acl(Operation.DESCRIBE, CLUSTER))
    assert listed(client)
    assert add(client, acl(Operation.ALL)) == [code]


def test_idempotent_producer_needs_a_topic_to_write_or_a_right_on_the_cluster(
    admin: Wire, client: Wire
) -> None:
    def allocate() -> int:
        request = InitProducerIdRequest(transactional_id=None)
        return client.ask(ApiKey.INIT_PRODUCER_ID, 4, request, InitProducerIdResponse).error_code

    assert allocate() == NONE, "everybody may write topics without entries"
    add(admin, acl(Operation.WRITE, topic("*"), permission=Permission.DENY))
    assert allocate() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    add(admin, acl(Operation.IDEMPOTENT_WRITE))
    assert allocate() == NONE


@pytest.mark.parametrize("is_mixed", [False, True])
def test_denied_produce_without_acknowledgement_closes_the_connection(
    guarded_broker: BrokerProcess, admin: Wire, client: Wire, is_mixed: bool
) -> None:
    del client
    allowed, denied = next(NAMES), next(NAMES)
    admin.create_topic(allowed)
    add(admin, acl(Operation.WRITE, topic(allowed)))
    names = [allowed, denied] if is_mixed else [denied]
    with Wire(guarded_broker.port, CLIENT_HOST) as wire:
        wire.send(ApiKey.PRODUCE, 9, produce_request(names, acks=0))
        assert wire.is_closed()
    assert admin.fetch(allowed, 0).high_watermark == len(names) - 1


def test_allowed_batches_are_acknowledged_beside_denied_ones(admin: Wire, client: Wire) -> None:
    allowed, denied = next(NAMES), next(NAMES)
    admin.create_topic(allowed)
    add(admin, acl(Operation.WRITE, topic(allowed)))
    for acks in (1, -1):
        request = produce_request([denied, allowed], acks)
        answer = client.ask(ApiKey.PRODUCE, 9, request, ProduceResponse)
        assert {each.name: each.partition_responses[0].error_code for each in answer.responses} == {
            allowed: NONE,
            denied: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
    assert admin.fetch(allowed, 0).high_watermark == 2


def produce_request(names: Sequence[str], acks: int) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=0, records=batch(b"x"))]
            )
            for name in names
        ],
    )


def test_creation_by_metadata_needs_the_right_to_create(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(overrides={**WITH_AUTHORIZER, "auto.create.topics.enable": "true"})
    with Wire(broker.port) as admin, Wire(broker.port, CLIENT_HOST) as client:
        reserve_for_admin(admin)
        add(admin, acl(Operation.DESCRIBE, topic("new", PatternType.PREFIXED)))
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert metadata(client, "new-1", "other") == {"new-1": denied, "other": denied}
        assert "new-1" not in metadata(admin)
        add(admin, acl(Operation.CREATE, topic("new-1")))
        assert metadata(client, "new-1", "new-2")["new-2"] == denied
        wait_until(lambda: "new-1" in metadata(admin))
        add(admin, acl(Operation.CREATE))
        assert metadata(client, "new-2")["new-2"] != denied


def test_entries_survive_a_restart_and_guard_the_first_request(start_broker: StartBroker) -> None:
    broker = start_broker(overrides=WITH_AUTHORIZER)
    with Wire(broker.port) as admin:
        reserve_for_admin(admin)
    broker.stop()
    again = start_broker(overrides=WITH_AUTHORIZER, data_dir=broker.data_dir)
    with Wire(again.port) as admin, Wire(again.port, CLIENT_HOST) as client:
        assert len(listed(admin)) == 4
        assert add(client, acl(Operation.ALL)) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


def test_denials_are_in_the_audit_log_once(
    guarded_broker: BrokerProcess, admin: Wire, client: Wire
) -> None:
    name = next(NAMES)
    admin.create_topic(name)
    for _ in range(3):
        client.produce(name, batch(b"x"))
    metadata(client)

    last = next(NAMES)
    client.produce(last, batch(b"x"))

    def is_about(topic: str) -> Callable[[Mapping[str, object]], bool]:
        return lambda event: event["resource"] == f"Topic:LITERAL:{topic}"

    # Events are in order, and read by a thread.
    guarded_broker.wait_for_event("authorizer.denied", where=is_about(last))
    [denial] = [
        event
        for event in guarded_broker.events
        if event["event"] == "authorizer.denied" and is_about(name)(event)
    ]
    assert denial["principal"] == "User:ANONYMOUS"
    assert denial["operation"] == "Write"
    assert denial["host"] == CLIENT_HOST
    assert denial["request"] == "PRODUCE"
    assert denial["resource"] == f"Topic:LITERAL:{name}"
    assert denial["resource_ref_count"] == 1
