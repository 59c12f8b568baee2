"""Keys of encryption and authentication, which each listener may set for itself (decision).

`listener.name.LISTENER.KEY` replaces KEY for one listener; the listener's name is in small letters.
`listener.name.LISTENER.MECHANISM.KEY` replaces it for one SASL mechanism.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from broker.config.declared_key import (
    boolean,
    declared_keys,
    integer,
    long,
    names,
    password,
    string,
)
from broker.config.oauth_bearer import HANDLER_KEY, LOGIN_HANDLER_KEY, OAUTH_KEYS, OAUTHBEARER
from storage.config.config_key import at_least, one_of
from trust.key_store import TYPES

LISTENER_PREFIX: Final = "listener.name."
JAAS_KEY: Final = "sasl.jaas.config"
REAUTH_KEY: Final = "connections.max.reauth.ms"
MECHANISM_KEYS: Final = frozenset({JAAS_KEY, REAUTH_KEY})
"""The keys that may have the prefix of a mechanism."""
RELOADABLE_KEYS: Final = frozenset(
    {
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
"""The keys that one broker may change for a listener while it runs; even the same value makes it
read the file again."""


@dataclass(frozen=True, kw_only=True)
class ListenerSecurityKeys:
    """Encryption and authentication of listeners."""

    sasl_enabled_mechanisms: tuple[str, ...] = names(
        ("GSSAPI",),
        "SASL mechanisms of a listener: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. A "
        "listener with SASL must name its mechanisms, because GSSAPI is not served.",
    )
    sasl_mechanism_inter_broker_protocol: str = string(
        "GSSAPI", "SASL mechanism of this broker's logins at other brokers."
    )
    sasl_server_max_receive_size: int = integer(
        512 * 1024, "Maximum size of a request before authentication.", at_least(1)
    )
    connections_max_reauth_ms: int = long(
        0, "Time after which a client must authenticate again (KIP-368); 0 never.", at_least(0)
    )
    ssl_client_auth: str = string(
        "none",
        "Whether TLS clients must show a certificate: required, requested, none. A listener with "
        "SASL_SSL only obeys the key with its own prefix.",
        one_of("required", "requested", "none"),
    )
    ssl_principal_mapping_rules: str = string(
        "DEFAULT",
        "Rules RULE:PATTERN/REPLACEMENT/[L|U] or DEFAULT, separated by commas; the first one whose "
        "pattern matches a certificate's whole name makes the principal.",
    )
    ssl_keystore_type: str = string(
        "JKS",
        "Format of the own key and certificate. JKS and PKCS12 read each other.",
        one_of(*TYPES),
    )
    ssl_keystore_location: str = string("", "File of the private key and its certificates.")
    ssl_keystore_password: str = password(
        "Password of the keystore; JKS and PKCS12 need it, PEM has none."
    )
    ssl_keystore_key: str = password("Private key as PEM text, instead of a file.")
    ssl_keystore_certificate_chain: str = password(
        "Certificates of the key as PEM text, the own one first."
    )
    ssl_key_password: str = password(
        "Password of the private key, if it is encrypted (PEM) or not that of the store (JKS)."
    )
    ssl_truststore_type: str = string(
        "JKS",
        "Format of the trusted certificates. JKS and PKCS12 read each other.",
        one_of(*TYPES),
    )
    ssl_truststore_location: str = string("", "File of the trusted certificates.")
    ssl_truststore_password: str = password(
        "Password of the truststore; not for PEM. Without it, a JKS store is not verified."
    )
    ssl_truststore_certificates: str = password("Trusted certificates as PEM text.")
    ssl_enabled_protocols: tuple[str, ...] = names(
        ("TLSv1.2", "TLSv1.3"), "Versions of TLS; older ones are refused."
    )
    ssl_cipher_suites: tuple[str, ...] = names(
        (),
        "Cipher suites of TLS by the names of Java or OpenSSL, the preferred one first; empty: all "
        "that are served. Without the suites of TLS 1.3 that version is not served.",
    )
    ssl_protocol: str = string(
        "TLSv1.3", "No effect: ssl.enabled.protocols decides.", one_of("TLSv1.3", "TLSv1.2", "TLS")
    )
    ssl_allow_dn_changes: bool = boolean(
        False, "Whether a new certificate of a running listener may have another subject."
    )
    ssl_allow_san_changes: bool = boolean(
        False, "Whether a new certificate of a running listener may lack alternative names."
    )
    ssl_endpoint_identification_algorithm: str = string(
        "https",
        "Whether this broker checks the host names of other brokers' certificates; empty: no.",
        one_of("https", ""),
    )


SECURITY_KEYS: Final = declared_keys(ListenerSecurityKeys)
_OAUTH_NAMES: Final = frozenset(declared.key.name for declared in OAUTH_KEYS)
_OAUTH_KEYS: Final = _OAUTH_NAMES | {HANDLER_KEY, LOGIN_HANDLER_KEY}
_NAMES: Final = frozenset(declared.key.name for declared in SECURITY_KEYS) | _OAUTH_NAMES
_MAX_WORDS: Final = 1 + max(name.count(".") + 1 for name in _NAMES)
"""Words between dots in a key with the prefix of a mechanism."""


def is_listener_key(name: str) -> bool:
    """Whether `name` is one of the keys with the prefix of a listener, and of a mechanism."""
    return any(map(_is_key, keys_in(name)))


def keys_in(name: str) -> Iterator[str]:
    """Yield all that may be the key behind the prefix of a listener, whose name may have dots."""
    if name.startswith(LISTENER_PREFIX):
        words = name.removeprefix(LISTENER_PREFIX).rsplit(".", _MAX_WORDS)
        for first in range(1, len(words)):
            yield ".".join(words[first:])


def _is_key(key: str) -> bool:
    mechanism, _, key_of_mechanism = key.partition(".")
    if mechanism.upper() == OAUTHBEARER and key_of_mechanism in _OAUTH_KEYS:
        return True
    return key in _NAMES or key_of_mechanism in MECHANISM_KEYS


def listener_of(name: str, listeners: Iterable[str]) -> str | None:
    """Return the listener in the prefix of a key, the one with the longest name; None if none."""
    spelled = name.removeprefix(LISTENER_PREFIX)
    prefixes = {f"{listener.lower()}.": listener for listener in listeners}
    found = [
        prefix
        for prefix in prefixes
        if spelled.lower().startswith(prefix) and _is_key(spelled[len(prefix) :])
    ]
    return prefixes[max(found, key=len)] if found else None


def in_small_letters(name: str, listener: str) -> str:
    """Return the key with the prefixes of its listener and mechanism in the only valid spelling."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    key = name[len(prefix) :]
    if key not in _NAMES:
        mechanism, _, key_of_mechanism = key.partition(".")
        key = f"{mechanism.lower()}.{key_of_mechanism}"
    return prefix + key


def is_reloadable(name: str) -> bool:
    """Whether `name` is one of `RELOADABLE_KEYS` with the prefix of a listener."""
    return not RELOADABLE_KEYS.isdisjoint(keys_in(name))
