"""Principals and their texts: `broker.security.principal`."""

import pytest

from broker.security.principal import ANONYMOUS, Principal, parse_principal


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:ANONYMOUS", ANONYMOUS),
        ("User:CN=b,O=c:d", Principal("User", "CN=b,O=c:d")),
        ("Group: x ", Principal("Group", " x ")),
        ("User:", Principal("User", "")),
    ],
)
def test_text_and_principal_convert_into_each_other(text: str, principal: Principal) -> None:
    assert parse_principal(text) == principal
    assert str(principal) == text


def test_letter_case_distinguishes_principals() -> None:
    assert parse_principal("user:a") != parse_principal("User:a") != parse_principal("User:A")


@pytest.mark.parametrize("text", ["", "alice", ":alice"])
def test_text_without_kind_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"User:name, but this is '{text}'"):
        parse_principal(text)
