"""Configs that a broker caches, and its session: `broker.live_configs.config_nodes`."""

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from structlog.testing import capture_logs

from broker.cluster import node_watch
from broker.cluster.coordinator_session import CoordinatorSession
from broker.config.broker_config import BrokerConfig
from broker.config.dynamic_config import DynamicConfig
from broker.errors import StartupError
from broker.live_configs.broker_overrides import BrokerConfigs
from broker.live_configs.config_nodes import ConfigNodes
from broker.live_configs.quota_configs import QuotaConfigs
from broker.live_configs.scram_users import ScramUsers
from broker.live_configs.topic_overrides import TopicConfigs
from broker.quotas.client_quotas import ClientQuotas
from clusterstate.broker_registration import create_top_nodes
from clusterstate.config_requests import change_config
from clusterstate.plans import Plan
from clusterstate.znodes import paths
from clusterstate.znodes.scram_credential import encode_credential
from coordination.errors import ErrorCode, SessionExpiredError
from coordination.protocol.messages import OPEN_ACL, Acl, OpCode
from kafkawire.ids import BrokerId
from kafkawire.scram import Credential
from tests.integration.broker.test_unreadable_znodes import set_acl
from tests.integration.coordination.process import (
    DEADLINE_S,
    POLL_INTERVAL_S,
    Coordinator,
    RawClient,
    kill_all,
)
from tests.waiting import until

NO_READER = (Acl(30, "world", "anyone"),)
TIMEOUT_MS = 8_000
MECHANISM = "SCRAM-SHA-256"
CREDENTIAL = encode_credential(Credential.of(MECHANISM, b"s3cret", b"salt", 4096))
RATE = "producer_byte_rate"
Known: TypeAlias = tuple[bool, float | None, float | None, int | None]
"""Whether the user can log in, two quotas, and the retention of a topic."""


def replaced(configs: Mapping[str, str], _found: Mapping[str, str]) -> Mapping[str, str]:
    return configs


class Follower:
    """One broker's session, and configs that it caches."""

    def __init__(self, coordinator: Coordinator, path: Path) -> None:
        self.session = CoordinatorSession(
            coordinator.address, path, timeout_ms=TIMEOUT_MS, connect_timeout_ms=TIMEOUT_MS
        )
        self.nodes = ConfigNodes(self.session, lambda: 0)
        self.quotas = ClientQuotas()
        self.quota_configs = QuotaConfigs(self.nodes, self.quotas)
        self.users = ScramUsers(self.nodes)
        config = BrokerConfig.from_properties({})
        self.topics = TopicConfigs(self.nodes, lambda: config.topic_defaults)

    async def start(self) -> None:
        await self.session.open()
        await self.session.run(create_top_nodes())
        await self.nodes.catch_up()
        for each in (self.quota_configs, self.users, self.topics):
            await each.load()
        self.nodes.listen()

    async def stop(self) -> None:
        await self.nodes.stop()
        await self.session.close()

    def known(self) -> Known:
        return (
            self.users.credential(MECHANISM, "a") is not None,
            self.quotas.limit(RATE, "a", "c"),
            self.quotas.limit(RATE, "x", "c"),
            self.topics.log_config("t").retention_ms,
        )

    async def knows(self, expected: Known) -> None:
        """Wait until it knows these configs."""
        deadline_s = asyncio.get_running_loop().time() + DEADLINE_S
        while self.known() != expected:
            assert asyncio.get_running_loop().time() < deadline_s, f"still knows {self.known()}"
            await asyncio.sleep(POLL_INTERVAL_S)


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    started = Coordinator(tmp_path / "coordinator")
    yield started
    kill_all([started])


async def test_everything_is_read_again_after_a_lost_session(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    here, there = (Follower(coordinator, tmp_path / name) for name in ("first", "second"))
    await here.start()
    await there.start()
    try:
        for user, client, topic in ((True, "7", "5"), (False, "8", "6")):
            if not user:
                lost = there.session.client
                with RawClient(coordinator.port) as other:
                    assert other.shake_hands(lost.session_id, lost.session.password)
                    other.ask(1, OpCode.CLOSE_SESSION)
            for path, configs in (
                ("users/a", {MECHANISM: CREDENTIAL, RATE: "1"} if user else {}),
                ("users/x/clients/c", {RATE: client}),
                ("topics/t", {"retention.ms": topic}),
            ):
                await here.nodes.change(path, partial(replaced, configs))
            if user:
                await there.knows((True, 1, 7, 5))
        # Notifications expire, so a broker that was away for long finds none.
        for name in await here.session.client.get_children(paths.CONFIG_CHANGES):
            await here.session.client.delete(f"{paths.CONFIG_CHANGES}/{name}")
        assert there.known() == (True, 1, 7, 5)
        await there.session.renew()
        await there.knows((False, None, 8, 6))
    finally:
        await here.stop()
        await there.stop()


async def test_configs_whose_nodes_are_deleted_meanwhile_end_with_the_next_session(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    """As a broker of Kafka deletes them, once they are empty."""
    here, there = (Follower(coordinator, tmp_path / name) for name in ("first", "second"))
    await here.start()
    await there.start()
    try:
        retention_ms = there.known()[3]
        nodes = {"users/a": {MECHANISM: CREDENTIAL, RATE: "1"}, "users/x/clients/c": {RATE: "7"}}
        for path, configs in nodes.items():
            await here.nodes.change(path, partial(replaced, configs))
        await there.knows((True, 1, 7, retention_ms))
        lost = there.session.client
        with RawClient(coordinator.port) as other:
            assert other.shake_hands(lost.session_id, lost.session.password)
            other.ask(1, OpCode.CLOSE_SESSION)
        for path in nodes:
            await here.session.client.delete(paths.config(path))
        # The notifications of the deletions have expired, too.
        for name in await here.session.client.get_children(paths.CONFIG_CHANGES):
            await here.session.client.delete(f"{paths.CONFIG_CHANGES}/{name}")
        assert there.known() == (True, 1, 7, retention_ms)
        await there.session.renew()
        await there.knows((False, None, None, retention_ms))
    finally:
        await here.stop()
        await there.stop()


@pytest.mark.parametrize("is_refused_first", [False, True])
async def test_changes_without_permission_to_read_them_are_known_once_it_is_restored(
    coordinator: Coordinator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_refused_first: bool,
) -> None:
    """The change uses up the watch and notifies nobody; its notification may even expire."""
    monkeypatch.setattr(node_watch, "REREAD_S", 0.05)
    follower = Follower(coordinator, tmp_path / "session")
    await follower.start()

    async def change(retention_ms: int) -> None:
        configs = {"retention.ms": str(retention_ms)}
        await follower.session.run(change_config("topics/t", partial(replaced, configs)))

    def knows(retention_ms: int) -> bool:
        return follower.topics.log_config("t").retention_ms == retention_ms

    try:
        await change(4)
        await until(lambda: knows(4))
        with capture_logs() as lines:
            set_acl(coordinator, paths.CONFIG_CHANGES, NO_READER)
            if is_refused_first:
                await until(lambda: "watch.not_read" in [line["event"] for line in lines])
            await change(5)
            if is_refused_first:
                await follower.session.client.delete(f"{paths.CONFIG_CHANGE_PREFIX}0000000001")
            assert knows(4)
            set_acl(coordinator, paths.CONFIG_CHANGES, OPEN_ACL)
            await until(lambda: knows(5))
    finally:
        await follower.stop()


async def test_an_entity_that_cannot_be_adopted_stops_no_other_one(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    follower = Follower(coordinator, tmp_path / "session")
    await follower.start()
    applied: list[str] = []

    def apply(topic: str, _overrides: Mapping[str, str]) -> None:
        if topic == "bad":
            raise KeyError(topic)
        applied.append(topic)

    follower.topics.listen(apply)
    try:
        with capture_logs() as lines:
            for kind in (b"users", b"topics"):
                # Half of a surrogate pair is valid in JSON, but not in the path of a node.
                await follower.session.client.create(
                    paths.CONFIG_CHANGE_PREFIX,
                    b'{"version":2,"entity_path":"%s/\\ud800"}' % kind,
                    sequential=True,
                )
            for path, configs in (
                ("topics/bad", {"retention.ms": "4"}),
                ("topics/t", {"retention.ms": "5"}),
                ("users/x/clients/c", {RATE: "7"}),
            ):
                await follower.session.run(change_config(path, partial(replaced, configs)))
            await until(lambda: follower.known() == (False, None, 7, 5))
    finally:
        await follower.stop()
    failed = {line["entity"] for line in lines if line["event"] == "config.not_adopted"}
    assert (failed, applied) == ({"users/\ud800", "topics/\ud800", "topics/bad"}, ["t"])


async def test_a_change_that_is_read_for_a_new_log_reaches_the_other_logs_of_its_topic(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    """LeaderAndIsr reads the configs of topics, maybe before the notification is handled."""
    follower = Follower(coordinator, tmp_path / "session")
    applied: list[tuple[str, Mapping[str, str]]] = []
    await follower.session.open()
    try:
        await follower.session.run(create_top_nodes())
        await follower.nodes.catch_up()
        await follower.topics.load()
        follower.topics.listen(lambda topic, overrides: applied.append((topic, overrides)))
        for configs in ({"retention.ms": "4"}, {}):
            await follower.session.run(change_config("topics/t", partial(replaced, configs)))
            await follower.topics.refresh({"t"})
            await follower.nodes._handle_notifications()
    finally:
        await follower.stop()
    assert applied == [("t", {"retention.ms": "4"}), ("t", {})]


@pytest.mark.parametrize("name", ["1", "<default>"])
async def test_a_broker_does_not_start_with_a_malformed_config_of_its_own(
    coordinator: Coordinator, tmp_path: Path, name: str
) -> None:
    broker = Follower(coordinator, tmp_path / "session")
    await broker.start()
    try:
        node = paths.config(f"brokers/{name}")
        await broker.session.client.create(node, b'{"version":1,"config":{"log.retention.ms":')
        dynamic = DynamicConfig(BrokerConfig.from_properties({}))
        configs = BrokerConfigs(broker.nodes, dynamic, BrokerId(1))
        with pytest.raises(StartupError, match=f"^{node} holds no config"):
            await configs.load()
        await broker.session.client.delete(node)
        await configs.load()
    finally:
        await broker.stop()


async def test_a_config_of_the_broker_is_applied_although_earlier_attempts_failed(
    coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Follower(coordinator, tmp_path / "session")
    dynamic = DynamicConfig(BrokerConfig.from_properties({}))
    configs = BrokerConfigs(broker.nodes, dynamic, BrokerId(1))
    retentions: list[tuple[int | None, int | None]] = []
    read_count = 0
    run = broker.session.run

    def apply(old: BrokerConfig, new: BrokerConfig) -> None:
        retentions.append((old.topic_defaults.retention_ms, new.topic_defaults.retention_ms))
        if len(retentions) == 1:
            raise KeyError("a bug")

    async def run_until_expired(plan: Plan[dict[str, str]]) -> dict[str, str]:
        nonlocal read_count
        read_count += 1
        if read_count == 2:
            raise SessionExpiredError(ErrorCode.SESSION_EXPIRED)
        return await run(plan)

    configs.listen(apply, lambda _config: None)
    await broker.session.open()
    try:
        await broker.session.run(create_top_nodes())
        change = change_config("brokers/<default>", partial(replaced, {"log.retention.ms": "5"}))
        await broker.session.run(change)
        monkeypatch.setattr(broker.session, "run", run_until_expired)
        # The first read finds the change, and the second one fails.
        with pytest.raises(SessionExpiredError):
            await configs._on_changed(("<default>", "1"))
        with pytest.raises(KeyError, match="a bug"):
            await configs._on_changed(("<default>", "1"))
        for _ in range(2):
            await configs._on_changed(("<default>", "1"))
    finally:
        await broker.stop()
    before_ms = dynamic.static.topic_defaults.retention_ms
    assert retentions == [(before_ms, 5), (before_ms, 5)]
