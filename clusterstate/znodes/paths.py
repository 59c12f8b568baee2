"""Paths of Kafka's znodes (decision)."""

from typing import Final
from urllib.parse import quote

from kafkawire.ids import TopicPartition

CONSUMERS: Final = "/consumers"
BROKER_IDS: Final = "/brokers/ids"
DOUBTFUL_BROKERS: Final = "/brokers/doubtful"
LOGIN_SECRET: Final = "/cluster/login_secret"
"""These two are Ottla's own; the other paths are Kafka's."""
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
CONFIG_CHANGES: Final = "/config/changes"
DEFAULT_ENTITY: Final = "<default>"
"""Name of the entity whose configs are the default for its type."""
CONFIG_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")

ISR_CHANGE_PREFIX: Final = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"

PERSISTENT: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"/config/{kind}" for kind in CONFIG_TYPES),
)
"""Znodes that a starting broker creates, with parents, if they are missing."""


def sanitized(name: str) -> str:
    """Return the name of a user or client as Kafka encodes it for znodes.

    `unquote` decodes it. Source: org.apache.kafka.common.utils.Sanitizer of Kafka 3.9.
    """
    # Python never encodes the tilde, and Java's URLEncoder always does.
    return quote(name, safe="").replace("~", "%7E")


def broker(broker_id: int) -> str:
    """Return the path of a broker's ephemeral registration; its czxid is the broker epoch."""
    return f"{BROKER_IDS}/{broker_id}"


def doubtful_broker(broker_id: int) -> str:
    """Return the path of a starting broker's ephemeral note that its logs may lack records."""
    return f"{DOUBTFUL_BROKERS}/{broker_id}"


def topic(name: str) -> str:
    """Return the path of a topic's assignment."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """Return the parent of a topic's partition znodes."""
    return f"{TOPICS}/{name}/partitions"


def partition(topic_partition: TopicPartition) -> str:
    """Return the parent of a partition's state."""
    return f"{partitions(topic_partition.topic)}/{topic_partition.partition}"


def partition_state(topic_partition: TopicPartition) -> str:
    """Return the path of leader and in-sync set; the znode's version is the partition epoch."""
    return f"{partition(topic_partition)}/state"


def topic_deletion(name: str) -> str:
    """Return the path of the request to delete a topic."""
    return f"{DELETE_TOPICS}/{name}"


def config(entity_path: str) -> str:
    """Return the path of the overrides of an entity such as `topics/orders`."""
    return f"/config/{entity_path}"


def parents(path: str) -> list[str]:
    """Return every path above `path`, the topmost first."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
