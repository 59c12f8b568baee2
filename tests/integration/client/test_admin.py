"""The admin client against a scripted cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from math import inf, isfinite, nan
from typing import Any

import pytest

from kafkawire.acl import (
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
)
from kafkawire.acl import ResourceType as AclResource
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from ottla import Admin, NewTopic, TopicPartition
from ottla.client.admin_model import (
    GroupMember,
    OffsetSpec,
    OpenTransaction,
    ResourceType,
    ScramDeletion,
    ScramUpsertion,
)
from ottla.client.client_config import Address
from ottla.client.errors import (
    BrokerError,
    BrokerUnreachableError,
    ClientClosedError,
    ConfigurationError,
    ConnectionLostError,
    ProtocolError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from tests.integration.client.client_support import FAST
from tests.integration.client.fake_broker import FakeCluster, fake_cluster
from tests.integration.client.fake_fault import HangUp, LoseResponse, Never, Omit, Refuse
from tests.waiting import until

A0 = TopicPartition("a", 0)
ANY_ENTRY = AclBinding(
    ResourcePattern(AclResource.TOPIC, "a", PatternType.LITERAL),
    AclEntry(
        principal="User:alice", host="*", operation=Operation.READ, permission=Permission.ALLOW
    ),
)
STATIC = GroupMember(
    member_id="one-1", instance_id="one", client_id="c", client_host="", partitions=None
)


async def test_topics_are_created_listed_and_deleted(cluster: FakeCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics(
            [
                NewTopic("a", partitions=3, configs={"retention.ms": "5"}),
                NewTopic("b", assignment={0: (0,), 1: (0,)}),
            ]
        )
        assert await admin.list_topics() == ["a", "b"]
        described = await admin.describe_topics(["a", "b"])
        assert [len(described[name].partitions) for name in "ab"] == [3, 2]
        assert described["a"].topic_id == cluster.logs.topics["a"].topic_id
        assert [each.leader for each in described["a"].partitions] == [0, 0, 0]
        await admin.create_partitions({"b": 4})
        assert len((await admin.describe_topics(["b"]))["b"].partitions) == 4
        await admin.delete_topics(["a", "b"])
        assert await admin.list_topics() == []


async def test_topics_can_be_deleted_on_an_old_broker(
    cluster: FakeCluster,
) -> None:
    cluster.versions[ApiKey.DELETE_TOPICS] = (1, 5)
    cluster.create("a")
    async with Admin(cluster.bootstrap) as admin:
        await admin.delete_topics(["a"])
    assert not cluster.logs.topics


async def test_validate_only_creates_nothing(cluster: FakeCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic("a")], validate_only=True)
    assert not cluster.logs.topics


async def test_several_failures_are_one_error_with_notes(cluster: FakeCluster) -> None:
    cluster.create("a")
    cluster.create("b")
    async with Admin(cluster.bootstrap) as admin:
        with pytest.raises(TopicExistsError, match="topic a") as caught:
            await admin.create_topics([NewTopic("a"), NewTopic("b"), NewTopic("c")])
        assert "topic b" in caught.value.__notes__[0]
        with pytest.raises(UnknownTopicError, match="check its name"):
            await admin.delete_topics(["nowhere"])
        with pytest.raises(UnknownTopicError):
            await admin.describe_topics(["a", "nowhere"])
    assert "c" in cluster.logs.topics


@pytest.mark.parametrize(
    ("api_key", "call", "subject"),
    [
        (ApiKey.CREATE_TOPICS, lambda admin: admin.create_topics([NewTopic("b")]), "topic b"),
        (ApiKey.DELETE_TOPICS, lambda admin: admin.delete_topics(["a"]), "topic a"),
        (ApiKey.CREATE_PARTITIONS, lambda admin: admin.create_partitions({"a": 2}), "topic a"),
        (
            ApiKey.DESCRIBE_CONFIGS,
            lambda admin: admin.describe_configs(ResourceType.TOPIC, "a"),
            "configs of topic a",
        ),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            lambda admin: admin.alter_configs(ResourceType.BROKER, "0", {"x": "1"}),
            "configs of broker 0",
        ),
        (ApiKey.CREATE_ACLS, lambda admin: admin.create_acls([ANY_ENTRY]), "Topic:LITERAL:a"),
        (ApiKey.DELETE_ACLS, lambda admin: admin.delete_acls([AclFilter()]), "access control list"),
        (
            ApiKey.ALTER_CLIENT_QUOTAS,
            lambda admin: admin.alter_client_quotas({"user": "u"}, {"producer_byte_rate": 1.0}),
            "quotas of user u",
        ),
        (
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            lambda admin: admin.describe_user_scram_credentials(["u"]),
            "user u",
        ),
        (
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            lambda admin: admin.alter_user_scram_credentials(
                [ScramDeletion(user="u", mechanism="SCRAM-SHA-256")]
            ),
            "user u",
        ),
        (
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            lambda admin: admin.alter_reassignments({A0: [0]}),
            "partition a-0",
        ),
        (
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            lambda admin: admin.alter_replica_log_dirs(0, {A0: "/x"}),
            "a-0",
        ),
        (ApiKey.DELETE_RECORDS, lambda admin: admin.delete_records({A0: 0}), "a-0"),
        (ApiKey.DESCRIBE_PRODUCERS, lambda admin: admin.describe_producers([A0]), "a-0"),
        (ApiKey.DESCRIBE_TRANSACTIONS, lambda admin: admin.describe_transaction("x"), "id x"),
        (
            ApiKey.WRITE_TXN_MARKERS,
            lambda admin: admin.abort_transaction(
                OpenTransaction(partition=A0, producer_id=1, producer_epoch=0)
            ),
            "a-0",
        ),
        (ApiKey.DESCRIBE_GROUPS, lambda admin: admin.describe_group("g"), "group g"),
        (ApiKey.DELETE_GROUPS, lambda admin: admin.delete_group("g"), "group g"),
        (ApiKey.OFFSET_DELETE, lambda admin: admin.delete_group_offsets("g", [A0]), "group g, a-0"),
        (
            ApiKey.OFFSET_COMMIT,
            lambda admin: admin.alter_group_offsets("g", {A0: 1}),
            "group g, a-0",
        ),
        (ApiKey.OFFSET_FETCH, lambda admin: admin.list_group_offsets("g"), "group g"),
        (ApiKey.FIND_COORDINATOR, lambda admin: admin.delete_group("g"), "coordinator of group g"),
        (ApiKey.LEAVE_GROUP, lambda admin: admin.remove_members("g", [STATIC]), "member one"),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
async def test_a_subject_that_a_response_leaves_out_is_no_success(
    cluster: FakeCluster,
    api_key: ApiKey,
    call: Callable[[Admin], Awaitable[object]],
    subject: str,
) -> None:
    cluster.create("a")
    cluster.script(api_key, Omit())
    async with Admin(cluster.bootstrap, **FAST) as admin:
        with pytest.raises(ProtocolError, match=f"no result for .*{subject}, whose outcome is"):
            await call(admin)
    assert len(cluster.seen(api_key)) == 1


async def test_a_name_that_is_given_twice_counts_once(cluster: FakeCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic("a", partitions=2), NewTopic("a", partitions=2)])
        assert list(await admin.describe_topics(["a", "a"])) == ["a"]
        assert len(await admin.describe_log_dirs([0, 0], {"a": [0, 0]})) == 1
        await admin.delete_topics(["a", "a"])
        two = [NewTopic("a", partitions=2), NewTopic("a", partitions=3)]
        with pytest.raises(ConfigurationError, match="two different topics of the name a"):
            await admin.create_topics(two)
    assert not cluster.logs.topics


async def test_a_single_name_is_not_a_list_of_names(cluster: FakeCluster) -> None:
    """Otherwise "abc" would delete the topics "a", "b" and "c"."""
    async with Admin(cluster.bootstrap, **FAST) as admin:
        await admin.create_topics([NewTopic("a"), NewTopic("b"), NewTopic("c")])
        with pytest.raises(ConfigurationError, match=r"use \['abc'\]"):
            await admin.delete_topics("abc")
        with pytest.raises(ConfigurationError, match="must be str, got int 5"):
            await admin.describe_topics([5])  # type: ignore[list-item]
        with pytest.raises(ConfigurationError, match="a broker is named by its id, got 'x'"):
            await admin.describe_configs(ResourceType.BROKER, "x")
        with pytest.raises(ConfigurationError, match=r"use \['retention.ms'\]"):
            await admin.describe_configs(ResourceType.TOPIC, "a", "retention.ms")
    assert set(cluster.logs.topics) >= {"a", "b", "c"}


async def test_arguments_of_other_types_are_named(cluster: FakeCluster) -> None:
    cluster.create("a")
    five: Any = 5
    half: Any = 0.5
    async with Admin(cluster.bootstrap) as admin:
        with pytest.raises(ConfigurationError, match="topics must be NewTopics, got 'a'"):
            await admin.create_topics(["a"])  # type: ignore[list-item]
        with pytest.raises(ConfigurationError, match="no request can carry an argument"):
            await admin.create_topics([NewTopic("a", configs={"k": five})])
        await admin.describe_configs(ResourceType.TOPIC.value, "a")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="kind must be a ResourceType, got 5"):
            await admin.describe_configs(five, "a")
        with pytest.raises(ConfigurationError, match="name must be str, got int 5"):
            await admin.alter_configs(ResourceType.BROKER, five, {})
        with pytest.raises(ConfigurationError, match="named by its id"):
            await admin.describe_configs(ResourceType.BROKER, "1" * 5_000)
        for wrong, reason in (
            (ScramUpsertion(user="u", mechanism="SCRAM-SHA-256", password=five), "password"),
            (
                ScramUpsertion(
                    user="u", mechanism="SCRAM-SHA-256", password="s3cret", iterations=half
                ),
                "iterations must be a whole number",
            ),
        ):
            with pytest.raises(ConfigurationError, match=reason):
                await admin.alter_user_scram_credentials([wrong])


@pytest.mark.parametrize("wrong", [0.5, nan, inf, True, "1"], ids=repr)
async def test_numbers_of_other_types_are_named(cluster: FakeCluster, wrong: Any) -> None:
    cluster.create("t")
    place = TopicPartition("t", 0)
    wrong_place = TopicPartition("t", wrong)
    async with Admin(cluster.bootstrap) as admin:
        calls: dict[str, Coroutine[Any, Any, object]] = {
            "partitions": admin.create_topics([NewTopic("a", partitions=wrong)]),
            "replication_factor": admin.create_topics([NewTopic("a", replication_factor=wrong)]),
            "a broker of the": admin.create_topics([NewTopic("a", assignment={0: (wrong,)})]),
            "a partition of the": admin.create_topics([NewTopic("a", assignment={wrong: (0,)})]),
            "a number of partitions": admin.create_partitions({"t": wrong}),
            "broker_ids": admin.describe_log_dirs([wrong]),
            "a replica": admin.alter_reassignments({place: [wrong]}),
            "producer_ids": admin.list_transactions(producer_ids=[wrong]),
            "min_duration_ms": admin.list_transactions(min_duration_ms=wrong),
            "broker_id": admin.describe_producers([place], broker_id=wrong),
            "max_timeout_ms": admin.find_hanging_transactions([place], max_timeout_ms=wrong),
            "a timestamp": admin.list_offsets({place: wrong}),
            "an offset": admin.delete_records({place: wrong}),
            "max_lifetime_ms": admin.create_delegation_token(max_lifetime_ms=wrong),
            "period_ms": admin.renew_delegation_token(b"s3cret", wrong),
            "producer_id": admin.abort_transaction(
                OpenTransaction(partition=place, producer_id=wrong, producer_epoch=0)
            ),
        }
        for name, call in calls.items():
            with pytest.raises(ConfigurationError, match=f"{name}.* must be a whole number, got"):
                await call
        for call in (
            admin.describe_log_dirs([0], {"t": [wrong]}),
            admin.elect_leaders([wrong_place]),
            admin.list_reassignments([wrong_place]),
            admin.describe_producers([wrong_place]),
            admin.delete_group_offsets("g", [wrong_place]),
            admin.alter_group_offsets("g", {wrong_place: 0}),
            admin.alter_replica_log_dirs(0, {wrong_place: "/x"}),
        ):
            with pytest.raises(ConfigurationError, match="a partition is TopicPartition"):
                await call
        if not isinstance(wrong, float) or not isfinite(wrong):
            with pytest.raises(ConfigurationError, match="rate must be a number or None"):
                await admin.alter_client_quotas({"user": "a"}, {"rate": wrong})
        with pytest.raises(ConfigurationError, match="hmac must be bytes, got "):
            await admin.expire_delegation_token(wrong)
    assert set(cluster.logs.topics) == {"t"}


async def test_lists_instead_of_mappings_are_named(cluster: FakeCluster) -> None:
    place: Any = [TopicPartition("t", 0)]
    async with Admin(cluster.bootstrap) as admin:
        for call in (
            admin.create_partitions(place),
            admin.delete_records(place),
            admin.alter_reassignments(place),
            admin.list_offsets(place),
            admin.alter_group_offsets("g", place),
            admin.alter_configs(ResourceType.TOPIC, "t", place),
            admin.alter_client_quotas(place, {}),
        ):
            with pytest.raises(ConfigurationError, match="must be a dict, got list"):
                await call


async def test_the_client_finds_a_controller_that_moved(pair: FakeCluster) -> None:
    async with Admin(pair.bootstrap, **FAST) as admin:
        pair.controller_id = 1
        await admin.create_topics([NewTopic("a")])
    created_at = [seen.broker_id for seen in pair.requests if seen.api_key is ApiKey.CREATE_TOPICS]
    assert (created_at[0], created_at[-1]) == (0, 1)


async def test_a_change_with_an_unknown_outcome_is_not_retried(cluster: FakeCluster) -> None:
    async with Admin(cluster.bootstrap, **FAST) as admin:
        cluster.script(ApiKey.CREATE_TOPICS, LoseResponse())
        with pytest.raises(ConnectionLostError):
            await admin.create_topics([NewTopic("a")])
    assert len(cluster.seen(ApiKey.CREATE_TOPICS)) == 1
    assert "a" in cluster.logs.topics


async def test_a_change_is_made_although_its_connection_ends_in_the_handshake(
    cluster: FakeCluster,
) -> None:
    async with Admin(cluster.bootstrap, **FAST) as admin:
        # The change is for the controller, and opens the first connection to it.
        cluster.script(ApiKey.API_VERSIONS, HangUp())
        await admin.create_topics([NewTopic("a")])
        assert cluster.next_fault(ApiKey.API_VERSIONS) is None
    assert len(cluster.seen(ApiKey.CREATE_TOPICS)) == 1


@pytest.mark.parametrize(
    ("api_key", "change"),
    [
        (ApiKey.CREATE_ACLS, lambda admin: admin.create_acls([ANY_ENTRY])),
        (ApiKey.DELETE_ACLS, lambda admin: admin.delete_acls([AclFilter()])),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            lambda admin: admin.alter_configs(ResourceType.TOPIC, "a", {"x": "1"}),
        ),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, lambda admin: admin.alter_reassignments({A0: [1]})),
        (ApiKey.ELECT_LEADERS, lambda admin: admin.elect_leaders([A0])),
        (ApiKey.OFFSET_COMMIT, lambda admin: admin.alter_group_offsets("g", {A0: 1})),
        (ApiKey.OFFSET_DELETE, lambda admin: admin.delete_group_offsets("g", [A0])),
        (ApiKey.DELETE_GROUPS, lambda admin: admin.delete_group("g")),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
async def test_a_change_at_any_broker_is_sent_once_if_its_outcome_is_unknown(
    pair: FakeCluster, api_key: ApiKey, change: Callable[[Admin], Awaitable[object]]
) -> None:
    pair.create("a")
    pair.script(api_key, HangUp())
    # Without a known controller, any broker gets the changes that are for the controller.
    pair.controller_id = -1
    async with Admin(pair.bootstrap, **FAST) as admin:
        with pytest.raises(ConnectionLostError, match="was lost"):
            await change(admin)
    assert len(pair.seen(api_key)) == 1


async def test_a_change_waits_for_brokers_that_cannot_be_reached(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("a")
    broker = cluster.brokers[0]
    async with Admin(cluster.bootstrap, **FAST) as admin:
        await broker.stop()
        altering = asyncio.ensure_future(admin.alter_configs(ResourceType.TOPIC, "a", {"x": "1"}))
        await until(lambda: "metadata.refresh_failed" in caplog.text, "a refresh that fails")
        await broker.start()
        await altering
    assert cluster.logs.topics["a"].configs == {"x": "1"}


async def test_reads_are_retried(cluster: FakeCluster) -> None:
    cluster.create("a")
    async with Admin(cluster.bootstrap, **FAST) as admin:
        cluster.script(ApiKey.METADATA, HangUp(), HangUp())
        assert await admin.list_topics() == ["a"]
        cluster.script(ApiKey.LIST_PARTITION_REASSIGNMENTS, HangUp(), HangUp())
        assert await admin.list_reassignments() == {}
        cluster.script(ApiKey.DESCRIBE_CONFIGS, HangUp(), HangUp())
        assert await admin.describe_configs(ResourceType.TOPIC, "a") == {}


async def test_configs_of_a_topic_are_read_beside_a_silent_broker(pair: FakeCluster) -> None:
    pair.create("a")
    async with Admin(pair.bootstrap) as admin:
        pair.script(ApiKey.DESCRIBE_CONFIGS, Never())
        async with asyncio.timeout(10):
            assert await admin.describe_configs(ResourceType.TOPIC, "a") == {}


async def test_the_cluster_describes_itself(pair: FakeCluster) -> None:
    async with Admin(pair.bootstrap) as admin:
        cluster = await admin.describe_cluster()
    assert cluster.cluster_id == "fake"
    assert cluster.controller_id == 0
    assert cluster.brokers == {
        broker.broker_id: Address("127.0.0.1", broker.port) for broker in pair.brokers.values()
    }


async def test_configs_are_read_and_changed(pair: FakeCluster) -> None:
    pair.create("a")
    async with Admin(pair.bootstrap) as admin:
        await admin.alter_configs(ResourceType.TOPIC, "a", {"x": "1", "y": "2"})
        await admin.alter_configs(ResourceType.TOPIC, "a", {"x": None})
        configs = await admin.describe_configs(ResourceType.TOPIC, "a")
        assert {name: entry.value for name, entry in configs.items()} == {"y": "2"}
        assert not configs["y"].is_default
        assert await admin.describe_configs(ResourceType.TOPIC, "a", ["z"]) == {}
        of_broker = await admin.describe_configs(ResourceType.BROKER, "1")
        assert of_broker["broker.id"].value == "1"
        pair.script(ApiKey.DESCRIBE_CONFIGS, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(BrokerError, match="configs of topic a"):
            await admin.describe_configs(ResourceType.TOPIC, "a")


async def test_a_request_that_the_broker_lacks_is_reported(cluster: FakeCluster) -> None:
    del cluster.versions[ApiKey.INCREMENTAL_ALTER_CONFIGS]
    cluster.create("a")
    async with Admin(cluster.bootstrap) as admin:
        with pytest.raises(UnsupportedVersionError, match="INCREMENTAL_ALTER_CONFIGS"):
            await admin.alter_configs(ResourceType.TOPIC, "a", {"x": "1"})


async def test_log_directories_are_described_by_each_broker(pair: FakeCluster) -> None:
    logs = pair.create("a", [0, 1])
    logs[1].append_values(b"v")
    async with Admin(pair.bootstrap) as admin:
        directories = await admin.describe_log_dirs()
        assert [each.path for each in directories] == ["/logs-0", "/logs-1"]
        (replica,) = directories[1].replicas
        assert replica.topic_partition == TopicPartition("a", 1)
        assert replica.size_bytes == len(logs[1].batches[0])
        assert [each.broker_id for each in await admin.describe_log_dirs([1], {"a": [1]})] == [1]


async def test_a_failed_disk_hides_no_other_log_directory(pair: FakeCluster) -> None:
    pair.create("a", [0, 1])
    pair.logs.failed_log_dirs = ("/failed",)
    async with Admin(pair.bootstrap) as admin:
        directories = await admin.describe_log_dirs()
    offline = [each for each in directories if each.error is not None]
    assert [(each.broker_id, each.path) for each in offline] == [(0, "/failed"), (1, "/failed")]
    assert offline[0].error is not None
    assert offline[0].error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [each.path for each in directories if each.error is None] == ["/logs-0", "/logs-1"]


async def test_offsets_of_a_topic_that_was_deleted_fail_soon(cluster: FakeCluster) -> None:
    cluster.create("a")
    first = TopicPartition("a", 0)
    async with Admin(cluster.bootstrap, **FAST) as admin:
        assert first in await admin.list_offsets({first: OffsetSpec.LATEST})
        del cluster.logs.topics["a"]
        with pytest.raises(UnknownTopicError, match="a-0"):
            await asyncio.wait_for(admin.list_offsets({first: OffsetSpec.LATEST}), 20)


async def test_a_leader_that_does_not_know_its_new_topic_yet_is_asked_again(
    cluster: FakeCluster,
) -> None:
    cluster.create("a")
    first = TopicPartition("a", 0)
    # About two seconds of retries.
    refusals = [Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 20
    cluster.script(ApiKey.LIST_OFFSETS, *refusals)
    async with Admin(cluster.bootstrap, retry_backoff_ms=100, retry_backoff_max_ms=100) as admin:
        found = await asyncio.wait_for(admin.list_offsets({first: OffsetSpec.LATEST}), 20)
    assert found[first].offset == 0
    assert not cluster.next_fault(ApiKey.LIST_OFFSETS)


async def test_a_broker_that_does_not_exist_is_named(pair: FakeCluster) -> None:
    async with Admin(pair.bootstrap) as admin:
        with pytest.raises(BrokerUnreachableError, match=r"broker 7 .* \[0, 1\]"):
            await admin.describe_log_dirs([0, 7])


async def test_the_client_waits_for_the_end_of_an_election(pair: FakeCluster) -> None:
    (log,) = pair.create("a", [-1])
    log.append_values(b"0", b"1")
    first = TopicPartition("a", 0)
    async with Admin(pair.bootstrap, **FAST) as admin:
        deleting = asyncio.ensure_future(admin.delete_records({first: 1}))
        await pair.wait_for(ApiKey.METADATA, 4)
        log.move_to(1)
        assert await deleting == {first: 1}
        pair.script(ApiKey.METADATA, Refuse(ErrorCode.LEADER_NOT_AVAILABLE))
        assert list(await admin.describe_topics(["a"])) == ["a"]


async def test_without_a_known_controller_any_broker_gets_the_request(pair: FakeCluster) -> None:
    pair.controller_id = -1
    async with Admin(pair.bootstrap, **FAST) as admin:
        creating = asyncio.ensure_future(admin.create_topics([NewTopic("a")]))
        await pair.wait_for(ApiKey.CREATE_TOPICS)
        pair.controller_id = 1
        await creating
    assert "a" in pair.logs.topics


async def test_records_are_deleted_at_their_leaders(pair: FakeCluster) -> None:
    logs = pair.create("a", [0, 1])
    for log in logs:
        log.append_values(b"0", b"1", b"2")
    first, second = (TopicPartition("a", number) for number in range(2))
    async with Admin(pair.bootstrap, **FAST) as admin:
        pair.script(ApiKey.DELETE_RECORDS, Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert await admin.delete_records({first: 2, second: -1}) == {first: 2, second: 3}
        wanted = {first: OffsetSpec.EARLIEST, second: OffsetSpec.LATEST}
        found = await admin.list_offsets(wanted)
    assert {each: place.offset for each, place in found.items()} == {first: 2, second: 3}


async def test_partitions_are_found_although_they_are_new(cluster: FakeCluster) -> None:
    cluster.create("a")
    first, second, missing = (TopicPartition("a", number) for number in (0, 1, 7))
    async with Admin(cluster.bootstrap, **FAST) as admin:
        await admin.list_offsets({first: OffsetSpec.LATEST})
        await admin.create_partitions({"a": 2})
        assert list(await admin.list_offsets({second: OffsetSpec.LATEST})) == [second]
        for refused in (
            admin.list_offsets({missing: OffsetSpec.LATEST}),
            admin.delete_records({missing: 0}),
            admin.describe_producers([missing]),
        ):
            with pytest.raises(UnknownPartitionError, match="topic a has no partition 7"):
                await refused


async def test_an_old_broker_is_not_asked_for_the_latest_record() -> None:
    async with fake_cluster(versions={ApiKey.LIST_OFFSETS: (0, 6)}) as old:
        (log,) = old.create("a")
        log.append_values(b"0", b"1")
        async with Admin(old.bootstrap, **FAST) as admin:
            assert (await admin.list_offsets({A0: OffsetSpec.LATEST}))[A0].offset == 2
            with pytest.raises(UnsupportedVersionError, match="needs ListOffsets in version 7"):
                await admin.list_offsets({A0: OffsetSpec.MAX_TIMESTAMP})


async def test_a_refused_partition_holds_up_no_other_deletion(pair: FakeCluster) -> None:
    logs = pair.create("a", [0, 1])
    for log in logs:
        log.append_values(b"0", b"1", b"2")
    first, second = (TopicPartition("a", number) for number in range(2))
    nowhere, missing = TopicPartition("nowhere", 0), TopicPartition("a", 7)
    async with Admin(pair.bootstrap, **FAST) as admin:
        pair.script(ApiKey.DELETE_RECORDS, Refuse(ErrorCode.POLICY_VIOLATION))
        with pytest.raises(UnknownTopicError, match="topic nowhere") as caught:
            await admin.delete_records({nowhere: 1, missing: 1, first: 2, second: 2})
    no_partition, refused = caught.value.__notes__
    assert "no partition 7" in no_partition
    assert "POLICY_VIOLATION" in refused
    assert sorted(log.log_start_offset for log in logs) == [0, 2]


async def test_an_abort_marker_finds_a_leader_that_moved(pair: FakeCluster) -> None:
    (log,) = pair.create("a", [0])
    place = TopicPartition("a", 0)
    transaction = OpenTransaction(partition=place, producer_id=1, producer_epoch=0)
    async with Admin(pair.bootstrap, **FAST) as admin:
        await admin.abort_transaction(transaction)
        log.move_to(1)
        await admin.abort_transaction(transaction)
        log.move_to(-1)
        async with Admin(pair.bootstrap, **FAST) as other:
            # Of the retries; a connection may take longer.
            other._timeout_s = 0.1
            with pytest.raises(BrokerError, match="no leader"):
                await other.abort_transaction(transaction)
        ending = asyncio.ensure_future(admin.abort_transaction(transaction))
        await pair.wait_for(ApiKey.WRITE_TXN_MARKERS, len(pair.seen(ApiKey.WRITE_TXN_MARKERS)) + 1)
        log.move_to(0)
        await ending


async def test_groups_are_listed_without_a_broker_that_has_left(pair: FakeCluster) -> None:
    async with Admin(pair.bootstrap, **FAST) as admin:
        assert [group.group_id for group in await admin.list_groups()] == ["at-0", "at-1"]
        gone = pair.brokers[1]
        await gone.stop()
        listing = asyncio.ensure_future(admin.list_groups())
        await pair.wait_for(ApiKey.LIST_GROUPS, 3)
        del pair.brokers[1]
        assert [group.group_id for group in await listing] == ["at-0"]


async def test_very_many_partitions_take_several_requests(
    pair: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.admin.admin_topics.MAX_ELEMENTS", 8)
    async with Admin(pair.bootstrap) as admin:
        await admin.create_topics([NewTopic("a", 5), NewTopic("b", 1), NewTopic("c", 9)])
    created = [[each.name for each in it.topics] for it in pair.seen(ApiKey.CREATE_TOPICS)]
    assert created == [["a", "b"], ["c"]]


async def test_very_many_topics_take_several_requests(
    pair: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As with thousands of topics, since a broker takes 10,000 elements in one request.
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 1)
    monkeypatch.setattr("ottla.client.admin.admin_topics.MAX_ELEMENTS", 4)
    pair.create("a")
    assigned = NewTopic("a", assignment={0: (0, 1)})
    async with Admin(pair.bootstrap) as admin:
        # A refusal in one request does not keep the next ones from being sent.
        with pytest.raises(TopicExistsError, match="topic a"):
            await admin.create_topics([assigned, NewTopic("b"), NewTopic("c", configs={"x": "1"})])
        assert set(await admin.describe_topics(["a", "b", "c"])) == {"a", "b", "c"}
        await admin.create_partitions({"b": 2, "c": 2})
        with pytest.raises(UnknownTopicError, match="nowhere") as caught:
            await admin.delete_topics(["nowhere", "b", "gone", "c"])
    assert "gone" in caught.value.__notes__[0]
    assert set(pair.logs.topics) == {"a"}
    created = [[each.name for each in it.topics] for it in pair.seen(ApiKey.CREATE_TOPICS)]
    assert created == [["a"], ["b", "c"]]
    assert max(len(it.topics or ()) for it in pair.seen(ApiKey.METADATA)) == 1
    assert len(pair.seen(ApiKey.CREATE_PARTITIONS)) == 2
    assert len(pair.seen(ApiKey.DELETE_TOPICS)) == 4


async def test_a_request_that_fails_hides_no_refusal_of_those_before_it(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 1)
    cluster.create("b")
    async with Admin(cluster.bootstrap) as admin:
        cluster.script(ApiKey.DELETE_TOPICS, Refuse(ErrorCode.POLICY_VIOLATION), LoseResponse())
        with pytest.raises(ConnectionLostError) as caught:
            await admin.delete_topics(["a", "b", "c"])
    assert "topic a" in caught.value.__notes__[0]
    assert len(cluster.seen(ApiKey.DELETE_TOPICS)) == 2


async def test_records_of_very_many_partitions_are_deleted_by_several_requests(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 2)
    logs = cluster.create("a", [0] * 5)
    for log in logs:
        log.append_values(b"0", b"1")
    wanted = {TopicPartition("a", number): 1 for number in range(5)}
    async with Admin(cluster.bootstrap) as admin:
        assert await admin.delete_records(wanted) == wanted
    requests = cluster.seen(ApiKey.DELETE_RECORDS)
    assert [len(topic.partitions) for it in requests for topic in it.topics] == [2, 2, 1]


async def test_the_producers_of_very_many_partitions_take_several_requests(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 2)
    cluster.create("a", [0] * 3)
    cluster.script(ApiKey.DESCRIBE_PRODUCERS, Omit(), Omit())
    async with Admin(cluster.bootstrap) as admin:
        with pytest.raises(ProtocolError, match="a-0"):
            await admin.describe_producers([TopicPartition("a", number) for number in range(3)])
    requests = cluster.seen(ApiKey.DESCRIBE_PRODUCERS)
    assert [len(topic.partition_indexes) for it in requests for topic in it.topics] == [2, 1]


async def test_use_outside_of_async_with_is_refused(cluster: FakeCluster) -> None:
    admin = Admin(cluster.bootstrap)
    with pytest.raises(ClientClosedError):
        await admin.list_topics()
    async with admin:
        with pytest.raises(ClientClosedError):
            await admin.start()
    with pytest.raises(ClientClosedError):
        await admin.list_topics()
