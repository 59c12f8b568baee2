"""Configuration of the controller (decision): Kafka's keys, with underscores."""

from dataclasses import dataclass

from kafkawire.ids import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """Configuration of the controller component of one broker."""

    broker_id: BrokerId
    inter_broker_listener_name: str = "PLAINTEXT"
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    uses_alter_partition: bool = True
    """Whether leaders propose in-sync sets to the controller: inter-broker protocol 2.7 or newer.

    Otherwise leaders write the state znode themselves and leave a notification."""
    has_features: bool = True
    """Whether `/feature` holds finalized features: inter-broker protocol 2.7 or newer."""
