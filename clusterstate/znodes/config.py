"""`/config/<type>/<name>` and the notifications of its changes (decision).

A config znode holds only the overrides.
"""

from collections.abc import Mapping
from typing import Final

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.json_object import JsonObject, encode_json

_CHANGE_VERSION: Final = 2


def encode_config(config: Mapping[str, str]) -> bytes:
    """Return the data of a config znode."""
    return encode_json({"version": 1, "config": dict(config)})


def decode_config(data: bytes | None) -> dict[str, str]:
    """Return the overrides; a znode without data has none.

    Raises:
        MalformedZnodeError: not a config.
    """
    return JsonObject.decode(data).text_map("config") if data else {}


def encode_config_change(entity_path: str) -> bytes:
    """Return the data of a change notification, for an entity such as `topics/orders`."""
    return encode_json({"version": _CHANGE_VERSION, "entity_path": entity_path})


def decode_config_change(data: bytes | None) -> str:
    """Return the path of the changed entity, from version 1 or 2.

    Raises:
        MalformedZnodeError: not a change notification.
    """
    fields = JsonObject.decode(data)
    match fields.integer("version"):
        case 1:
            return f"{fields.text('entity_type')}/{fields.text('entity_name')}"
        case 2:
            return fields.text("entity_path")
        case version:
            raise MalformedZnodeError(f"config change has version {version}, not 1 or 2")
