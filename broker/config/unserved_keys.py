"""Keys of Kafka that must not be ignored silently (decision).

They promise encryption or authentication of a kind that is not served, a cluster without
ZooKeeper, or tiered storage. A broker that ignored them would be open where its operator
believes it to be closed. It refuses to start instead, and names the key, but never its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.config.coordinator_keys import COORDINATOR_KEYS
from broker.config.listener_security_keys import (
    JAAS_KEY,
    SECURITY_KEYS,
    is_listener_key,
    keys_in,
)
from broker.config.oauth_bearer import OAUTH_KEYS
from broker.errors import ConfigError

_SERVED: Final = frozenset(
    declared.key.name for declared in (*SECURITY_KEYS, *OAUTH_KEYS, *COORDINATOR_KEYS)
)
_JAAS: Final = "must have the prefix listener.name.LISTENER.MECHANISM., in small letters"
_SECURITY: Final = "is not served: it belongs to encryption or authentication; remove it"
_KRAFT: Final = "is for clusters without ZooKeeper (KRaft), which are not served; remove it"
_MIGRATION: Final = "is for the move to a cluster without ZooKeeper, which is not served; remove it"
_TIERED: Final = "is not served: there is no tiered storage; remove it"

_PREFIXES: Final = ("ssl.", "sasl.", "zookeeper.ssl.", "password.encoder.", "authorizer.zookeeper.")
_REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "principal.builder.class",
            "security.providers",
        ),
        _SECURITY,
    ),
    **dict.fromkeys(
        (
            "controller.listener.names",
            "controller.quorum.bootstrap.servers",
            "controller.quorum.voters",
            "process.roles",
        ),
        _KRAFT,
    ),
    "zookeeper.metadata.migration.enable": _MIGRATION,
    "remote.log.storage.system.enable": _TIERED,
}
_AS_IT_IS: Final[Mapping[str, str]] = {
    "remote.log.storage.system.enable": "false",
    "ssl.keymanager.algorithm": "SunX509",
    "ssl.trustmanager.algorithm": "PKIX",
    "zookeeper.metadata.migration.enable": "false",
    "zookeeper.ssl.crl.enable": "false",
    "zookeeper.ssl.ocsp.enable": "false",
}
"""Values that match this broker's behaviour anyway, like the empty value of every key."""


def check_served_keys(properties: Mapping[str, str]) -> None:
    """Refuse keys that this broker cannot honour and may not ignore.

    Raises:
        ConfigError: for the first such key in alphabetical order.
    """
    for name, text in sorted(properties.items()):
        reason = _reason(name)
        if reason is not None and text.strip().lower() not in ("", _AS_IT_IS.get(name, "").lower()):
            raise ConfigError(name, None, reason)


def _reason(name: str) -> str | None:
    if name in _SERVED or is_listener_key(name):
        return None
    if name == JAAS_KEY:
        return _JAAS
    if name.startswith(_PREFIXES):
        return _SECURITY
    # The key follows the listener, or the listener and a mechanism.
    return _REASONS.get(name) or next(filter(None, map(_reason, keys_in(name))), None)
