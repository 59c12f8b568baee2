"""Configuration of the coordinator (decision)."""

import re
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Additional TLS listener; with `ca_file` clients must present a certificate."""

    listen: Address
    certificate_file: Path
    key_file: Path
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Configuration of one coordinator.

    A loop that is later than `tick_ms` counts as stalled, and stalls extend all session deadlines.
    `commands` are the enabled four-letter words, `*` for all.
    """

    listen: Address = field(default_factory=lambda: Address("127.0.0.1", DEFAULT_PORT))
    tls: TlsConfig | None = None
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
    container_check_interval_ms: int = 60_000
    server_id: int = 1
    passwords: PasswordKind = PasswordKind.KEYED
    super_digest: str | None = None
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
        if self.max_connections_per_address < 0:
            raise ValueError(
                "max_connections_per_address must be positive, or 0 for no limit, "
                f"got {self.max_connections_per_address}"
            )

    def allows_command(self, command: str) -> bool:
        """Whether a four-letter word is enabled."""
        return command in self.commands or ALL_COMMANDS in self.commands


def parse_commands(text: str) -> frozenset[str]:
    """Parse comma-separated four-letter words, like ZooKeeper's 4lw.commands.whitelist."""
    return frozenset(word.strip() for word in text.split(",") if word.strip())
