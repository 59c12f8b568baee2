"""The client's settings, their defaults and limits (decision).

Names follow Kafka's client settings with underscores; the unit is the last word of the name.
Invariant: every instance is valid.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafkawire.compression import Codec
from kafkawire.units import KIB, MIB
from ottla.client.argument import (
    MAX_INT32,
    require_duration,
    require_flag,
    require_text,
    require_whole,
)
from ottla.client.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl

    from kafkawire.sasl_clients import SaslClient

DEFAULT_PORT: Final = 9092

ResetPolicy = Literal["earliest", "latest", "none"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]
Acks = Literal[0, 1, -1, "all"]

ACKS_ALL: Final = -1
MAX_IDEMPOTENT_IN_FLIGHT: Final = 5
"""Kafka's limit: brokers remember this many batches per producer and partition."""


_LEVELS: Final = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131_072, 22)}


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Sasl:
    """A mechanism, and the start of an exchange with it."""

    mechanism: str
    begin: Callable[[], Awaitable[SaslClient]]


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and authentication of all connections; a `repr` shows no secret."""

    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None


NO_SECURITY: Final = Security()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Settings that producer, consumer and admin client share."""

    bootstrap: tuple[Address, ...]
    client_id: str = "ottla"
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    metadata_max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    max_response_bytes: int = 256 * MIB
    security: Security = NO_SECURITY

    def __post_init__(self) -> None:
        if not self.bootstrap:
            raise ConfigurationError("bootstrap_servers is empty: give at least one host:port")
        if self.client_id is not None:
            require_text("client_id", self.client_id)
        for name in (
            "request_timeout_ms",
            "connect_timeout_ms",
            "metadata_max_age_ms",
            "max_response_bytes",
        ):
            require_whole(name, getattr(self, name), 1)
        for name in ("retry_backoff_max_ms", "reconnect_backoff_max_ms"):
            require_whole(name, getattr(self, name), 0)
        require_whole("retry_backoff_ms", self.retry_backoff_ms, 0, self.retry_backoff_max_ms)
        require_whole(
            "reconnect_backoff_ms", self.reconnect_backoff_ms, 0, self.reconnect_backoff_max_ms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Settings for gathering, sending and retrying records."""

    acks: int = ACKS_ALL
    linger_ms: float = 0
    batch_size_bytes: int = 16 * KIB
    codec: Codec = Codec.NONE
    compression_level: int | None = None
    buffer_memory_bytes: int = 32 * MIB
    max_request_bytes: int = MIB
    max_in_flight: int = 5
    max_block_ms: int = 60_000
    retries: int = MAX_INT32
    delivery_timeout_ms: int = 120_000
    adaptive_partitioning: bool = True
    enable_idempotence: bool = False
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        if isinstance(self.acks, bool) or self.acks not in (0, 1, ACKS_ALL):
            raise ConfigurationError(f"acks must be 0, 1 or 'all', got {self.acks}")
        if self.compression_level is not None:
            low, high = _levels(self.codec)
            require_whole("compression_level", self.compression_level, low, high)
        require_duration("linger_ms", self.linger_ms)
        require_whole("batch_size_bytes", self.batch_size_bytes, 1)
        require_whole("max_request_bytes", self.max_request_bytes, 1)
        require_whole("buffer_memory_bytes", self.buffer_memory_bytes, self.batch_size_bytes)
        require_whole("max_in_flight", self.max_in_flight, 1)
        require_whole("max_block_ms", self.max_block_ms, 0)
        require_whole("retries", self.retries, 0)
        require_whole("delivery_timeout_ms", self.delivery_timeout_ms, 1)
        require_whole("transaction_timeout_ms", self.transaction_timeout_ms, 1)
        require_flag("adaptive_partitioning", self.adaptive_partitioning)
        require_flag("enable_idempotence", self.enable_idempotence)
        if self.transactional_id is not None:
            require_text("transactional_id", self.transactional_id)
            if not self.transactional_id:
                raise ConfigurationError("transactional_id is empty: name it, or leave it out")
            if not self.enable_idempotence:
                needed = self.obstacle_to_idempotence or "enable_idempotence, got False"
                raise ConfigurationError(
                    f"transactional_id needs {needed}: leave one of the two settings out"
                )
        if self.enable_idempotence and (obstacle := self.obstacle_to_idempotence):
            raise ConfigurationError(
                f"enable_idempotence needs {obstacle}: leave one of the two settings out"
            )

    @property
    def obstacle_to_idempotence(self) -> str | None:
        """The requirement of idempotence that these settings violate, None if there is none."""
        if self.acks != ACKS_ALL:
            return f"acks='all', got {self.acks}"
        if self.retries == 0:
            return "retries, got 0"
        if self.max_in_flight > MAX_IDEMPOTENT_IN_FLIGHT:
            return f"max_in_flight <= {MAX_IDEMPOTENT_IN_FLIGHT}, got {self.max_in_flight}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Settings for fetching and prefetching records."""

    auto_offset_reset: ResetPolicy = "latest"
    isolation_level: IsolationLevel = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 50 * MIB
    max_partition_fetch_bytes: int = MIB
    prefetch_max_bytes: int = 64 * MIB
    check_crcs: bool = True
    client_rack: str = ""

    def __post_init__(self) -> None:
        if self.auto_offset_reset not in ("earliest", "latest", "none"):
            raise ConfigurationError(
                "auto_offset_reset must be 'earliest', 'latest' or 'none', "
                f"got {self.auto_offset_reset!r}"
            )
        if self.isolation_level not in ("read_uncommitted", "read_committed"):
            raise ConfigurationError(
                "isolation_level must be 'read_uncommitted' or 'read_committed', "
                f"got {self.isolation_level!r}"
            )
        require_text("client_rack", self.client_rack)
        require_flag("check_crcs", self.check_crcs)
        require_whole("fetch_min_bytes", self.fetch_min_bytes, 0)
        require_whole("fetch_max_wait_ms", self.fetch_max_wait_ms, 0)
        require_whole("fetch_max_bytes", self.fetch_max_bytes, 1)
        require_whole("max_partition_fetch_bytes", self.max_partition_fetch_bytes, 1)
        require_whole("prefetch_max_bytes", self.prefetch_max_bytes, self.max_partition_fetch_bytes)


def parse_bootstrap(servers: str | Sequence[str]) -> tuple[Address, ...]:
    """Parse `host`, `host:port` and `[v6]:port`, given as a comma-separated string or a list.

    Raises:
        ConfigurationError: an address is malformed.
    """
    given: Sequence[object] = servers.split(",") if isinstance(servers, str) else servers or ()
    if not isinstance(given, Sequence):
        raise ConfigurationError(f"bootstrap_servers must be str, host:port, got {servers!r}")
    texts = [text.strip() for text in given if isinstance(text, str)]
    if len(texts) < len(given):
        raise ConfigurationError(f"bootstrap_servers must be str, host:port, got {servers!r}")
    return tuple(_parse_address(text) for text in texts if text)


def parse_acks(acks: Acks) -> int:
    """Return `acks` as a number of the protocol."""
    return ACKS_ALL if acks == "all" else acks


def parse_compression(name: str | None) -> Codec:
    """Return the codec named `name`; None and "none" mean no compression.

    Raises:
        ConfigurationError: there is no such codec.
    """
    try:
        return Codec[str(name or "none").upper()]
    except KeyError:
        known = ", ".join(codec.name.lower() for codec in Codec)
        raise ConfigurationError(f"compression must be one of {known}, got {name!r}") from None


def _levels(codec: Codec) -> tuple[int, int]:
    """Return the lowest and the highest level of `codec`, as Kafka's producers allow them.

    Raises:
        ConfigurationError: the codec has no levels.
    """
    levels = _LEVELS.get(codec)
    if levels is None:
        named = ", ".join(each.name.lower() for each in _LEVELS)
        raise ConfigurationError(
            f"compression_level is for {named}, but compression is {codec.name.lower()!r}"
        )
    return levels


def _parse_address(text: str) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = text, str(DEFAULT_PORT)
    has_brackets = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if has_brackets else host
    if not host or {"[", "]"} & set(host) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigurationError(f"bootstrap server {text!r} is not host:port")
    return Address(host, int(port))
