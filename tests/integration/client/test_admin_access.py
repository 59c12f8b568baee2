"""Delegation tokens, quotas, members and log directories, through `Admin` at a real broker."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafkawire.acl import (
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.client.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConfigurationError,
    OttlaError,
    UnknownTopicError,
)
from tests.conftest import BrokerProcess, StartBroker
from tests.ports import free_port
from tests.waiting import until
from trust.jaas import PLAIN_MODULE

T0 = TopicPartition("t", 0)


async def test_tokens_are_made_renewed_listed_and_expired(start_broker: StartBroker) -> None:
    port, sasl = free_port(), free_port()
    start_broker(
        overrides={
            "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required user_alice="s3cret-pw" user_bob="s3cret-pw";'
            ),
            "delegation.token.master.key": "s3cret",
        }
    )
    login: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "s3cret-pw",
    }
    async with Admin(f"127.0.0.1:{sasl}", **login) as admin:
        token = await admin.create_delegation_token(
            renewers=["User:bob"], max_lifetime_ms=3_600_000
        )
        assert (token.owner, token.renewers) == ("User:alice", ("User:bob",))
        assert token.max_ms - token.issue_ms == 3_600_000
        assert repr(token.hmac) not in repr(token)
        assert await admin.describe_delegation_tokens() == [token]
        assert await admin.describe_delegation_tokens(["User:bob"]) == [token]
        assert await admin.describe_delegation_tokens(["User:carol"]) == []
        expiry_ms = await admin.renew_delegation_token(token.hmac, 60_000)
        assert token.issue_ms < expiry_ms <= token.max_ms
        await admin.expire_delegation_token(token.hmac)
        assert await admin.describe_delegation_tokens() == []
        with pytest.raises(BrokerError):
            await admin.renew_delegation_token(token.hmac)
        with pytest.raises(ConfigurationError, match="like User:alice, got 'bob'"):
            await admin.create_delegation_token(renewers=["bob"])


async def test_quotas_match_by_name_and_kind(shared_broker: BrokerProcess) -> None:
    async with Admin(shared_broker.bootstrap) as admin:
        pair = {"user": "al", "client-id": "app"}
        await admin.alter_client_quotas(pair, {"producer_byte_rate": 5.0})
        await admin.alter_client_quotas({"user": None}, {"consumer_byte_rate": 7.0})
        (found,) = await admin.describe_client_quotas({"user": "al"})
        assert (found.entity, found.values) == (pair, {"producer_byte_rate": 5.0})
        assert await admin.describe_client_quotas({"user": "al"}, strict=True) == []
        (default,) = await admin.describe_client_quotas(kinds=["user"], strict=True)
        assert (default.entity, default.values) == ({"user": None}, {"consumer_byte_rate": 7.0})
        await admin.alter_client_quotas({"user": None}, {"consumer_byte_rate": None})
        assert len(await admin.describe_client_quotas()) == 1
        with pytest.raises(BrokerError):
            await admin.alter_client_quotas({"group": "g"}, {"producer_byte_rate": 1.0})
        with pytest.raises(OttlaError, match="rate must be a number or None, got ''"):
            await admin.alter_client_quotas({"user": "al"}, {"producer_byte_rate": ""})  # type: ignore[dict-item]
        for entity, changes in (({}, {"a": 1.0}), ({"user": "al"}, {}), ({"user": 7}, {"a": 1.0})):
            with pytest.raises(ConfigurationError):
                await admin.alter_client_quotas(entity, changes)  # type: ignore[arg-type]


async def test_entries_and_filters_that_are_given_twice_count_once(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(
        overrides={
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    entry = AclEntry(
        principal="User:al", host="*", operation=Operation.READ, permission=Permission.ALLOW
    )
    binding = AclBinding(ResourcePattern(ResourceType.TOPIC, "t"), entry)
    overlapping = [AclFilter(principal="User:al"), AclFilter(name="t"), AclFilter(name="t")]
    async with Admin(broker.bootstrap) as admin:
        await admin.create_acls([binding, binding])
        assert await admin.delete_acls(overlapping) == [binding]
        assert await admin.describe_acls() == []


async def test_members_are_removed_and_offsets_deleted(shared_broker: BrokerProcess) -> None:
    async with (
        Admin(shared_broker.bootstrap) as admin,
        Producer(shared_broker.bootstrap) as producer,
    ):
        await producer.send_and_wait("grouped", b"v")
        place = TopicPartition("grouped", 0)
        async with Consumer(
            shared_broker.bootstrap,
            group_id="crew",
            group_instance_id="one",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe(["grouped"])
            await consumer.fetch_batch()
            await consumer.commit()
            with pytest.raises(BrokerError):
                await admin.delete_group_offsets("crew", [place, place])
        group = await admin.describe_group("crew")
        assert [member.instance_id for member in group.members] == ["one"]
        await admin.remove_members("crew", [*group.members, *group.members])
        with pytest.raises(BrokerError):
            await admin.remove_members("crew", group.members)
        assert (await admin.describe_group("crew")).members == ()
        await admin.delete_group_offsets("crew", [place, place])
        assert await admin.list_group_offsets("crew") == {}
        for offset in (-1, 1.5):
            with pytest.raises(ValueError, match="a whole number from 0"):
                await admin.alter_group_offsets("crew", {place: offset})  # type: ignore[dict-item]
    async with Admin(shared_broker.bootstrap) as impatient:
        # Of the retries; a connection may take longer.
        impatient._timeout_s = 0.2
        with pytest.raises(UnknownTopicError, match="group crew, nowhere-3: "):
            await impatient.alter_group_offsets("crew", {place: 1, TopicPartition("nowhere", 3): 1})


async def test_a_replica_moves_to_another_directory(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    broker = start_broker(overrides={"log.dirs": ",".join(map(str, paths))})
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topics([NewTopic("t", partitions=1)])
        (broker_id,) = (await admin.describe_cluster()).brokers

        async def home() -> list[str]:
            return [each.path for each in await admin.describe_log_dirs() if each.replicas]

        (old,) = await home()
        (other,) = [str(path) for path in paths if str(path) != old]
        await admin.alter_replica_log_dirs(broker_id, {T0: other})
        found: list[str] = []

        async def look() -> None:
            while found != [other]:
                found[:] = await home()

        looking = asyncio.create_task(look())
        await until(looking.done, "the replica to move")
        with pytest.raises(BrokerError):
            await admin.alter_replica_log_dirs(broker_id, {T0: str(tmp_path / "nowhere")})
    async with Admin(broker.bootstrap, request_timeout_ms=1_000) as admin:
        with pytest.raises(BrokerUnreachableError):
            await admin.alter_replica_log_dirs(77, {T0: other})
