"""`--command-config`: the settings of connections to secured clusters (edge).

The file has Java's properties format, and the keys of Kafka's own tools or of librdkafka, so that
one file serves all of them. Keys that do not concern the connection are ignored. No error quotes a
value, because values may be secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from ottla.cli.failure import EXIT_USAGE, CommandError, run_client
from ottla.cli.options import DEFAULT_BOOTSTRAP, PROFILE

if TYPE_CHECKING:
    import ssl

    from ottla.client.admin.admin import Admin
    from ottla.client.security import SecurityOptions

T = TypeVar("T")

BOOTSTRAP: Final = "bootstrap.servers"
JAAS: Final = "sasl.jaas.config"
CIPHER_SUITES: Final = "ssl.cipher.suites"
LOGIN: Final = frozenset({"sasl.username", "sasl.password"})
"""A login in the keys of librdkafka; Kafka's tools have it in `sasl.jaas.config`."""
HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"

OPTIONS: Final[Mapping[str, str]] = {
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    CIPHER_SUITES: "ssl_ciphers",
}
"""The option of our client for each key, of Kafka's tools or of librdkafka."""
KEY_STORE: Final = "ssl.keystore."
TRUST_STORE: Final = "ssl.truststore."
STORES: Final = frozenset(
    {
        *(KEY_STORE + key for key in ("type", "location", "password", "key", "certificate.chain")),
        *(TRUST_STORE + key for key in ("type", "location", "password", "certificates")),
    }
)
"""The stores of Kafka's tools, which need a TLS context of our own."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The addresses of some brokers, and the options for secured connections to them."""

    bootstrap: str
    security: SecurityOptions = field(repr=False)

    def admin(self) -> Admin:
        """Return an admin client of the cluster."""
        from ottla.client.admin.admin import Admin

        return Admin(self.bootstrap, **self.security)


def cluster_access(
    bootstrap: str | None, file: Path | None, *, has_coordinator: bool = False
) -> ClusterAccess:
    """Combine the profile and the options of a command, which take precedence over the profile.

    `bootstrap` takes precedence over the file's addresses. The default profile is for commands that
    name neither a cluster nor a login: its credentials must not reach another cluster.

    Args:
        bootstrap: Addresses of brokers.
        file: A properties file.
        has_coordinator: Whether a coordinator lists the brokers.

    Raises:
        CommandError: the file cannot be read, or has a key that cannot be honoured; or there is no
            such profile.
    """
    from ottla.cli.profile import load_profiles

    given = {} if file is None else _read(file)
    may_default = bootstrap is None and not has_coordinator and not any(map(_is_connection, given))
    profiles, name = load_profiles(), PROFILE.get()
    properties = _merged(profiles.chosen(name, may_default=may_default), given)
    addresses = properties.get(BOOTSTRAP) if bootstrap is None else bootstrap
    if addresses is None:
        has_unused_default = name is None and not may_default and profiles.default is not None
        if has_unused_default and not has_coordinator:
            raise _failure(
                f"{file} names no brokers, and the default profile is not used beside its settings "
                f"of TLS or SASL: add {BOOTSTRAP}, or choose a profile with --profile"
            )
        addresses = DEFAULT_BOOTSTRAP
    return ClusterAccess(addresses, security_options(properties))


def _is_connection(key: str) -> bool:
    """Whether the key names a cluster, or is a setting of TLS or SASL."""
    return key in (BOOTSTRAP, "security.protocol") or key.startswith(("sasl.", "ssl."))


def _merged(profile: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of both; `given` takes precedence, also in the form of its login."""
    kept = dict(profile)
    if not LOGIN.isdisjoint(given):
        kept.pop(JAAS, None)
    return {**kept, **given}


def run_admin(
    bootstrap: str | None, file: Path | None, work: Callable[[Admin], Coroutine[object, object, T]]
) -> T:
    """Return the result of `work` with an admin client of the cluster that the options name.

    Raises:
        CommandError: as `cluster_access`, or the client failed.
    """
    access = cluster_access(bootstrap, file)

    async def connected() -> T:
        async with access.admin() as admin:
            return await work(admin)

    return run_client(connected())


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
        elif key.startswith(("ssl.", "sasl.")) and key != JAAS and key not in STORES:
            raise _failure(f"{key} is not supported")
    if str(options.get("security_protocol")).endswith("SSL") and not STORES.isdisjoint(properties):
        options = {key: value for key, value in options.items() if not key.startswith("ssl_")}
        options["ssl_context"] = _context(properties)
    if JAAS in properties:
        options |= _login(properties[JAAS], str(options.get("sasl_mechanism", "")))
    return cast("SecurityOptions", options)


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return the TLS context for the stores of Kafka's tools.

    Raises:
        CommandError: a store cannot be used, or a key of librdkafka contradicts it.
    """
    import ssl

    from trust.cipher_suite import suite_names
    from trust.key_store import PEM
    from trust.tls_store import (
        KeySource,
        StoreError,
        TrustSource,
        limit_ciphers,
        load_key,
        load_trust,
    )

    def of(key: str, default: str = "") -> str:
        return properties.get(key, default)

    for key in ("ssl.certificate.location", "ssl.key.location"):
        if key in properties:
            raise _failure(f"{key} excludes the keys that begin with {KEY_STORE} or {TRUST_STORE}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = of(HOST_CHECK, "https") not in ("", "none")
    # Without a type, Kafka's tools expect a store of Java. librdkafka has PKCS12 beside PEM.
    trust = TrustSource(
        type=of(f"{TRUST_STORE}type", "JKS").upper(),
        location=of(f"{TRUST_STORE}location"),
        password=of(f"{TRUST_STORE}password"),
        certificates=of(f"{TRUST_STORE}certificates"),
    )
    if "ssl.ca.location" in properties:
        trust = TrustSource(type=PEM, location=of("ssl.ca.location"))
    try:
        if CIPHER_SUITES in properties:
            limit_ciphers(context, suite_names(of(CIPHER_SUITES)))
        load_trust(context, trust)
        load_key(
            context,
            KeySource(
                type=of(f"{KEY_STORE}type", "JKS").upper(),
                location=of(f"{KEY_STORE}location"),
                password=of(f"{KEY_STORE}password"),
                key=of(f"{KEY_STORE}key"),
                certificate_chain=of(f"{KEY_STORE}certificate.chain"),
                key_password=of("ssl.key.password"),
            ),
        )
    except StoreError as error:
        shown = "" if error.shown is None else f" ({error.shown})"
        raise _failure(f"{error.key}{shown} {error.rule}") from None
    return context


def _login(jaas: str, mechanism: str) -> dict[str, str]:
    from trust.jaas import MODULES, JaasError, parse_jaas

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
