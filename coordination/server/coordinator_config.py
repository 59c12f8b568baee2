"""Configuration of the coordinator (decision)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from coordination.protocol.frames import MAX_REQUEST_BYTES
from coordination.protocol.messages import DEFAULT_PORT

DEFAULT_TICK_MS: Final = 100
DEFAULT_CONNECTIONS_PER_ADDRESS: Final = 60
"""Default of ZooKeeper's maxClientCnxns; 0 means no limit."""
DEFAULT_COMMANDS: Final = frozenset({"srvr", "ruok"})
"""Four-letter words enabled by default; the others reveal sessions and paths, or change state."""
ALL_COMMANDS: Final = "*"
SCHEMES: Final = frozenset({"digest", "sasl", "x509"})
"""Schemes with which a client can authenticate."""
_ADDRESS = re.compile(r"\A(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d+)\Z")


class PasswordKind(Enum):
    """Kind of session passwords, see `sessions.Passwords`."""

    KEYED = "keyed"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Address:
    """Address to listen on; port 0 means any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse HOST:PORT.

        Raises:
            ValueError: the text has another form.
        """
        found = _ADDRESS.match(text)
        if found is None or int(found["port"]) > 65535:
            raise ValueError(f"address must be HOST:PORT, got {text!r}")
        return cls(found["host"].strip("[]"), int(found["port"]))


class ClientAuth(Enum):
    """Whether TLS clients show a certificate, as ZooKeeper's ssl.clientAuth."""

    NONE = "none"
    WANT = "want"
    NEED = "need"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Additional TLS listener; `ca_file` holds the authorities of clients' certificates."""

    listen: Address
    certificate_file: Path
    key_file: Path
    key_password_file: Path | None = None
    ca_file: Path | None = None
    client_auth: ClientAuth = ClientAuth.NONE

    def __post_init__(self) -> None:
        if (self.client_auth is not ClientAuth.NONE) != (self.ca_file is not None):
            raise ValueError("certificates of clients need a file with their authorities")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Configuration of one coordinator.

    `metrics_listen` is the address of the status pages over HTTP; without it there are none.
    While `max_unsynced_bytes` of requests wait for a sync, connections that hold replies are not
    read.
    A loop that is later than `tick_ms` counts as stalled, and stalls extend all session deadlines.
    `commands` are the enabled four-letter words, `*` for all. `users` maps the users of SASL to
    their passwords. A client must have an identity of one of `required_schemes`, if there are any.
    """

    listen: Address = field(default_factory=lambda: Address("127.0.0.1", DEFAULT_PORT))
    tls: TlsConfig | None = None
    metrics_listen: Address | None = None
    tick_ms: int = DEFAULT_TICK_MS
    min_session_timeout_ms: int = 2 * DEFAULT_TICK_MS
    max_session_timeout_ms: int = 60_000
    linger_ms: int = 250
    handshake_timeout_ms: int = 10_000
    max_request_bytes: int = MAX_REQUEST_BYTES
    max_connections: int = 60_000
    max_connections_per_address: int = DEFAULT_CONNECTIONS_PER_ADDRESS
    commands: frozenset[str] = DEFAULT_COMMANDS
    max_unsent_bytes: int = 16 * 1024 * 1024
    max_held_replies: int = 10_000
    max_unsynced_bytes: int = 64 * 1024 * 1024
    container_check_interval_ms: int = 60_000
    server_id: int = 1
    passwords: PasswordKind = PasswordKind.KEYED
    super_digest: str | None = field(default=None, repr=False)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    super_users: frozenset[str] = frozenset()
    x509_super_user: str | None = None
    required_schemes: frozenset[str] = frozenset()
    does_sync: bool = True

    def __post_init__(self) -> None:
        if self.tick_ms <= 0:
            raise ValueError(f"tick_ms must be positive, got {self.tick_ms}")
        if not 0 < self.min_session_timeout_ms <= self.max_session_timeout_ms:
            raise ValueError(
                "min_session_timeout_ms must be within 1..max_session_timeout_ms "
                f"({self.max_session_timeout_ms}), got {self.min_session_timeout_ms}"
            )
        if not 1 <= self.server_id <= 127:
            raise ValueError(f"server_id must be within 1..127, got {self.server_id}")
        if self.super_digest is not None and ":" not in self.super_digest:
            raise ValueError("super_digest must be USER:BASE64-SHA1, like ZooKeeper's superDigest")
        self._check_authentication()
        if self.max_connections_per_address < 0:
            raise ValueError(
                "max_connections_per_address must be positive, or 0 for no limit, "
                f"got {self.max_connections_per_address}"
            )

    def _check_authentication(self) -> None:
        for user in self.users:
            # They would be names of Kerberos, which have other rules.
            if not user or "/" in user or "@" in user:
                raise ValueError(f"user name {user!r} must not be empty or contain / or @")
        if not self.required_schemes <= SCHEMES:
            raise ValueError(f"schemes must be among {', '.join(sorted(SCHEMES))}")
        if self.required_schemes == {"sasl"} and not self.users:
            raise ValueError("scheme sasl is required, but there are no users: see login_config")

    def allows_command(self, command: str) -> bool:
        """Whether a four-letter word is enabled."""
        return command in self.commands or ALL_COMMANDS in self.commands


def parse_words(text: str) -> frozenset[str]:
    """Parse comma-separated words, like ZooKeeper's 4lw.commands.whitelist."""
    return frozenset(word.strip() for word in text.split(",") if word.strip())
