"""Nodes of a broker in the layout of Jafka and Kafka 0.7 (decision).

`/brokers/ids/<b>` holds `creator:host:port:autocreated`, and `/brokers/topics/<t>/<b>` the number
of partitions of t on that broker. Both are ephemeral. Partition i of broker b is named `<b>-<i>`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes import paths

MAX_COUNT: Final = 100_000
"""Number of partitions per broker and topic above which a count is no count."""
MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class JafkaBroker:
    """A broker, as Jafka's clients find it. `creator` is its host and the time of its start."""

    creator: str
    host: str
    port: int
    creates_topics: bool = True

    def encode(self) -> bytes:
        """Return the node's data, in four fields as Jafka 1.4 and newer."""
        creator, host = (text.replace(":", "#") for text in (self.creator, self.host))
        return f"{creator}:{host}:{self.port}:{str(self.creates_topics).lower()}".encode()


def decode_jafka_broker(data: bytes | None) -> JafkaBroker:
    """Decode the registration of a broker, of three fields (Kafka 0.7) or four.

    Raises:
        MalformedZnodeError: not such a registration.
    """
    try:
        fields = (data or b"").decode().split(":")
    except UnicodeDecodeError as error:
        raise MalformedZnodeError("the registration of a broker is not text") from error
    if len(fields) not in (3, 4) or not (fields[2].isascii() and fields[2].isdigit()):
        raise MalformedZnodeError("not creator:host:port:autocreated")
    creator, host, port = fields[0].replace("#", ":"), fields[1].replace("#", ":"), fields[2]
    if not host or len(port) > len(str(MAX_PORT)) or int(port) > MAX_PORT:
        raise MalformedZnodeError("not creator:host:port:autocreated")
    return JafkaBroker(creator, host, int(port), len(fields) == 3 or fields[3] == "true")


def topic_count(topic: str, broker_id: int) -> str:
    """Return the path of the number of partitions of a topic on a broker."""
    return f"{paths.topic(topic)}/{broker_id}"


def encode_count(count: int) -> bytes:
    """Return the data of a topic's node of one broker."""
    return b"%d" % count


def decode_count(data: bytes | None) -> int:
    """Return the number of partitions.

    Raises:
        MalformedZnodeError: not a number up to `MAX_COUNT`.
    """
    text = (data or b"").strip()
    if not text.isdigit() or len(text) > len(str(MAX_COUNT)) or int(text) > MAX_COUNT:
        raise MalformedZnodeError("not a number of partitions")
    return int(text)


def partition_name(broker_id: int, index: int) -> str:
    """Return the name of a partition among owners and offsets."""
    return f"{broker_id}-{index}"


def names_of(replicas: Mapping[int, Sequence[int]]) -> dict[str, int]:
    """Return Kafka's partition number by Jafka's name, from the replicas of each partition.

    Broker b is the preferred leader, and i the rank among the partitions with that leader. A
    failover changes no name, and neither do added partitions; a reassignment does.
    """
    named: dict[str, int] = {}
    counts: dict[int, int] = {}
    for partition in sorted(replicas):
        if not replicas[partition]:
            continue
        first = replicas[partition][0]
        named[partition_name(first, counts.get(first, 0))] = partition
        counts[first] = counts.get(first, 0) + 1
    return named


def counts_of(names: Iterable[str]) -> dict[int, int]:
    """Return the number of partitions by broker."""
    counts: dict[int, int] = {}
    for name in names:
        broker_id = int(name.partition("-")[0])
        counts[broker_id] = counts.get(broker_id, 0) + 1
    return counts
