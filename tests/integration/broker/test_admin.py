"""Administration over a real socket: topics, configs, log dirs, offsets, coordinators."""

import itertools
import select
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, TopicId, topic_id_from_text
from kafkawire.internal_topic import OFFSETS_TOPIC
from kafkawire.messages import alter_configs as alter
from kafkawire.messages import incremental_alter_configs as incremental
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
from kafkawire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kafkawire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kafkawire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkawire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kafkawire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkawire.messages.scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kafkawire.messages.transaction_admin import ListTransactionsRequest, ListTransactionsResponse
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import NOT_HERE, NOW_MS, Wire, batch

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
TIMEOUT_MS = 60_000
names = (f"admin-{number}" for number in itertools.count())


@pytest.fixture
def topic(wire: Wire) -> str:
    name = next(names)
    assert wire.create_topic(name).error_code == ErrorCode.NONE
    return name


def partition_count(wire: Wire, name: str) -> int | ErrorCode:
    """Return the number of a topic's partitions, or the error of its metadata."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    found = wire.ask(ApiKey.METADATA, 12, request, MetadataResponse).topics[0]
    return len(found.partitions) or next(c for c in ErrorCode if c == found.error_code)


# CreateTopics


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_in_every_version(wire: Wire, version: int) -> None:
    name = next(names)
    wanted = CreatableTopic(
        name=name,
        num_partitions=3,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="5000")],
    )
    request = CreateTopicsRequest(topics=[wanted])
    result = wire.ask(ApiKey.CREATE_TOPICS, version, request, CreateTopicsResponse).topics[0]
    assert (result.name, result.error_code, result.error_message) == (name, ErrorCode.NONE, None)
    assert partition_count(wire, name) == 3
    assert (result.topic_id != ZERO_TOPIC_ID) == (version >= 7)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert result.configs is not None
        shown = {config.name: (config.value, config.config_source) for config in result.configs}
        assert shown["retention.ms"] == ("5000", 1)
        assert shown["segment.bytes"] == ("1073741824", 5)


def test_a_topic_that_is_only_validated_is_not_created(wire: Wire) -> None:
    name = next(names)
    wanted = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    request = CreateTopicsRequest(topics=[wanted], validate_only=True)
    result = wire.ask(ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse).topics[0]
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 1)
    assert partition_count(wire, name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_thousand_rejected_topics_log_a_few_lines(
    shared_broker: BrokerProcess, wire: Wire
) -> None:
    prefix = f"bad/{next(names)}"
    topics = [
        CreatableTopic(name=f"{prefix}/{number}", num_partitions=-1, replication_factor=-1)
        for number in range(1000)
    ]
    request = CreateTopicsRequest(topics=topics)
    results = wire.ask(ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse).topics
    codes = {result.error_code for result in results}
    assert (len(results), codes) == (1000, {ErrorCode.INVALID_TOPIC_EXCEPTION})
    shared_broker.wait_for_event("topics.rejected", where=lambda each: each["topic_count"] == 1000)
    logged = [
        each["topic"]
        for each in shared_broker.events
        if each["event"] == "topic.rejected" and str(each["topic"]).startswith(prefix)
    ]
    assert logged == [f"{prefix}/{number}" for number in range(10)]


def test_brokers_may_be_chosen_for_each_partition(wire: Wire) -> None:
    name = next(names)
    wanted = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=[1001])
            for index in range(2)
        ],
    )
    request = CreateTopicsRequest(topics=[wanted])
    assert (
        wire.ask(ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse).topics[0].error_code == 0
    )
    assert partition_count(wire, name) == 2


def wish(
    *,
    name: str = "",
    partitions: int = 1,
    replication_factor: int = 1,
    assignments: Sequence[CreatableReplicaAssignment] = (),
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name or next(names),
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=assignments,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


ON_UNKNOWN_BROKER = [CreatableReplicaAssignment(partition_index=0, broker_ids=[5])]
# They take some 100 ms, far longer than an append.
MANY_PARTITIONS = 200


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (wish(name="a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wish(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (wish(partitions=10_001), ErrorCode.POLICY_VIOLATION),
        (wish(replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wish(replication_factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wish(retention_ms="x"), ErrorCode.INVALID_CONFIG),
        (wish(retention_ms=None), ErrorCode.INVALID_CONFIG),
        (wish(no_such_key="1"), ErrorCode.INVALID_CONFIG),
        (wish(assignments=ON_UNKNOWN_BROKER), ErrorCode.INVALID_REQUEST),
        (
            wish(partitions=-1, replication_factor=-1, assignments=ON_UNKNOWN_BROKER),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "",
)
def test_an_invalid_topic_is_refused(wire: Wire, wanted: CreatableTopic, code: ErrorCode) -> None:
    request = CreateTopicsRequest(topics=[wanted])
    result = wire.ask(ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse).topics[0]
    assert result.error_code == code
    assert result.error_message
    assert (result.num_partitions, result.configs) == (-1, [])


def test_records_flow_while_a_large_topic_is_created(
    shared_broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    large = next(names)
    with Wire(shared_broker.port) as admin:
        request = CreateTopicsRequest(topics=[wish(name=large, partitions=MANY_PARTITIONS)])
        admin.send(ApiKey.CREATE_TOPICS, 7, request)
        offset = wire.produce(topic, batch(b"a")).base_offset
        readable, _, _ = select.select([admin.socket], [], [], 0)
        assert (offset, readable) == (0, []), "the topic was created in between"
        _, response = admin.receive(ApiKey.CREATE_TOPICS, 7)
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NONE
    assert partition_count(wire, large) == MANY_PARTITIONS


def test_an_existing_topic_is_not_created_again(wire: Wire, topic: str) -> None:
    assert wire.create_topic(topic).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    dotted, dashed = f"{topic}.x", f"{topic}_x"
    assert wire.create_topic(dotted).error_code == ErrorCode.NONE
    assert wire.create_topic(dashed).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_named_twice_in_a_request_is_refused_and_the_others_are_created(wire: Wire) -> None:
    twice, once = next(names), next(names)
    request = CreateTopicsRequest(topics=[wish(name=twice), wish(name=once), wish(name=twice)])
    response = wire.ask(ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse)
    assert {result.name: result.error_code for result in response.topics} == {
        twice: ErrorCode.INVALID_REQUEST,
        once: ErrorCode.NONE,
    }


# DeleteTopics


def delete(wire: Wire, *wanted: DeleteTopicState, version: int = 6) -> list[int]:
    request = DeleteTopicsRequest(timeout_ms=TIMEOUT_MS)
    if version >= 6:
        request.topics = wanted
    else:
        request.topic_names = [topic.name or "" for topic in wanted]
    response = wire.ask(ApiKey.DELETE_TOPICS, version, request, DeleteTopicsResponse)
    return [result.error_code for result in response.responses]


@pytest.mark.parametrize("version", range(1, 7))
def test_a_deleted_topic_is_gone_and_its_recreation_is_empty(
    wire: Wire, topic: str, version: int
) -> None:
    wire.produce(topic, batch(b"old"))
    assert delete(wire, DeleteTopicState(name=topic), version=version) == [ErrorCode.NONE]
    assert partition_count(wire, topic) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert wire.produce(topic, batch(b"a")).error_code in NOT_HERE
    assert wire.create_topic(topic).error_code == ErrorCode.NONE
    assert wire.fetch(topic, 0).high_watermark == 0


def test_a_topic_can_be_deleted_by_its_id(wire: Wire) -> None:
    name = next(names)
    topic_id = wire.create_topic(name).topic_id
    assert delete(wire, DeleteTopicState(name=None, topic_id=topic_id)) == [ErrorCode.NONE]
    assert partition_count(wire, name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


UNKNOWN_ID = topic_id_from_text("A" * 21 + "Q")


@pytest.mark.parametrize(
    ("name", "topic_id", "code"),
    [
        ("no-such-topic", ZERO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        ("both", UNKNOWN_ID, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_missing_topic_cannot_be_deleted(
    wire: Wire, name: str | None, topic_id: TopicId, code: ErrorCode
) -> None:
    assert delete(wire, DeleteTopicState(name=name, topic_id=topic_id)) == [code]


def test_a_topic_named_twice_is_not_deleted(wire: Wire, topic: str) -> None:
    twice = [DeleteTopicState(name=topic)] * 2
    assert delete(wire, *twice) == [ErrorCode.INVALID_REQUEST] * 2
    assert partition_count(wire, topic) == 1


def test_deletion_can_be_switched_off(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"delete.topic.enable": "false"})
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        wanted = DeleteTopicState(name="t")
        assert delete(wire, wanted, version=2) == [ErrorCode.INVALID_REQUEST]
        assert delete(wire, wanted, version=3) == [ErrorCode.TOPIC_DELETION_DISABLED]


# CreatePartitions


def grow(wire: Wire, name: str, count: int, *, version: int = 3, brokers: int | None = None) -> int:
    assignments = brokers and [CreatePartitionsAssignment(broker_ids=[brokers])]
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=assignments or None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
    response = wire.ask(ApiKey.CREATE_PARTITIONS, version, request, CreatePartitionsResponse)
    return response.results[0].error_code


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_and_keeps_its_records(wire: Wire, topic: str, version: int) -> None:
    wire.produce(topic, batch(b"a"))
    assert grow(wire, topic, 3, version=version) == ErrorCode.NONE
    assert partition_count(wire, topic) == 3
    assert wire.fetch(topic, 0).high_watermark == 1
    assert wire.produce(topic, batch(b"b"), partition=2).base_offset == 0


@pytest.mark.parametrize(
    ("count", "brokers", "code"),
    [
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (3, 1001, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, 5, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, 1001, ErrorCode.NONE),
    ],
)
def test_invalid_partition_counts_are_refused(
    wire: Wire, topic: str, count: int, brokers: int | None, code: ErrorCode
) -> None:
    assert grow(wire, topic, count, brokers=brokers) == code
    assert partition_count(wire, topic) == (2 if code == ErrorCode.NONE else 1)


def test_create_partitions_may_only_validate_and_names_each_topic_once(
    wire: Wire, topic: str
) -> None:
    wanted = CreatePartitionsTopic(name=topic, count=5, assignments=None)
    for topics, code in (([wanted], ErrorCode.NONE), ([wanted] * 2, ErrorCode.INVALID_REQUEST)):
        request = CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=True)
        response = wire.ask(ApiKey.CREATE_PARTITIONS, 3, request, CreatePartitionsResponse)
        assert [result.error_code for result in response.results] == [code]
    assert partition_count(wire, topic) == 1


# Configs


def describe(
    wire: Wire,
    kind: int,
    name: str,
    keys: Sequence[str] | None = None,
    *,
    version: int = 4,
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        ],
        include_synonyms=version >= 1,
        include_documentation=version >= 3,
    )
    return wire.ask(ApiKey.DESCRIBE_CONFIGS, version, request, DescribeConfigsResponse).results[0]


def config(wire: Wire, topic: str, key: str) -> DescribeConfigsResourceResult:
    found = describe(wire, TOPIC, topic, [key]).configs
    assert len(found) == 1
    return found[0]


def alter_incrementally(
    wire: Wire,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
    kind: int = TOPIC,
) -> int:
    resource = incremental.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = incremental.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    response = wire.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, incremental.IncrementalAlterConfigsResponse
    )
    return response.responses[0].error_code


@pytest.mark.parametrize("version", range(5))
def test_the_configs_of_a_topic_are_described_in_every_version(wire: Wire, version: int) -> None:
    name = next(names)
    wire.create_topic(name, retention_ms="5000")
    result = describe(wire, TOPIC, name, version=version)
    entries = {entry.name: entry for entry in result.configs}
    entry = entries["retention.ms"]
    assert (result.error_code, entry.value) == (ErrorCode.NONE, "5000")
    if version == 0:
        # For clients of Kafka 0.11 and 1.0 this is the only information about a value's source.
        assert not entry.is_default
        assert entries["retention.bytes"].is_default
        return
    assert entry.config_source == 1
    assert [(s.name, s.value, s.source) for s in entry.synonyms] == [
        ("retention.ms", "5000", 1),
        ("log.retention.ms", "604800000", 5),
    ]
    assert not entry.is_sensitive
    assert not entry.read_only
    assert bool(entry.documentation) == (version >= 3)
    assert entry.config_type == (5 if version >= 3 else 0)


def test_the_brokers_configs_are_described_and_read_only(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"log.retention.hours": "2", "broker.id": "7"})
    with Wire(broker.port) as wire:
        entries = {entry.name: entry for entry in describe(wire, BROKER, "7").configs}
        assert (entries["broker.id"].value, entries["broker.id"].config_source) == ("7", 4)
        assert entries["broker.id"].read_only
        assert describe(wire, BROKER, "").configs == []
        wire.create_topic("t")
        retention = config(wire, "t", "retention.ms")
        assert (retention.value, retention.config_source) == ("7200000", 4)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "5", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (32, "group", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_without_configs_are_refused(
    wire: Wire, kind: int, name: str, code: ErrorCode
) -> None:
    result = describe(wire, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


def test_a_changed_config_reaches_the_log_at_once(wire: Wire, topic: str) -> None:
    assert wire.produce(topic, batch(b"x" * 1000)).error_code == ErrorCode.NONE
    assert alter_incrementally(wire, topic, ("max.message.bytes", SET, "500")) == ErrorCode.NONE
    assert wire.produce(topic, batch(b"x" * 1000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert alter_incrementally(wire, topic, ("max.message.bytes", DELETE, None)) == ErrorCode.NONE
    assert wire.produce(topic, batch(b"x" * 1000)).error_code == ErrorCode.NONE


RETENTION = "retention.ms"


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("", ["5"], ErrorCode.INVALID_REQUEST),
        ("", ["x"], ErrorCode.INVALID_REQUEST),
        ("a b", ["5"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", ["x"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", ["5", "5"], ErrorCode.INVALID_REQUEST),
        ("no-such-topic", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no-such-topic", [None], ErrorCode.INVALID_REQUEST),
    ],
)
def test_topics_that_do_not_exist_cannot_be_altered(
    wire: Wire, name: str, values: list[str | None], code: ErrorCode, validate_only: bool
) -> None:
    """The codes are Kafka's, and the order of its checks."""
    changes = [(RETENTION, SET, value) for value in values]
    assert alter_incrementally(wire, name, *changes, validate_only=validate_only) == code
    resource = alter.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[alter.AlterableConfig(name=RETENTION, value=value) for value in values],
    )
    request = alter.AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    response = wire.ask(ApiKey.ALTER_CONFIGS, 1, request, alter.AlterConfigsResponse)
    assert response.responses[0].error_code == code


def test_lists_grow_and_shrink(wire: Wire, topic: str) -> None:
    for operation, expected in ((APPEND, "delete,compact"), (SUBTRACT, "delete")):
        assert alter_incrementally(wire, topic, ("cleanup.policy", operation, "compact")) == 0
        assert config(wire, topic, "cleanup.policy").value == expected


def test_replacing_configs_drops_the_others(wire: Wire) -> None:
    name = next(names)
    wire.create_topic(name, retention_ms="5", segment_ms="6")
    resource = alter.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[alter.AlterableConfig(name="segment.ms", value="7")],
    )
    for version in range(3):
        request = alter.AlterConfigsRequest(resources=[resource])
        key = ApiKey.ALTER_CONFIGS
        response = wire.ask(key, version, request, alter.AlterConfigsResponse)
        assert response.responses[0].error_code == ErrorCode.NONE
    assert config(wire, name, "segment.ms").value == "7"
    assert config(wire, name, "retention.ms").value == "604800000"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("no.such.key", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_change_changes_nothing(
    wire: Wire, topic: str, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    assert alter_incrementally(wire, topic, ("segment.ms", SET, "5"), change) == code
    assert config(wire, topic, "segment.ms").value == "604800000"


def test_a_change_can_be_only_validated(wire: Wire, topic: str) -> None:
    change = ("segment.ms", SET, "5")
    assert alter_incrementally(wire, topic, change, validate_only=True) == ErrorCode.NONE
    assert config(wire, topic, "segment.ms").value == "604800000"


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (BROKER, "5", ErrorCode.INVALID_REQUEST),
        (8, "1001", ErrorCode.INVALID_REQUEST),
        (TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_resources_without_configs_are_not_altered(
    wire: Wire, kind: int, name: str, code: ErrorCode
) -> None:
    setting = alter.AlterableConfig(name="segment.ms", value="5")
    resource = alter.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[setting])
    request = alter.AlterConfigsRequest(resources=[resource])
    response = wire.ask(ApiKey.ALTER_CONFIGS, 2, request, alter.AlterConfigsResponse)
    assert response.responses[0].error_code == code


def test_a_resource_may_be_named_once(wire: Wire, topic: str) -> None:
    setting = alter.AlterableConfig(name="segment.ms", value="5")
    resource = alter.AlterConfigsResource(
        resource_type=TOPIC, resource_name=topic, configs=[setting]
    )
    request = alter.AlterConfigsRequest(resources=[resource, resource])
    response = wire.ask(ApiKey.ALTER_CONFIGS, 2, request, alter.AlterConfigsResponse)
    codes = [each.error_code for each in response.responses]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]


# ListOffsets and DeleteRecords


def list_offset(
    wire: Wire, topic: str, timestamp: int, *, version: int = 7, partition: int = 0, epoch: int = -1
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    response = wire.ask(ApiKey.LIST_OFFSETS, version, request, ListOffsetsResponse)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 10))
def test_offsets_are_found_by_special_value_and_by_time(
    wire: Wire, topic: str, version: int
) -> None:
    for shift in (0, 100, 200):
        wire.produce(topic, batch(b"a", b"b", timestamp_ms=NOW_MS + shift))
    found = {
        timestamp: list_offset(wire, topic, timestamp, version=version)
        for timestamp in (-1, -2, 0, NOW_MS + 1, NOW_MS + 2, NOW_MS + 500)
    }
    assert {t: (r.error_code, r.timestamp, r.offset) for t, r in found.items()} == {
        -1: (ErrorCode.NONE, -1, 6),
        -2: (ErrorCode.NONE, -1, 0),
        0: (ErrorCode.NONE, NOW_MS, 0),
        NOW_MS + 1: (ErrorCode.NONE, NOW_MS + 1, 1),
        NOW_MS + 2: (ErrorCode.NONE, NOW_MS + 100, 2),
        NOW_MS + 500: (ErrorCode.NONE, -1, -1),
    }
    assert found[-1].leader_epoch == (0 if version >= 4 else -1)


def test_the_largest_timestamp_needs_version_7(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch(b"a", timestamp_ms=NOW_MS + 50))
    wire.produce(topic, batch(b"b", timestamp_ms=NOW_MS))
    newest = list_offset(wire, topic, -3)
    assert (newest.error_code, newest.timestamp, newest.offset) == (0, NOW_MS + 50, 0)
    old = list_offset(wire, topic, -3, version=6)
    assert old.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_all_of_a_log_is_local(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch(b"a"))
    earliest_local = list_offset(wire, topic, -4, version=8)
    assert (earliest_local.error_code, earliest_local.offset) == (ErrorCode.NONE, 0)
    latest_tiered = list_offset(wire, topic, -5, version=9)
    assert (latest_tiered.error_code, latest_tiered.offset) == (ErrorCode.NONE, -1)
    for timestamp, version in ((-4, 7), (-5, 8)):
        answer = list_offset(wire, topic, timestamp, version=version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_topic_has_no_largest_timestamp(wire: Wire, topic: str) -> None:
    found = list_offset(wire, topic, -3)
    assert (found.error_code, found.timestamp, found.offset) == (ErrorCode.NONE, -1, -1)


@pytest.mark.parametrize(
    ("partition", "timestamp", "epoch", "code"),
    [
        (9, -1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, -1, 5, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (0, -4, -1, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_an_invalid_lookup_is_refused(
    wire: Wire, topic: str, partition: int, timestamp: int, epoch: int, code: ErrorCode
) -> None:
    found = list_offset(wire, topic, timestamp, partition=partition, epoch=epoch)
    assert (found.error_code, found.offset) == (code, -1)


def test_a_partition_named_twice_is_refused(wire: Wire, topic: str) -> None:
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(timestamp=-1)] * 2)
    request = ListOffsetsRequest(replica_id=-1, topics=[wanted])
    response = wire.ask(ApiKey.LIST_OFFSETS, 7, request, ListOffsetsResponse)
    assert [p.error_code for p in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("replica_id", "level", "timestamp", "code"),
    [
        (-1, 2, -1, ErrorCode.UNKNOWN_SERVER_ERROR),
        (-1, -1, 0, ErrorCode.UNKNOWN_SERVER_ERROR),
        (-1, 2, -9, ErrorCode.UNSUPPORTED_VERSION),
        (-2, 2, -1, ErrorCode.NONE),
        (-1, 0, -1, ErrorCode.NONE),
        (-1, 1, -1, ErrorCode.NONE),
    ],
)
def test_offsets_of_an_unknown_isolation_level_are_refused(
    wire: Wire, topic: str, replica_id: int, level: int, timestamp: int, code: ErrorCode
) -> None:
    """Only consumers have a level. The codes are Kafka's."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=level,
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
    )
    response = wire.ask(ApiKey.LIST_OFFSETS, 7, request, ListOffsetsResponse)
    assert response.topics[0].partitions[0].error_code == code


def delete_records(
    wire: Wire, topic: str, offset: int, *, version: int = 2, partition: int = 0
) -> tuple[int, int]:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=TIMEOUT_MS
    )
    response = wire.ask(ApiKey.DELETE_RECORDS, version, request, DeleteRecordsResponse)
    found = response.topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_deleted_records_cannot_be_fetched(wire: Wire, topic: str, version: int) -> None:
    wire.produce(topic, batch(b"a", b"b", b"c"))
    assert delete_records(wire, topic, 2, version=version) == (ErrorCode.NONE, 2)
    assert delete_records(wire, topic, 1, version=version) == (ErrorCode.NONE, 2)
    assert list_offset(wire, topic, -2).offset == 2
    assert wire.fetch(topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert wire.fetch(topic, 2).log_start_offset == 2
    assert delete_records(wire, topic, -1, version=version) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize(
    ("offset", "partition", "code"),
    [
        (4, 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_offsets_outside_the_log_cannot_be_deleted(
    wire: Wire, topic: str, offset: int, partition: int, code: ErrorCode
) -> None:
    wire.produce(topic, batch(b"a", b"b", b"c"))
    assert delete_records(wire, topic, offset, partition=partition) == (code, -1)


def test_a_compacted_topic_keeps_its_records(wire: Wire) -> None:
    name = next(names)
    wire.create_topic(name, cleanup_policy="compact")
    assert delete_records(wire, name, 0) == (ErrorCode.POLICY_VIOLATION, -1)


def test_records_of_an_internal_topic_are_never_deleted(start_broker: StartBroker) -> None:
    with Wire(start_broker().port) as wire:
        code, _ = delete_records(wire, OFFSETS_TOPIC, -1)
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wire.create_topic(OFFSETS_TOPIC, cleanup_policy="compact,delete")
        code, _ = delete_records(wire, OFFSETS_TOPIC, -1)
        assert code == ErrorCode.INVALID_TOPIC_EXCEPTION


# DescribeLogDirs


@pytest.mark.parametrize("version", range(5))
def test_log_dirs_report_sizes(
    shared_broker: BrokerProcess, wire: Wire, topic: str, version: int
) -> None:
    sent = batch(b"a" * 1000)
    wire.produce(topic, sent)
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[0])])
    response = wire.ask(ApiKey.DESCRIBE_LOG_DIRS, version, request, DescribeLogDirsResponse)
    found = response.results[0]
    assert Path(found.log_dir) == shared_broker.data_dir.absolute()
    assert [
        (t.name, p.partition_index, p.partition_size) for t in found.topics for p in t.partitions
    ] == [(topic, 0, len(sent))]
    assert (found.total_bytes > found.usable_bytes > 0) == (version >= 4)


def test_all_partitions_of_all_log_dirs_can_be_listed(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    paths = [tmp_path / "first", tmp_path / "second"]
    broker = start_broker(overrides={"log.dirs": ",".join(map(str, paths))})
    with Wire(broker.port) as wire:
        wire.create_topic("t", partitions=4)
        request = DescribeLogDirsRequest(topics=None)
        response = wire.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, request, DescribeLogDirsResponse)
    assert [Path(result.log_dir) for result in response.results] == paths
    assert [len(result.topics[0].partitions) for result in response.results] == [2, 2]


# Producer ids and coordinators


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(wire: Wire, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    given = [
        wire.ask(ApiKey.INIT_PRODUCER_ID, version, request, InitProducerIdResponse)
        for _ in range(3)
    ]
    assert [(answer.error_code, answer.producer_epoch) for answer in given] == [(0, 0)] * 3
    assert len({answer.producer_id for answer in given}) == 3


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "epoch", "code"),
    [
        ("", -1, -1, ErrorCode.INVALID_REQUEST),
        (None, 5, -1, ErrorCode.INVALID_REQUEST),
        (None, -1, 5, ErrorCode.INVALID_REQUEST),
    ],
)
def test_producer_must_have_both_an_id_and_an_epoch_or_none(
    wire: Wire, transactional_id: str | None, producer_id: int, epoch: int, code: ErrorCode
) -> None:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    answer = wire.ask(ApiKey.INIT_PRODUCER_ID, 4, request, InitProducerIdResponse)
    assert (answer.error_code, answer.producer_id) == (code, -1)


def test_an_unknown_kind_of_coordinator_is_refused(wire: Wire) -> None:
    request = FindCoordinatorRequest(key="a", key_type=7)
    answer = wire.ask(ApiKey.FIND_COORDINATOR, 3, request, FindCoordinatorResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


# Features that this broker does not serve


@pytest.mark.parametrize("version", range(4))
def test_without_an_authorizer_acls_are_refused_one_by_one(wire: Wire, version: int) -> None:
    creation = AclCreation(
        resource_type=2,
        resource_name="t",
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    described = wire.ask(ApiKey.DESCRIBE_ACLS, version, DescribeAclsRequest(), DescribeAclsResponse)
    created = wire.ask(
        ApiKey.CREATE_ACLS, version, CreateAclsRequest(creations=[creation] * 2), CreateAclsResponse
    )
    deleted = wire.ask(
        ApiKey.DELETE_ACLS,
        version,
        DeleteAclsRequest(filters=[DeleteAclsFilter()]),
        DeleteAclsResponse,
    )
    assert described.error_code == ErrorCode.SECURITY_DISABLED
    assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    assert [each.error_code for each in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]


def test_no_user_has_credentials(wire: Wire) -> None:
    key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    everybody = wire.ask(
        key, 0, DescribeUserScramCredentialsRequest(), DescribeUserScramCredentialsResponse
    )
    assert (everybody.error_code, everybody.results) == (ErrorCode.NONE, [])
    request = DescribeUserScramCredentialsRequest(users=[UserName(name="a")])
    [missing] = wire.ask(key, 0, request, DescribeUserScramCredentialsResponse).results
    assert (missing.user, missing.error_code) == ("a", ErrorCode.RESOURCE_NOT_FOUND)


@pytest.mark.parametrize("version", range(2))
def test_no_transactions_are_listed(wire: Wire, version: int) -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "Going"])
    answer = wire.ask(ApiKey.LIST_TRANSACTIONS, version, request, ListTransactionsResponse)
    assert (answer.error_code, answer.transaction_states) == (ErrorCode.NONE, [])
    assert answer.unknown_state_filters == ["Going"]
