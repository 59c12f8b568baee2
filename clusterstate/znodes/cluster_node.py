"""Znodes of the cluster as a whole: its id, generated ids and features (decision)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.json_object import JsonObject, encode_json
from kafkawire.ids import BrokerId, ProducerId

PRODUCER_ID_BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = 2**63 - 1
FEATURES_ENABLED: Final = 1


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return the data of `/cluster/id`; its version is a string, as in Kafka."""
    return encode_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    """Return the cluster's id.

    Raises:
        MalformedZnodeError: not a cluster id.
    """
    return JsonObject.decode(data).text("id")


def generated_broker_id(sequence_version: int, reserved_max_id: int) -> BrokerId:
    """Return a generated broker id; `sequence_version` is the new version of `/brokers/seqid`.

    Ids up to `reserved.broker.max.id` are never generated; they can only be configured.
    """
    return BrokerId(reserved_max_id + sequence_version)


class ProducerIdBlock(NamedTuple):
    """Producer ids allocated to one broker; `first` and `last` are inclusive."""

    broker_id: BrokerId
    first: ProducerId
    last: ProducerId

    def encode(self) -> bytes:
        """Return the data of `/latest_producer_id_block`; the ids are strings, as in Kafka."""
        return encode_json(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )


def decode_producer_id_block(data: bytes | None) -> ProducerIdBlock:
    """Decode the latest block.

    Raises:
        MalformedZnodeError: not a block.
    """
    fields = JsonObject.decode(data)
    return ProducerIdBlock(
        BrokerId(fields.integer("broker")),
        ProducerId(fields.integer("block_start")),
        ProducerId(fields.integer("block_end")),
    )


def next_producer_id_block(broker_id: BrokerId, latest: ProducerIdBlock | None) -> ProducerIdBlock:
    """Return the block after `latest`, for `broker_id`.

    Raises:
        MalformedZnodeError: the ids up to `MAX_PRODUCER_ID` are used up.
    """
    first = 0 if latest is None else latest.last + 1
    last = first + PRODUCER_ID_BLOCK_SIZE - 1
    if last > MAX_PRODUCER_ID:
        raise MalformedZnodeError(f"no producer ids are left after {first - 1}")
    return ProducerIdBlock(broker_id, ProducerId(first), ProducerId(last))


def encode_features(levels: Mapping[str, int]) -> bytes:
    """Return the data of `/feature`, version 2: the finalized level of each feature."""
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    return encode_json({"features": features, "version": 2, "status": FEATURES_ENABLED})


class Features(NamedTuple):
    """Contents of `/feature`: the finalized level of each feature, and the epoch."""

    levels: Mapping[str, int]
    epoch: int


def decode_features(data: bytes | None, node_version: int) -> Features:
    """Decode `/feature`, version 1 or 2; the version of the znode is the epoch.

    Raises:
        MalformedZnodeError: not a list of features.
    """
    fields = JsonObject.decode(data)
    if fields.integer("status") != FEATURES_ENABLED:
        return Features({}, node_version)
    return Features(fields.level_map("features"), node_version)
