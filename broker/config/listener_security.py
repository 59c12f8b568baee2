"""The security of each listener, with all prefixes of keys resolved (decision)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.config.listener import Listener
from broker.config.listener_security_keys import (
    JAAS_KEY,
    LISTENER_PREFIX,
    REAUTH_KEY,
    SECURITY_KEYS,
    ListenerSecurityKeys,
    in_small_letters,
    is_listener_key,
    listener_of,
)
from broker.config.oauth_bearer import (
    HANDLER_KEY,
    LOGIN_HANDLER_KEY,
    OAUTH_KEYS,
    OAUTHBEARER,
    OAuthConfig,
    OAuthKeys,
    resolve_oauth,
)
from broker.errors import ConfigError
from storage.config.config_key import ConfigKey
from trust.jaas import MODULES, JaasError, LoginModule, parse_jaas

Parse = Callable[[ConfigKey, str], Any]

_REAUTH: Final = next(each.key for each in SECURITY_KEYS if each.key.name == REAUTH_KEY)
NO_LOGIN_FILE: Final = "the section KafkaServer of a login file is not read"


@dataclass(frozen=True, kw_only=True)
class MechanismConfig:
    """A SASL mechanism of a listener; SCRAM and OAUTHBEARER need no login module."""

    module: LoginModule | None
    max_reauth_ms: int
    oauth: OAuthConfig | None = None
    """Set for OAUTHBEARER."""

    @property
    def has_login(self) -> bool:
        """Whether this broker can log in at others."""
        if self.oauth is not None:
            return self.oauth.login is not None
        return self.module is not None and self.module.login is not None


@dataclass(frozen=True, kw_only=True)
class ListenerSecurityConfig:
    """Protocol and keys of one listener; `mechanisms` by name, in the order of preference."""

    listener_name: str
    protocol: str
    keys: ListenerSecurityKeys
    mechanisms: Mapping[str, MechanismConfig]

    @property
    def has_tls(self) -> bool:
        """Whether its connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether its clients authenticate by SASL."""
        return self.protocol.startswith("SASL")

    @property
    def prefix(self) -> str:
        """The prefix of its keys."""
        return prefix_of(self.listener_name)


def prefix_of(listener_name: str) -> str:
    """Return the prefix of a listener's keys."""
    return f"{LISTENER_PREFIX}{listener_name.lower()}."


def resolve(
    listeners: Iterable[Listener],
    protocols: Mapping[str, str],
    originals: Mapping[str, str],
    parse: Parse,
) -> dict[str, ListenerSecurityConfig]:
    """Return the security of each listener, by its name.

    `parse` returns the value of a key.

    Raises:
        ConfigError: a value is illegal, a mechanism is not served or not configured, or a prefix
            names no listener or has capital letters. No error shows a secret.
    """
    found = {each.name: _resolve_one(each, protocols, originals, parse) for each in listeners}
    for name in sorted(filter(is_listener_key, originals)):
        listener = listener_of(name, found)
        if listener is None:
            reason = "has the prefix of a listener that does not exist, or is no key of one"
            raise ConfigError(name, None, reason)
        if name != (spelling := in_small_letters(name, listener)):
            raise ConfigError(name, None, f"must be spelled {spelling}, or it has no effect")
    return found


def _resolve_one(
    listener: Listener,
    protocols: Mapping[str, str],
    originals: Mapping[str, str],
    parse: Parse,
) -> ListenerSecurityConfig:
    prefix, protocol = prefix_of(listener.name), protocols[listener.name]
    values = {}
    for declared in SECURITY_KEYS:
        name = declared.key.name
        own = originals.get(prefix + name)
        # Kafka's rule: SASL is the authentication there, and certificates have to be asked for.
        is_general = name != "ssl.client.auth" or protocol != "SASL_SSL"
        text = originals.get(name) if own is None and is_general else own
        if text is not None:
            values[declared.field_name] = parse(declared.key, text)
    keys = ListenerSecurityKeys(**values)
    mechanisms = {}
    if protocol.startswith("SASL"):
        for mechanism in keys.sasl_enabled_mechanisms:
            mechanisms[mechanism] = _mechanism(mechanism, prefix, keys, originals, parse)
    return ListenerSecurityConfig(
        listener_name=listener.name, protocol=protocol, keys=keys, mechanisms=mechanisms
    )


def _mechanism(
    mechanism: str,
    prefix: str,
    keys: ListenerSecurityKeys,
    originals: Mapping[str, str],
    parse: Parse,
) -> MechanismConfig:
    if mechanism not in MODULES:
        rule = f"must be a list of {', '.join(MODULES)}, because {mechanism} is not served"
        raise ConfigError(f"{prefix}sasl.enabled.mechanisms", None, rule)
    prefix += f"{mechanism.lower()}."
    text = originals.get(prefix + JAAS_KEY)
    if text is None and mechanism == "PLAIN":
        rule = f"must be set: it holds the users of PLAIN, as {NO_LOGIN_FILE}"
        raise ConfigError(prefix + JAAS_KEY, None, rule)
    try:
        module = None if text is None else parse_jaas(text, mechanism)
    except JaasError as error:
        raise ConfigError(prefix + JAAS_KEY, None, str(error)) from None
    oauth = None
    if mechanism == OAUTHBEARER:
        oauth = resolve_oauth(
            _oauth_keys(prefix, originals, parse),
            module,
            prefix,
            handler=originals.get(prefix + HANDLER_KEY, ""),
            login_handler=originals.get(prefix + LOGIN_HANDLER_KEY, ""),
        )
    lifetime = originals.get(prefix + REAUTH_KEY)
    return MechanismConfig(
        module=module,
        oauth=oauth,
        max_reauth_ms=(
            keys.connections_max_reauth_ms if lifetime is None else parse(_REAUTH, lifetime)
        ),
    )


def _oauth_keys(prefix: str, originals: Mapping[str, str], parse: Parse) -> OAuthKeys:
    """Return the keys of OAUTHBEARER with the prefix of the mechanism, of the listener, or none."""
    values = {}
    for declared in OAUTH_KEYS:
        name = declared.key.name
        for each in (prefix, prefix.removesuffix(f"{OAUTHBEARER.lower()}."), ""):
            if each + name in originals:
                values[declared.field_name] = parse(declared.key, originals[each + name])
                break
    return OAuthKeys(**values)
