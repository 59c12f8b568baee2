"""What an operator decides about the controller (decision): Kafka's keys, with underscores."""

from dataclasses import dataclass

from kafkawire.ids import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The settings of the controller component of one broker."""

    broker_id: BrokerId
    inter_broker_listener_name: str = "PLAINTEXT"
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    uses_alter_partition: bool = True
    """Leaders ask the controller to change in-sync sets: an inter-broker protocol of 2.7 or more.
    Else they write the node themselves and leave a notice."""
    has_features: bool = True
    """The cluster keeps finalized features in `/feature`: a protocol of 2.7 or more, too."""
