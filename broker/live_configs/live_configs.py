"""The configs that may change while a broker runs, kept up to date (composition)."""

from __future__ import annotations

from collections.abc import Callable

from broker.cluster.coordinator_session import CoordinatorSession
from broker.config.broker_config import BrokerConfig
from broker.config.dynamic_config import DynamicConfig
from broker.live_configs.broker_overrides import BrokerConfigs
from broker.live_configs.config_nodes import ConfigNodes
from broker.live_configs.quota_configs import QuotaConfigs
from broker.live_configs.reconfiguration import Reconfiguration
from broker.live_configs.scram_users import ScramUsers
from broker.live_configs.topic_overrides import TopicConfigs
from broker.quotas.client_quotas import ClientQuotas
from kafkawire.ids import BrokerId


class LiveConfigs:
    """Configs of this broker, of topics, and quotas. `load` once, then `follow`, then `stop`."""

    def __init__(
        self,
        static: BrokerConfig,
        session: CoordinatorSession,
        broker_id: BrokerId,
        now_ms: Callable[[], int],
    ) -> None:
        self.broker = DynamicConfig(static)
        self.quotas = ClientQuotas()
        self.nodes = ConfigNodes(session, now_ms)
        self.topics = TopicConfigs(self.nodes, lambda: self.broker.current.topic_defaults)
        self.quota_configs = QuotaConfigs(self.nodes, self.quotas)
        self.scram_users = ScramUsers(self.nodes)
        self._broker_configs = BrokerConfigs(self.nodes, self.broker, broker_id)

    @property
    def current(self) -> BrokerConfig:
        """The broker's configuration in force."""
        return self.broker.current

    @property
    def verifies_transactions(self) -> bool:
        """Whether a partition must be part of the transaction that writes to it."""
        return self.current.groups.transaction_partition_verification_enable

    async def load(self) -> None:
        """Read the dynamic configs. Call this before the first log opens."""
        await self.nodes.catch_up()
        await self._broker_configs.load()
        await self.topics.load()
        await self.quota_configs.load()
        await self.scram_users.load()

    def follow(self, changes: Reconfiguration) -> None:
        """Notify `changes` of every later change."""
        self.topics.listen(changes.on_topic_config)
        self._broker_configs.listen(changes.on_broker_config, changes.on_own_config)
        self.nodes.listen()

    async def stop(self) -> None:
        """Stop watching for changes."""
        await self.nodes.stop()
