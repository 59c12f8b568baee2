"""`--command-config`: the settings of connections to secured clusters (edge).

The file has Java's properties format, and the keys of Kafka's own tools or of librdkafka, so that
one file serves all of them. Keys that do not concern the connection are ignored. No error quotes a
value, because values may be secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ottla.cli.failure import EXIT_USAGE, CommandError
from ottla.cli.options import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.security import SecurityOptions

BOOTSTRAP: Final = "bootstrap.servers"
JAAS: Final = "sasl.jaas.config"
HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"

OPTIONS: Final[Mapping[str, str]] = {
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.ca.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
"""The option of our client for each key, of Kafka's tools or of librdkafka."""
STORES: Final = ("ssl.truststore", "ssl.keystore")
STORE_TYPES: Final = tuple(f"{store}.type" for store in STORES)


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The addresses of some brokers, and the options for secured connections to them."""

    bootstrap: str
    security: SecurityOptions = field(repr=False)

    def admin(self) -> Admin:
        """Return an admin client of the cluster."""
        from ottla.client.admin.admin import Admin

        return Admin(self.bootstrap, **self.security)


def cluster_access(bootstrap: str | None, file: Path | None) -> ClusterAccess:
    """Combine the options of a command; `bootstrap` takes precedence over the file's addresses.

    Raises:
        CommandError: the file cannot be read, or has a key that cannot be honoured.
    """
    properties = {} if file is None else _read(file)
    addresses = properties.get(BOOTSTRAP, DEFAULT_BOOTSTRAP) if bootstrap is None else bootstrap
    return ClusterAccess(addresses, security_options(properties))


def security_options(properties: Mapping[str, str]) -> SecurityOptions:
    """Return the options of our client for the keys of Kafka's tools or of librdkafka.

    Raises:
        CommandError: a key about TLS or SASL is unknown here, or has an unusable value.
    """
    options: dict[str, object] = {}
    for key, value in properties.items():
        if key == "security.protocol":
            # librdkafka allows lower case.
            options["security_protocol"] = value.upper()
        elif key in OPTIONS:
            options[OPTIONS[key]] = value
        elif key == HOST_CHECK:
            options["ssl_check_hostname"] = value not in ("", "none")
        elif key.startswith(("ssl.", "sasl.")) and key not in (JAAS, *STORE_TYPES):
            raise _failure(f"{key} is not supported")
    for store in STORES:
        # Without a type, Kafka's tools expect a store of Java.
        kind = properties.get(f"{store}.type", "JKS")
        if f"{store}.location" in properties and kind.upper() != "PEM":
            raise _failure(f"{store}.type must be PEM, other formats are not read")
    if JAAS in properties:
        options |= _login(properties[JAAS], str(options.get("sasl_mechanism", "")))
    return cast("SecurityOptions", options)


def _login(jaas: str, mechanism: str) -> dict[str, str]:
    from broker.security.jaas import MODULES, JaasError, parse_jaas

    if mechanism not in MODULES:
        raise _failure(f"{JAAS} needs sasl.mechanism to be one of {', '.join(MODULES)}")
    try:
        login = parse_jaas(jaas, mechanism).login
    except JaasError as error:
        raise _failure(f"{JAAS} {error}") from None
    if login is None:
        raise _failure(f"{JAAS} must have a username and a password")
    return {"sasl_plain_username": login[0], "sasl_plain_password": login[1]}


def _read(file: Path) -> dict[str, str]:
    from broker.config.properties import parse_properties
    from broker.errors import ConfigError

    try:
        return parse_properties(file.read_text(encoding="utf-8"))
    except (ConfigError, UnicodeDecodeError):
        raise _failure(f"{file} is not a properties file in UTF-8") from None


def _failure(message: str) -> CommandError:
    return CommandError(f"--command-config: {message}.", EXIT_USAGE)
