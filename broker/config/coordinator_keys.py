"""Keys of the connection to the coordinator: encryption, login, access control lists (decision).

The names are Kafka's. Java brokers take the login from a file that a property of the virtual
machine names; here it is a key of the same name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.config.declared_key import KeyRule, boolean, declared_keys, names, password, string
from storage.config.config_key import one_of
from trust.key_store import TYPES

SOCKET_WITH_TLS: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
SOCKET_WITHOUT_TLS: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"
EXTENSIONS: Final = {"jks": "JKS", "pem": "PEM", "p12": "PKCS12", "pfx": "PKCS12"}


@dataclass(frozen=True, kw_only=True)
class CoordinatorKeys:
    """Security of the connection to the coordinator."""

    zookeeper_set_acl: bool = boolean(
        False,
        "Whether only this broker's identity may change the znodes that it creates; the identity "
        "is its login or its TLS certificate.",
    )
    zookeeper_clientCnxnSocket: str = string(  # noqa: N815 - Kafka's name
        "",
        f"Accepted for compatibility: empty, {SOCKET_WITH_TLS}, or without TLS "
        f"{SOCKET_WITHOUT_TLS}.",
        one_of("", SOCKET_WITH_TLS, SOCKET_WITHOUT_TLS),
    )
    zookeeper_ssl_client_enable: bool = boolean(
        False, "Whether connections to the coordinator are encrypted."
    )
    zookeeper_ssl_keystore_location: str = string(
        "", "File of the private key and certificate that the coordinator asks for."
    )
    zookeeper_ssl_keystore_password: str = password("Password of the keystore.")
    zookeeper_ssl_keystore_type: str = string(
        "", "Format of the keystore; empty: by the extension of the file.", one_of("", *TYPES)
    )
    zookeeper_ssl_truststore_location: str = string(
        "", "File of the certificates that the coordinator's must be signed by."
    )
    zookeeper_ssl_truststore_password: str = password("Password of the truststore.")
    zookeeper_ssl_truststore_type: str = string(
        "", "Format of the truststore; empty: by the extension of the file.", one_of("", *TYPES)
    )
    zookeeper_ssl_protocol: str = string(
        "TLSv1.2",
        "No effect: zookeeper.ssl.enabled.protocols decides.",
        one_of("TLSv1.3", "TLSv1.2", "TLS"),
    )
    zookeeper_ssl_enabled_protocols: tuple[str, ...] = names(
        ("TLSv1.2", "TLSv1.3"), "Versions of TLS; older ones are refused."
    )
    zookeeper_ssl_endpoint_identification_algorithm: str = string(
        "HTTPS",
        "Whether this broker checks the host name of the coordinator's certificate; empty: no.",
    )
    java_security_auth_login_config: str = string(
        "",
        "Java login configuration whose section Client has user and password of this broker's "
        "login at the coordinator (DIGEST-MD5).",
    )

    def rules(self) -> Iterator[KeyRule]:
        """Yield the rules between the keys."""
        key, name = "zookeeper.ssl.client.enable", self.zookeeper_clientCnxnSocket
        yield (
            key, self.zookeeper_ssl_client_enable,
            not self.zookeeper_ssl_client_enable or name != SOCKET_WITHOUT_TLS,
            f"needs zookeeper.clientCnxnSocket={SOCKET_WITH_TLS}, or none",
        )  # fmt: skip
        algorithm = self.zookeeper_ssl_endpoint_identification_algorithm
        yield (
            "zookeeper.ssl.endpoint.identification.algorithm", algorithm,
            algorithm.upper() in ("HTTPS", ""), "must be HTTPS or empty",
        )  # fmt: skip


COORDINATOR_KEYS: Final = declared_keys(CoordinatorKeys)


def coordinator_keys_of(properties: Mapping[str, str]) -> CoordinatorKeys:
    """Return the values of the keys in `properties`.

    Raises:
        ValueError: a value has the wrong type.
    """
    # Any: each value has the type of its field.
    values: dict[str, Any] = {
        each.field_name: each.key.parse(properties[each.key.name])
        for each in COORDINATOR_KEYS
        if each.key.name in properties
    }
    return CoordinatorKeys(**values)


def store_type(declared: str, location: str) -> str:
    """Return the format of a store, from its key or from the extension of its file."""
    return declared or EXTENSIONS.get(location.rpartition(".")[2].lower(), "JKS")
