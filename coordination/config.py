"""What an operator can set (decision)."""

import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from coordination.frames import MAX_REQUEST_BYTES

DEFAULT_PORT: Final = 2181
DEFAULT_TICK_MS: Final = 100
DEFAULT_CONNECTIONS_PER_ADDRESS: Final = 60
"""ZooKeeper's maxClientCnxns; 0 is no limit."""
DEFAULT_COMMANDS: Final = frozenset({"srvr", "ruok"})
"""Four-letter words that anybody may ask. The others tell sessions and paths, or change things."""
ALL_COMMANDS: Final = "*"
_ADDRESS = re.compile(r"\A(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d+)\Z")


class PasswordKind(Enum):
    """How session passwords are made, see `sessions.Passwords`."""

    KEYED = "keyed"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 means any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read HOST:PORT.

        Raises:
            ValueError: it is not that.
        """
        found = _ADDRESS.match(text)
        if found is None or int(found["port"]) > 65535:
            raise ValueError(f"an address is HOST:PORT, got {text!r}")
        return cls(found["host"].strip("[]"), int(found["port"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """A second, encrypted listener. With `ca_file` clients must show a certificate."""

    listen: Address
    certificate_file: Path
    key_file: Path
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """How one coordinator runs.

    `tick_ms` bounds how far behind its time the loop may be before the delay counts as a stall,
    which no session pays for. `commands` are the four-letter words that are answered, `*` for all.
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
            raise ValueError("super_digest must be USER:BASE64-SHA1, as ZooKeeper's superDigest")
        if self.max_connections_per_address < 0:
            raise ValueError(
                "max_connections_per_address must be 0, for no limit, or more, "
                f"got {self.max_connections_per_address}"
            )

    def allows_command(self, command: str) -> bool:
        """Whether a four-letter word is answered."""
        return command in self.commands or ALL_COMMANDS in self.commands


def parse_commands(text: str) -> frozenset[str]:
    """Read four-letter words, separated by commas, as ZooKeeper's 4lw.commands.whitelist."""
    return frozenset(word.strip() for word in text.split(",") if word.strip())
