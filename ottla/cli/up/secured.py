"""The settings of a secured cluster, for its brokers and its clients (decision).

One listener per broker, SASL_SSL, serves clients and brokers. Three users exist from the beginning,
by PLAIN, in the configuration of the brokers: `broker`, `admin` and `client`. More users come by
SCRAM, from the coordinator.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.config.coordinator_keys import SOCKET_WITH_TLS
from kafkawire.acl import (
    WILDCARD,
    AclBinding,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkawire.scram import HASHES
from trust.jaas import PLAIN_MODULE, USER_PREFIX

if TYPE_CHECKING:
    from ottla.client.security import SecurityOptions

FOLDER: Final = "security"
BROKER: Final = "broker"
ADMIN: Final = "admin"
CLIENT: Final = "client"
USERS: Final = (ADMIN, BROKER, CLIENT)
AT_COORDINATOR: Final = "coordinator"
"""Name of the password with which brokers of all machines log in at the coordinator."""
PROTOCOL: Final = "SASL_SSL"
MECHANISM: Final = "PLAIN"
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
PREFIX: Final = f"listener.name.{PROTOCOL.lower()}."
AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"

MAX_HOST_NAME: Final = 253
_LABEL: Final = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")

OWN_KEYS: Final = (
    "authorizer.class.name",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "security.inter.broker.protocol",
    "super.users",
)
OWN_PREFIXES: Final = ("ssl.keystore.", "ssl.truststore.", "ssl.key.", PREFIX)
"""Keys of which a wrong value would open or cut off the brokers."""

CLIENT_RIGHTS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a secured cluster; `folder` is absolute, so that its files work anywhere."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's key and certificate."""
        return self.folder / "authority.pem"

    @property
    def trusted(self) -> Path:
        """The authority's certificate, which clients trust."""
        return self.folder / "ca.pem"

    @property
    def passwords(self) -> Path:
        """The passwords of `USERS`, and that at the coordinator, as JSON."""
        return self.folder / "passwords.json"

    @property
    def copied(self) -> tuple[Path, ...]:
        """The files that a machine needs to join, from which it makes the others."""
        return (self.authority, self.passwords)

    @property
    def granted(self) -> Path:
        """The id of the cluster in which `CLIENT` has its rights already."""
        return self.folder / "granted"

    def store(self, broker: str) -> Path:
        """A broker's key and certificate."""
        return self.folder / f"{broker}.pem"

    def properties(self, name: str) -> Path:
        """The configuration of a broker, or of clients for a user."""
        return self.folder / f"{name}.properties"

    def librdkafka(self, user: str) -> Path:
        """The configuration of clients of librdkafka, which refuses the keys of Java."""
        return self.folder / f"{user}.librdkafka.properties"


@dataclass(frozen=True, slots=True)
class Security:
    """The secrets of a cluster: the password of each user, by its name."""

    files: Files
    passwords: Mapping[str, str] = field(repr=False)

    def login(self, user: str) -> SecurityOptions:
        """Return the options of our client for a user."""
        return {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.files.trusted),
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": user,
            "sasl_plain_password": self.passwords[user],
        }


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Refuse overrides of the keys that make a cluster secure.

    Raises:
        ValueError: there is one.
    """
    for key in overrides:
        if key in OWN_KEYS or key.startswith(OWN_PREFIXES):
            raise ValueError(f"{key} belongs to the security that --secure sets up: leave it out")


def broker_settings(security: Security, broker: str) -> dict[str, str]:
    """Return the keys that make a broker secure."""
    files, passwords = security.files, security.passwords
    options = {"username": BROKER, "password": passwords[BROKER]}
    options |= {f"{USER_PREFIX}{user}": passwords[user] for user in USERS}
    return {
        "security.inter.broker.protocol": PROTOCOL,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.enabled.mechanisms": ",".join((MECHANISM, *HASHES)),
        f"{PREFIX}{MECHANISM.lower()}.sasl.jaas.config": _jaas(options),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.store(broker)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.trusted),
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{ADMIN};User:{BROKER}",
    }


def coordinator_settings(files: Files, own: str) -> dict[str, str]:
    """Return the keys of an encrypted connection to the coordinator, with the certificate `own`."""
    return {
        "zookeeper.clientCnxnSocket": SOCKET_WITH_TLS,
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.type": "PEM",
        "zookeeper.ssl.keystore.location": str(files.store(own)),
        "zookeeper.ssl.truststore.type": "PEM",
        "zookeeper.ssl.truststore.location": str(files.trusted),
    }


def client_settings(security: Security, user: str, bootstrap: str) -> dict[str, str]:
    """Return the connection of a user, for Kafka's tools and ours."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": _jaas({"username": user, "password": security.passwords[user]}),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(security.files.trusted),
    }


def librdkafka_settings(security: Security, user: str, bootstrap: str) -> dict[str, str]:
    """Return the connection of a user, for clients of librdkafka."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": security.passwords[user],
        "ssl.ca.location": str(security.files.trusted),
    }


def hosts_of(advertised_host: str | None) -> tuple[str, ...]:
    """Return the names and addresses that certificates of brokers are for."""
    more = () if advertised_host in (None, *LOCAL_HOSTS) else (advertised_host or "",)
    return (*LOCAL_HOSTS, *more)


def is_host(text: str) -> bool:
    """Whether `text` is a name or an address that clients can connect to."""
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None and len(text) <= MAX_HOST_NAME


def is_loopback(host: str) -> bool:
    """Whether `host` is an address that only this machine itself reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def client_rights() -> Sequence[AclBinding]:
    """Return the rights of `CLIENT`: produce, consume, create topics; not delete or alter any."""
    return [
        AclBinding(
            ResourcePattern(kind, WILDCARD, PatternType.LITERAL),
            AclEntry(
                principal=f"User:{CLIENT}",
                host=WILDCARD,
                operation=operation,
                permission=Permission.ALLOW,
            ),
        )
        for kind, operations in CLIENT_RIGHTS.items()
        for operation in operations
    ]


def _jaas(options: Mapping[str, str]) -> str:
    """Return the text of a login module."""
    pairs = " ".join(f'{key}="{_escape(value)}"' for key, value in options.items())
    return f"{PLAIN_MODULE} required {pairs};"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
