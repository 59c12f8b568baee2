"""Checks new keys and certificates of a running listener (edge).

A new certificate has the same subject, and all alternative names of the one in force; and other
brokers that could connect still can, whether they have the old files or the new ones. So the
certificate of another host, or of another authority, is refused before clients meet it.

Source: SslFactory of Kafka 3.9; KIP-978.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass

from broker.config.listener_security import ListenerSecurityConfig
from broker.errors import ConfigError
from trust.alternative_names import alternative_names_of
from trust.distinguished_name import subject_of
from trust.handshake import shake_hands


@dataclass(frozen=True, slots=True)
class TlsSides:
    """One broker's TLS as the server of a listener, and as a client of the same one of others."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def check_identity(old: bytes, new: bytes, listener: ListenerSecurityConfig) -> None:
    """Check that the certificate `new` has the subject and names of the certificate `old`.

    Raises:
        ConfigError: it is not, and the keys of the listener do not allow that.
    """
    keys = listener.keys
    if not keys.ssl_allow_dn_changes and _comparable(old) != _comparable(new):
        rule = (
            f"has a certificate for {subject_of(new)} in place of {subject_of(old)}: "
            "ssl.allow.dn.changes=false"
        )
        raise _refused(listener, rule)
    missing = alternative_names_of(old) - alternative_names_of(new)
    if not keys.ssl_allow_san_changes and missing:
        rule = f"has a certificate without {_shown(missing)}: ssl.allow.san.changes=false"
        raise _refused(listener, rule)


def check_peers(old: TlsSides, new: TlsSides, host: str, listener: ListenerSecurityConfig) -> None:
    """Check that brokers still connect to each other at `host` once some of them are changed.

    Raises:
        ConfigError: they could before, and cannot any more.
    """
    if _refusal(old.server, old.client, host):
        return
    refusal = _refusal(new.server, old.client, host) or _refusal(old.server, new.client, host)
    if refusal:
        rule = f"is not accepted by brokers that accept the present one ({refusal})"
        raise _refused(listener, rule)


def _refusal(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str:
    """Return why one side refuses the other; empty if neither does."""
    try:
        shake_hands(server, client, host)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return (error.reason or str(error)).lower().replace("_", " ")
    except ValueError as error:
        # No certificate can be for such a host.
        return str(error)
    return ""


def _comparable(certificate: bytes) -> str:
    # Java ignores the case of names, and repeated blanks.
    return " ".join(subject_of(certificate).casefold().split())


def _shown(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _refused(listener: ListenerSecurityConfig, rule: str) -> ConfigError:
    location = listener.keys.ssl_keystore_location or None
    return ConfigError(f"{listener.prefix}ssl.keystore.location", location, rule)
