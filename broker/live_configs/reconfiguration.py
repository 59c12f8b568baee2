"""Applies changed configs of a running broker, or of a topic, to its parts (composition)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from broker.cluster.controller_role import ControllerRole
from broker.config.broker_config import BrokerConfig
from broker.config.dynamic_config import DynamicConfig
from broker.config.dynamic_keys import FOLLOWER_RATE, LEADER_RATE, LOG_DIRS_RATE
from broker.config.listener import Listener
from broker.live_configs.topic_overrides import TopicConfigs
from broker.logs.mover import LogMover
from broker.network.limits import network_limits_of
from broker.network.socket_server import SocketServer
from broker.replication.replica_manager import ReplicaManager
from storage.config.config_key import LONG_MAX

UNCLEAN_KEY: Final = "unclean.leader.election.enable"


class Reconfiguration:
    """Notifies the parts of a broker of the changes that concern them."""

    def __init__(
        self,
        config: DynamicConfig,
        topics: TopicConfigs,
        *,
        controller: ControllerRole,
        mover: LogMover,
        replicas: ReplicaManager,
        server: SocketServer,
        advertise: Callable[[Sequence[Listener]], object],
    ) -> None:
        """Apply `config` as it is now: the parts were made from the file's values.

        `advertise` gets the advertised listeners after each change of them.
        """
        self._config = config
        self._topics = topics
        self._controller = controller
        self._mover = mover
        self._replicas = replicas
        self._server = server
        self._advertise = advertise
        self._others: list[Callable[[BrokerConfig], object]] = []
        self._reload: Callable[[BrokerConfig], object] = lambda _config: None
        self._repair: Callable[[], object] = lambda: None
        self._moves_rate = LONG_MAX
        controller.reconfigure(config.current)
        self._set_rates()

    def add(self, reconfigure: Callable[[BrokerConfig], object]) -> None:
        """Also call `reconfigure` after every change of the broker's configuration."""
        self._others.append(reconfigure)

    def reload_by(self, reload: Callable[[BrokerConfig], object]) -> None:
        """Call `reload` whenever files of the broker's configuration may have changed."""
        self._reload = reload

    def repair_by(self, repair: Callable[[], object]) -> None:
        """Call `repair` whenever configs are set, even to the same values.

        It completes earlier changes that have failed.
        """
        self._repair = repair

    def on_own_config(self, config: BrokerConfig) -> None:
        """Read the files that `config` names again, and complete failed changes."""
        self._reload(config)
        self._repair()

    def on_broker_config(self, old: BrokerConfig, new: BrokerConfig) -> None:
        """Apply `new` to the broker's parts."""
        if old.topic_defaults != new.topic_defaults:
            self._on_topic_defaults(old, new)
        self._server.set_limits(network_limits_of(new.network))
        if old.network.advertised != new.network.advertised:
            self._advertise(new.network.advertised)
        self._set_rates()
        for reconfigure in self._others:
            reconfigure(new)

    def on_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Apply the configs of a topic to its logs."""
        config = self._topics.log_config(topic)
        self._replicas.update_topic_configs({topic: config})
        if UNCLEAN_KEY in overrides and config.unclean_leader_election_enable:
            self._controller.on_unclean_election_enabled(topic)

    def _set_rates(self) -> None:
        config = self._config
        self._replicas.followers.throttle.set_rate(config.rate(LEADER_RATE))
        self._replicas.follower_throttle.set_rate(config.rate(FOLLOWER_RATE))
        before, self._moves_rate = self._moves_rate, config.rate(LOG_DIRS_RATE)
        if self._moves_rate != before:
            self._mover.limit_rate(self._moves_rate)

    def _on_topic_defaults(self, old: BrokerConfig, new: BrokerConfig) -> None:
        topics = {replica.topic_partition.topic for replica in self._replicas}
        self._replicas.update_topic_configs(
            {topic: self._topics.log_config(topic) for topic in topics}
        )
        self._controller.reconfigure(new)
        was_unclean = old.topic_defaults.unclean_leader_election_enable
        if new.topic_defaults.unclean_leader_election_enable and not was_unclean:
            self._controller.on_unclean_election_enabled(None)
