"""Reads and changes of the config znodes, and notifications of changes (decision).

Source: kafka.zk.AdminZkClient.changeEntityConfig.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from clusterstate.change_notifications import Changes, take_changes
from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import (
    MAX_ATTEMPTS,
    Create,
    Plan,
    Refusal,
    SetData,
    list_children,
    read,
    write,
)
from clusterstate.znodes import paths
from clusterstate.znodes.config import (
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
)
from kafkawire.errors import ApiError, ErrorCode

USERS: Final = "users"
CLIENTS: Final = "clients"

Configs = Mapping[str, str]


def read_config(entity_path: str) -> Plan[dict[str, str]]:
    """Return the overrides of an entity such as `topics/orders`.

    Raises:
        MalformedZnodeError: the znode does not hold a config.
    """
    [node] = yield from read((paths.config(entity_path),))
    return decode_config(node.data) if node else {}


class TopicOverrides(NamedTuple):
    """Overrides of topics with any, and the reason for each topic whose znode holds no config."""

    found: dict[str, Configs]
    malformed: dict[str, str]


def read_topic_configs(topics: Iterable[str]) -> Plan[TopicOverrides]:
    """Return the overrides of topics."""
    names = sorted(topics)
    nodes = yield from read([paths.config(f"topics/{name}") for name in names])
    overrides = TopicOverrides({}, {})
    for name, node in zip(names, nodes, strict=True):
        try:
            configs = decode_config(node.data) if node else {}
        except MalformedZnodeError as error:
            overrides.malformed[name] = str(error)
            continue
        if configs:
            overrides.found[name] = configs
    return overrides


def read_all_topic_configs() -> Plan[TopicOverrides]:
    """Return the overrides of every topic that has any."""
    names = yield from list_children(paths.config("topics"))
    return (yield from read_topic_configs(names))


def read_entity_paths(kinds: Iterable[str]) -> Plan[list[str]]:
    """Return the path of every entity of `kinds`, including the clients of each user."""
    found: list[str] = []
    for kind in kinds:
        for name in sorted((yield from list_children(paths.config(kind)))):
            found.append(f"{kind}/{name}")
            if kind == USERS:
                below = f"{kind}/{name}/{CLIENTS}"
                clients = yield from list_children(paths.config(below))
                found += [f"{below}/{client}" for client in sorted(clients)]
    return found


def change_config(entity_path: str, change: Callable[[Configs], Configs]) -> Plan[Configs]:
    """Apply `change` to the overrides of an entity, announce it, and return the new overrides.

    The change and its notification are one transaction: no broker misses a change whose author
    stops in between.

    Raises:
        ApiError: raised by `change`; INVALID_CONFIG if the overrides exceed the size of a znode;
            UNKNOWN_SERVER_ERROR, as in Kafka, if the coordinator refuses the znode itself, such as
            one with too long a name; REQUEST_TIMED_OUT after `MAX_ATTEMPTS` conflicts. The
            overrides are unchanged.
    """
    path = paths.config(entity_path)
    announcement = encode_config_change(entity_path)
    notify = Create(paths.CONFIG_CHANGE_PREFIX, announcement, sequential=True)
    changed: Configs | None = None
    for _ in range(MAX_ATTEMPTS):
        [node] = yield from read((path,))
        if changed is not None and node is not None and node.data == encode_config(changed):
            # The response to the first copy of the write was lost.
            return changed
        changed = change(decode_config(node.data) if node else {})
        data = encode_config(changed)
        op = Create(path, data) if node is None else SetData(path, data, node.version)
        [outcome] = yield from write([(op, notify)])
        if outcome.refusal is None:
            return changed
        if outcome.refusal is Refusal.NO_NODE and entity_path.count("/") > 1:
            # A user without a quota may have one for a client.
            above = paths.parents(path)[len(paths.parents(paths.config(USERS))) + 1 :]
            yield from write([(Create(each, None),) for each in above])
        if outcome.refusal is Refusal.TOO_LARGE:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"the overrides of {entity_path} take {len(data)} bytes, more than a znode of the "
                "coordinator can hold",
            )
        if outcome.refusal is Refusal.OTHER:
            text = f"the coordinator refuses a znode for the overrides of {entity_path}"
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    text = f"{entity_path} was changed concurrently in {MAX_ATTEMPTS} attempts"
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, text)


def take_config_changes(last_number: int, now_ms: int) -> Plan[Changes[str]]:
    """Return the entities announced after notification `last_number`; see `take_changes`."""
    prefix = paths.CONFIG_CHANGE_PREFIX
    return (yield from take_changes(prefix, decode_config_change, last_number, now_ms))
