"""Ottla: a Kafka-compatible log in Python, and its asyncio client (composition).

Users import the classes of the client from here. Its errors are in `ottla.client.errors`, arguments
and results of `Admin` in `ottla.client.admin_model`, serializers in `ottla.client.serialization`,
and the classes without `await` in `ottla.sync`. A name is loaded on first use, so `import ottla`
costs next to nothing and never loads the servers. The two names of ZooKeeper load its client, too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkawire.ids import TopicPartition as TopicPartition
    from ottla.client.admin.admin import Admin as Admin
    from ottla.client.admin_model import NewTopic as NewTopic
    from ottla.client.consumer.consumer import Consumer as Consumer
    from ottla.client.errors import OttlaError as OttlaError
    from ottla.client.offset import GroupMetadata as GroupMetadata
    from ottla.client.producer.producer import Producer as Producer
    from ottla.client.record import ConsumerRecord as ConsumerRecord
    from ottla.client.record import RecordMetadata as RecordMetadata
    from ottla.zookeeper.consumer import ZooKeeperConsumer as ZooKeeperConsumer
    from ottla.zookeeper.producer import ZooKeeperProducer as ZooKeeperProducer

__all__ = [
    "Admin",
    "Consumer",
    "ConsumerRecord",
    "GroupMetadata",
    "NewTopic",
    "OttlaError",
    "Producer",
    "RecordMetadata",
    "TopicPartition",
    "ZooKeeperConsumer",
    "ZooKeeperProducer",
]

_HOMES: Final = {
    "Admin": "ottla.client.admin.admin",
    "Consumer": "ottla.client.consumer.consumer",
    "ConsumerRecord": "ottla.client.record",
    "GroupMetadata": "ottla.client.offset",
    "NewTopic": "ottla.client.admin_model",
    "OttlaError": "ottla.client.errors",
    "Producer": "ottla.client.producer.producer",
    "RecordMetadata": "ottla.client.record",
    "TopicPartition": "kafkawire.ids",
    "ZooKeeperConsumer": "ottla.zookeeper.consumer",
    "ZooKeeperProducer": "ottla.zookeeper.producer",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
