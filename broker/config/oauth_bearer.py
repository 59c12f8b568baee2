"""The configuration of OAUTHBEARER on a listener: which tokens are accepted (decision).

Kafka's default is to accept tokens without a signature, which any client can make. Here the login
module must ask for them by one of its options `unsecuredValidator...`; a broker that is configured
for neither kind of token does not start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from broker.config.declared_key import declared_keys, integer, long, names, string
from broker.errors import ConfigError
from broker.security.oauth.token_claims import ClaimRules
from storage.config.config_key import INT_MAX, at_least
from trust.jaas import LoginModule
from trust.key_store import TYPES

OAUTHBEARER: Final = "OAUTHBEARER"
HANDLER_KEY: Final = "sasl.server.callback.handler.class"
LOGIN_HANDLER_KEY: Final = "sasl.login.callback.handler.class"
URL_KEY: Final = "sasl.oauthbearer.jwks.endpoint.url"
TOKEN_URL_KEY: Final = "sasl.oauthbearer.token.endpoint.url"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
SIGNED_HANDLERS: Final = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's names for the validator of signed tokens."""
TOKEN_HANDLERS: Final = (
    f"{_PACKAGE}OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler",
)
"""Kafka's names for logins by a token of an issuer."""
OWN_CLAIM_PREFIX: Final = "unsecuredLoginStringClaim_"
OWN_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
DEFAULT_LIFETIME_S: Final = 3_600
UNSECURED_PREFIX: Final = "unsecuredValidator"
UNSECURED_OPTIONS: Final = tuple(
    f"{UNSECURED_PREFIX}{each}"
    for each in ("PrincipalClaimName", "ScopeClaimName", "RequiredScope", "AllowableClockSkewMs")
)
SCHEMES: Final = ("https", "http", "file")

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, kw_only=True)
class OAuthKeys:
    """Tokens of OAUTHBEARER, and the keys that sign them."""

    sasl_oauthbearer_jwks_endpoint_url: str = string(
        "",
        "Location of the key set (JWKS) of the issuer of tokens, as an address with https, http or "
        "file.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = long(
        3_600_000, "Time after which the key set is read again.", at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = long(
        100, "Time until the first new attempt to read the key set; it doubles.", at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = long(
        10_000, "Longest time between attempts to read the key set.", at_least(1)
    )
    sasl_oauthbearer_token_endpoint_url: str = string(
        "",
        "File with the token of this broker's logins at other brokers, as an address with file; it "
        "is read at each login.",
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = names(
        (),
        "Audiences of which a token must have one. Without any, tokens with an audience are "
        "refused.",
    )
    sasl_oauthbearer_expected_issuer: str = string(
        "", "Issuer that a token must have; empty: any with a signature by the key set."
    )
    sasl_oauthbearer_clock_skew_seconds: int = integer(
        30, "Tolerance for the clocks of the issuer and this broker.", at_least(0)
    )
    sasl_oauthbearer_scope_claim_name: str = string("scope", "Claim with the scopes of a token.")
    sasl_oauthbearer_sub_claim_name: str = string("sub", "Claim with the user of a token.")


OAUTH_KEYS: Final = declared_keys(OAuthKeys)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAddress:
    """Location of a key set, the times between reads, and the store of the trusted certificates."""

    url: str
    refresh_ms: int
    backoff_ms: int
    max_backoff_ms: int
    trust_type: str = TYPES[0]
    trust_location: str = ""
    trust_password: str = field(default="", repr=False)
    trust_text: str = field(default="", repr=False)

    @property
    def scheme(self) -> str:
        """The protocol, in small letters."""
        return urlsplit(self.url).scheme


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthLogin:
    """This broker's own tokens: from a file, or unsecured ones with `claims`."""

    path: str = ""
    claims: Mapping[str, str] = field(default_factory=dict)
    lifetime_s: int = DEFAULT_LIFETIME_S


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """The rules for tokens; without an `address` of keys, tokens have no signature.

    `login` is None if this broker cannot log in at others.
    """

    rules: ClaimRules
    address: KeyAddress | None
    login: OAuthLogin | None = None


def resolve_oauth(
    keys: OAuthKeys,
    module: LoginModule | None,
    prefix: str,
    *,
    handler: str = "",
    login_handler: str = "",
) -> OAuthConfig:
    """Return the configuration of OAUTHBEARER; `prefix` is that of its keys.

    Raises:
        ConfigError: it is neither for signed tokens nor for unsecured ones, or the own login is
            not served.
    """
    options = {} if module is None else module.options
    login = _login(keys, login_handler, options, prefix)
    if handler in SIGNED_HANDLERS:
        address = _address(keys, options)
        return OAuthConfig(rules=_signed_rules(keys), address=address, login=login)
    if handler:
        rule = f"must be {SIGNED_HANDLERS[0]}, or unset"
        raise ConfigError(prefix + HANDLER_KEY, handler, rule)
    asked = [name for name in options if name.startswith(UNSECURED_PREFIX)]
    if not asked:
        rule = (
            f"must be {SIGNED_HANDLERS[0]}; or one of the options {', '.join(UNSECURED_OPTIONS)} "
            "of the login module asks for tokens without a signature, which any client can make"
        )
        raise ConfigError(prefix + HANDLER_KEY, None, rule)
    if keys.sasl_oauthbearer_jwks_endpoint_url:
        rule = "excludes tokens without a signature, which the login module asks for"
        raise ConfigError(URL_KEY, None, rule)
    return OAuthConfig(rules=_unsecured_rules(options, prefix), address=None, login=login)


def _login(
    keys: OAuthKeys, handler: str, options: Mapping[str, str], prefix: str
) -> OAuthLogin | None:
    if handler in TOKEN_HANDLERS:
        url = keys.sasl_oauthbearer_token_endpoint_url.strip()
        if not url.startswith("file:/"):
            rule = "must be the address of a file with a token, the only kind that is served"
            raise ConfigError(TOKEN_URL_KEY, None, rule)
        return OAuthLogin(path=unquote(urlsplit(url).path))
    if handler:
        rule = f"must be {TOKEN_HANDLERS[0]}, or unset"
        raise ConfigError(prefix + LOGIN_HANDLER_KEY, handler, rule)
    claims = {
        name.removeprefix(OWN_CLAIM_PREFIX): value
        for name, value in options.items()
        if name.startswith(OWN_CLAIM_PREFIX)
    }
    if not claims:
        return None
    lifetime = options.get(OWN_LIFETIME, str(DEFAULT_LIFETIME_S)).strip()
    if not _is_number(lifetime):
        rule = f"{OWN_LIFETIME} must be a number"
        raise ConfigError(f"{prefix}sasl.jaas.config", None, rule)
    return OAuthLogin(claims=claims, lifetime_s=int(lifetime))


def _signed_rules(keys: OAuthKeys) -> ClaimRules:
    return ClaimRules(
        user_claim=keys.sasl_oauthbearer_sub_claim_name,
        scope_claim=keys.sasl_oauthbearer_scope_claim_name,
        issuer=keys.sasl_oauthbearer_expected_issuer,
        audiences=frozenset(keys.sasl_oauthbearer_expected_audience),
        clock_skew_ms=keys.sasl_oauthbearer_clock_skew_seconds * 1000,
    )


def _address(keys: OAuthKeys, options: Mapping[str, str]) -> KeyAddress:
    url = keys.sasl_oauthbearer_jwks_endpoint_url.strip()
    try:
        parts = urlsplit(url)
        has_place = bool(parts.path) if parts.scheme == "file" else bool(parts.hostname)
    except ValueError:
        has_place = False
    if not has_place or parts.scheme not in SCHEMES or parts.username is not None:
        rule = f"must be an address with one of {', '.join(SCHEMES)}, without a password"
        raise ConfigError(URL_KEY, None, rule)
    return KeyAddress(
        url=url,
        refresh_ms=keys.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        backoff_ms=keys.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        max_backoff_ms=keys.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
        trust_type=options.get("ssl.truststore.type", TYPES[0]),
        trust_location=options.get("ssl.truststore.location", ""),
        trust_password=options.get("ssl.truststore.password", ""),
        trust_text=options.get("ssl.truststore.certificates", ""),
    )


def _unsecured_rules(options: Mapping[str, str], prefix: str) -> ClaimRules:
    user, scope, required, skew = (options.get(name, "").strip() for name in UNSECURED_OPTIONS)
    if not all(_SCOPE.fullmatch(each) for each in required.split()):
        raise ConfigError(f"{prefix}sasl.jaas.config", None, f"{UNSECURED_OPTIONS[2]} is malformed")
    if skew and not _is_number(skew):
        raise ConfigError(
            f"{prefix}sasl.jaas.config", None, f"{UNSECURED_OPTIONS[3]} must be a number"
        )
    return ClaimRules(
        user_claim=user or "sub",
        scope_claim=scope or "scope",
        required_scopes=tuple(required.split()),
        clock_skew_ms=int(skew or 0),
        ignores_audience=True,
        needs_issue_time=False,
    )


def _is_number(text: str) -> bool:
    # Longer numbers are out of range, and expensive to parse.
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= INT_MAX
