"""The configuration of OAUTHBEARER: `broker.config.oauth_bearer`."""

import pytest

from broker.config.broker_config import BrokerConfig, unknown_keys
from broker.config.oauth_bearer import (
    HANDLER_KEY,
    LOGIN_HANDLER_KEY,
    SIGNED_HANDLERS,
    TOKEN_HANDLERS,
    TOKEN_URL_KEY,
    UNSECURED_OPTIONS,
    URL_KEY,
    KeyAddress,
    OAuthConfig,
    OAuthLogin,
)
from broker.errors import ConfigError
from broker.security.oauth.token_claims import ClaimRules
from trust.jaas import OAUTH_MODULE

PREFIX = "listener.name.outer.oauthbearer."
JAAS = f"{PREFIX}sasl.jaas.config"
PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:1,OUTER://127.0.0.1:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTER:SASL_PLAINTEXT",
    "listener.name.outer.sasl.enabled.mechanisms": "OAUTHBEARER",
}
SIGNED = {
    PREFIX + HANDLER_KEY: SIGNED_HANDLERS[0],
    URL_KEY: "https://issuer.example/keys",
    "sasl.oauthbearer.expected.audience": "kafka, logs",
}


def module(**options: str) -> str:
    text = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"{OAUTH_MODULE} required {text};"


def oauth(changes: dict[str, str]) -> OAuthConfig:
    config = BrokerConfig.from_properties({**PROPERTIES, **changes})
    found = config.listener_security["OUTER"].mechanisms["OAUTHBEARER"].oauth
    assert found is not None
    return found


def test_tokens_are_signed_if_kafkas_handler_is_named() -> None:
    assert oauth(SIGNED) == OAuthConfig(
        rules=ClaimRules(audiences={"kafka", "logs"}, clock_skew_ms=30_000),
        address=KeyAddress(
            url="https://issuer.example/keys",
            refresh_ms=3_600_000,
            backoff_ms=100,
            max_backoff_ms=10_000,
        ),
    )


def test_keys_may_have_the_prefix_of_the_listener_and_of_the_mechanism() -> None:
    found = oauth(
        {
            **SIGNED,
            PREFIX + HANDLER_KEY: SIGNED_HANDLERS[1],
            "listener.name.outer.sasl.oauthbearer.expected.audience": "logs",
            "listener.name.outer.sasl.oauthbearer.expected.issuer": "you",
            f"{PREFIX}sasl.oauthbearer.expected.issuer": "me",
            f"{PREFIX}sasl.oauthbearer.sub.claim.name": "login",
            f"{PREFIX}sasl.oauthbearer.scope.claim.name": "scp",
            "sasl.oauthbearer.clock.skew.seconds": "5",
            f"{PREFIX}{URL_KEY}": "file:///keys",
            JAAS: f"{OAUTH_MODULE} required ssl.truststore.location=trust.pem;",
        }
    )
    assert found.rules == ClaimRules(
        user_claim="login", scope_claim="scp", issuer="me", audiences={"logs"}, clock_skew_ms=5_000
    )
    assert found.address is not None
    assert (found.address.scheme, found.address.trust_location) == ("file", "trust.pem")


def test_options_of_the_login_module_ask_for_unsecured_tokens() -> None:
    plain = oauth({JAAS: module(unsecuredValidatorPrincipalClaimName="")})
    assert plain == OAuthConfig(
        rules=ClaimRules(ignores_audience=True, needs_issue_time=False), address=None
    )
    options = dict(zip(UNSECURED_OPTIONS, ("login", "scp", "a b", "3000"), strict=True))
    assert oauth({JAAS: module(**options)}).rules == ClaimRules(
        user_claim="login",
        scope_claim="scp",
        required_scopes=("a", "b"),
        clock_skew_ms=3_000,
        ignores_audience=True,
        needs_issue_time=False,
    )


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({}, "any client can make"),
        ({JAAS: module()}, "any client can make"),
        ({JAAS: module(unsecuredLoginStringClaim_sub="me")}, "any client can make"),
        ({URL_KEY: "https://issuer.example/keys"}, "any client can make"),
        ({PREFIX + HANDLER_KEY: "org.example.Handler"}, "or unset"),
        ({PREFIX + HANDLER_KEY: SIGNED_HANDLERS[0]}, "must be an address"),
        ({**SIGNED, URL_KEY: "ftp://issuer.example/keys"}, "must be an address"),
        ({**SIGNED, URL_KEY: "https:///keys"}, "must be an address"),
        ({**SIGNED, URL_KEY: "https://[keys"}, "must be an address"),
        ({**SIGNED, URL_KEY: "file:"}, "must be an address"),
        ({**SIGNED, URL_KEY: "https://me:s3cret@issuer.example/keys"}, "without a password"),
        (
            {**SIGNED, PREFIX + HANDLER_KEY: "", JAAS: module(unsecuredValidatorRequiredScope="")},
            "excludes tokens without a signature",
        ),
        ({JAAS: module(unsecuredValidatorRequiredScope="a \u00e9")}, "is malformed"),
        ({JAAS: module(unsecuredValidatorAllowableClockSkewMs="-1")}, "must be a number"),
        ({JAAS: module(unsecuredValidatorAllowableClockSkewMs="9" * 10)}, "must be a number"),
        ({**SIGNED, "sasl.oauthbearer.clock.skew.seconds": "-1"}, "must be >= 0"),
        ({**SIGNED, JAAS: "org.example.Module required;"}, "must configure"),
        ({**SIGNED, PREFIX + LOGIN_HANDLER_KEY: "org.example.Handler"}, "or unset"),
        ({**SIGNED, PREFIX + LOGIN_HANDLER_KEY: TOKEN_HANDLERS[0]}, "the address of a file"),
        (
            {
                **SIGNED,
                PREFIX + LOGIN_HANDLER_KEY: TOKEN_HANDLERS[1],
                TOKEN_URL_KEY: "https://issuer.example/token",
            },
            "the only kind that is served",
        ),
        (
            {
                **SIGNED,
                JAAS: module(unsecuredLoginStringClaim_sub="a", unsecuredLoginLifetimeSeconds="x"),
            },
            "must be a number",
        ),
    ],
)
def test_a_configuration_that_cannot_be_honoured_is_refused(
    changes: dict[str, str], rule: str
) -> None:
    with pytest.raises(ConfigError, match=rule) as caught:
        oauth(changes)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "login"),
    [
        (SIGNED, None),
        (
            {
                **SIGNED,
                PREFIX + LOGIN_HANDLER_KEY: TOKEN_HANDLERS[0],
                TOKEN_URL_KEY: "file:///etc/own%20token",
            },
            OAuthLogin(path="/etc/own token"),
        ),
        (
            {**SIGNED, JAAS: module(unsecuredLoginStringClaim_sub="me")},
            OAuthLogin(claims={"sub": "me"}),
        ),
        (
            {
                JAAS: module(
                    unsecuredValidatorRequiredScope="",
                    unsecuredLoginStringClaim_sub="me",
                    unsecuredLoginStringClaim_scope="a",
                    unsecuredLoginLifetimeSeconds="60",
                )
            },
            OAuthLogin(claims={"sub": "me", "scope": "a"}, lifetime_s=60),
        ),
    ],
)
def test_brokers_log_in_by_a_file_or_by_unsecured_tokens(
    changes: dict[str, str], login: OAuthLogin | None
) -> None:
    assert oauth(changes).login == login


def test_the_listener_of_brokers_needs_a_login() -> None:
    changes = {
        **SIGNED,
        "inter.broker.listener.name": "OUTER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    }
    with pytest.raises(ConfigError, match="unsecuredLoginStringClaim_sub"):
        oauth(changes)
    assert oauth({**changes, JAAS: module(unsecuredLoginStringClaim_sub="me")}).login is not None


def test_keys_with_prefixes_are_known() -> None:
    assert unknown_keys({**PROPERTIES, **SIGNED}) == []
    handler = f"listener.name.outer.plain.{HANDLER_KEY}"
    assert unknown_keys({handler: SIGNED_HANDLERS[0]}) == [handler]
