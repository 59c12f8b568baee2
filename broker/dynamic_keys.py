"""Which keys of a broker may change while it runs, and how (decision).

The list is Kafka's, without listeners and their security: those are fixed for a process here, and a
change is refused as that of any other fixed key. Keys that size a thread pool are taken and checked
as Kafka does; those of replica fetchers and of recovery count from the next start, the others have
no effect: there are no such pools. A key that no broker knows is kept for other programs, and its
value is not shown: it may be a secret. Source: DynamicBrokerConfig, DynamicConfig, QuotaConfigs of
Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from broker.config import SERVER_KEYS
from kafkawire.errors import ApiError, ErrorCode
from storage.config_key import LONG_MAX, ConfigKey, ConfigType, at_least
from storage.topic_config import TOPIC_CONFIG_KEYS

THREAD_COUNTS: Final = (
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
"""May be halved or doubled at most by one change."""
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
"""They tune logins and protect nothing: kept, as Kafka keeps them without a login."""


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
            LEADER_RATE, "What this broker sends at most for leader.replication.throttled.replicas"
        ),
        _rate(FOLLOWER_RATE, "What it copies at most for follower.replication.throttled.replicas"),
        _rate(LOG_DIRS_RATE, "What moves between log directories take at most"),
    )
}
"""Keys that exist only while brokers run."""

LOG_DEFAULTS: Final = frozenset(
    key.synonyms[0].name
    for key in TOPIC_CONFIG_KEYS.values()
    if key.synonyms and key.name not in _FIXED_TOPIC_CONFIGS
)
"""What topics inherit: of several names for one default the first alone, as in Kafka."""

DYNAMIC_KEYS: Final = (
    LOG_DEFAULTS
    | {
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
    """Return all names of what `name` sets, in the order in which they win."""
    return next((names for names in _SYNONYMS if name in names), (name,))


def key_of(name: str) -> ConfigKey | None:
    """Return what is known of a key of brokers, static or not; None for a stranger."""
    return RATE_KEYS.get(name) or SERVER_KEYS.get(name)


def is_secret(name: str) -> bool:
    """Whether a value may be a secret: that of a password, or of a key that nobody knows."""
    key = key_of(name)
    return key is None or key.type is ConfigType.PASSWORD


def is_fixed(name: str) -> bool:
    """Whether a key can only be set in `server.properties`."""
    if name in _OF_LOGINS:
        return False
    is_known = name in SERVER_KEYS and name not in DYNAMIC_KEYS
    return is_known or name.startswith(_UNSERVED_PREFIXES)


def check_dynamic(configs: Mapping[str, str]) -> None:
    """Refuse what cannot be set while a broker runs, and values of the wrong type or range.

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
    """Refuse to change the size of a pool by more than half, or twice.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    for name, count in new.items():
        before = old[name]
        if count != before and not max(1, before // 2) <= count <= before * 2:
            text = f"{name}={count}: must be within {max(1, before // 2)}..{before * 2}"
            raise _invalid(f"{text}, half and twice of what it is")


def usable(configs: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return those of `configs` that may count, and why the others do not."""
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
    """Return `properties` under `overrides`, of which each wins over all names of its value."""
    hidden = {name for override in overrides for name in synonyms_of(override)}
    kept = {name: text for name, text in properties.items() if name not in hidden}
    return kept | dict(overrides)


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)
