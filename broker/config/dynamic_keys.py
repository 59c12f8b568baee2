"""The keys that may change while a broker runs, and their rules (decision).

The list is Kafka's, without listeners and their security: this broker fixes these at start and
refuses to change them, like every other fixed key. Only their advertised addresses, and files of
keys and certificates, may change, for one broker. Keys that size a thread pool are accepted and
checked like Kafka does. The sizes for replica fetchers and recovery take effect at the next start,
the others never: the file alone sizes the background pool, and there are no other pools. A key that
is unknown to the broker is kept for other programs; its value is not shown, because it may be a
secret.
Source: DynamicBrokerConfig, DynamicConfig, QuotaConfigs of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from broker.config.broker_config import ALIASES, SERVER_KEYS
from broker.config.listener_security_keys import is_reloadable
from kafkawire.errors import ApiError, ErrorCode
from storage.config.config_key import LONG_MAX, ConfigKey, ConfigType, at_least
from storage.config.topic_config import TOPIC_CONFIG_KEYS

THREAD_COUNTS: Final = (
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
"""Pool sizes; one change may at most halve or double them."""
CLEANER_THREADS: Final = "log.cleaner.threads"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_FIXED_TOPIC_CONFIGS: Final = frozenset({"message.format.version"})
_UNSERVED_PREFIXES: Final = ("listener.name.", "ssl.", "sasl.")
_OF_LOGINS: Final = frozenset(
    {
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
    }
)
"""Keys that tune logins and protect nothing: kept, as Kafka keeps them without a login."""


def _rate(name: str, documentation: str) -> ConfigKey:
    text = f"{documentation}, in bytes per second; set while the broker runs, never in a file."
    default = str(LONG_MAX)
    return ConfigKey(
        name=name,
        type=ConfigType.LONG,
        default=default,
        documentation=text,
        rule=at_least(0),
    )


RATE_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        _rate(
            LEADER_RATE,
            "Highest rate at which this broker sends leader.replication.throttled.replicas",
        ),
        _rate(
            FOLLOWER_RATE,
            "Highest rate at which this broker copies follower.replication.throttled.replicas",
        ),
        _rate(LOG_DIRS_RATE, "Highest rate of moves between log directories"),
    )
}
"""Keys that exist only as dynamic configs."""

LOG_DEFAULTS: Final = frozenset(
    key.synonyms[0].name
    for key in TOPIC_CONFIG_KEYS.values()
    if key.synonyms and key.name not in _FIXED_TOPIC_CONFIGS
)
"""Keys inherited by topics: only the first of several names for one default, like in Kafka."""

ADVERTISED_LISTENERS: Final = "advertised.listeners"
DYNAMIC_KEYS: Final = (
    LOG_DEFAULTS
    | {
        ADVERTISED_LISTENERS,
        CLEANER_THREADS,
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.backoff.ms",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.connection.creation.rate",
        "num.network.threads",
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",
    }
    | frozenset(THREAD_COUNTS)
)

_SYNONYMS: Final = tuple(
    tuple(synonym.name for synonym in key.synonyms)
    for key in TOPIC_CONFIG_KEYS.values()
    if len(key.synonyms) > 1
)


def synonyms_of(name: str) -> Sequence[str]:
    """Return `name` and its synonyms, in order of precedence."""
    return next((names for names in _SYNONYMS if name in names), (name,))


def key_of(name: str) -> ConfigKey | None:
    """Return the declaration of a broker's key, static or dynamic; None if it is unknown."""
    return RATE_KEYS.get(name) or SERVER_KEYS.get(ALIASES.get(name, name))


def is_secret(name: str) -> bool:
    """Whether the value of a key may be a secret: passwords and unknown keys."""
    key = key_of(name)
    return key is None or key.type is ConfigType.PASSWORD


def is_of_one_broker(name: str) -> bool:
    """Whether brokers cannot share the value of a dynamic key."""
    return name == ADVERTISED_LISTENERS or is_reloadable(name)


def is_fixed(name: str) -> bool:
    """Whether a key can only be set in `server.properties`."""
    if name in _OF_LOGINS or is_reloadable(name):
        return False
    name = ALIASES.get(name, name)
    is_known = name in SERVER_KEYS and name not in DYNAMIC_KEYS
    return is_known or name.startswith(_UNSERVED_PREFIXES)


def check_dynamic(configs: Mapping[str, str]) -> None:
    """Refuse keys that are fixed while a broker runs, and values of the wrong type or range.

    Raises:
        ApiError: INVALID_REQUEST, for either.
    """
    if fixed := sorted(filter(is_fixed, configs)):
        raise _invalid(f"cannot be changed while a broker runs: {', '.join(fixed)}")
    for name, text in configs.items():
        key = key_of(name)
        if key is None:
            continue
        try:
            key.parse(text)
        except ValueError as error:
            raise _invalid(str(error)) from None


def check_thread_counts(old: Mapping[str, int], new: Mapping[str, int]) -> None:
    """Refuse to shrink a pool to less than half, or to grow it to more than twice its size.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    for name, count in new.items():
        before = old[name]
        if count != before and not max(1, before // 2) <= count <= before * 2:
            text = f"{name}={count}: must be within {max(1, before // 2)}..{before * 2}"
            raise _invalid(f"{text}, between half and twice the current value")


def usable(configs: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the usable entries of `configs`, and the reasons against the others."""
    kept: dict[str, str] = {}
    reasons: list[str] = []
    for name, text in configs.items():
        try:
            check_dynamic({name: text})
        except ApiError as error:
            reasons.append(error.message or name)
        else:
            kept[name] = text
    return kept, reasons


def overridden(properties: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return `properties` with `overrides` applied; an override hides all synonyms of its key."""
    hidden = {name for override in overrides for name in synonyms_of(override)}
    kept = {name: text for name, text in properties.items() if name not in hidden}
    return kept | dict(overrides)


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)
