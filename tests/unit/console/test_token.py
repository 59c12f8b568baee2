"""Tokens, cookies and the secret of forms."""

import pytest

from ottla.console.access.token import Access, cookie_name

TOKEN = "a-token-of-a-test"


def test_without_a_token_every_browser_may_enter() -> None:
    access = Access(None, "secret")
    assert access.may_enter("")
    assert not access.is_token("")


def test_cookie_proves_the_token_and_does_not_contain_it() -> None:
    access = Access(TOKEN, "secret")
    assert access.is_token(TOKEN)
    assert not access.is_token(TOKEN + "x")
    assert access.may_enter(access.cookie)
    assert not access.may_enter(TOKEN)
    assert not access.may_enter("\ud800")
    assert TOKEN not in access.cookie


def test_cookie_ends_with_the_run_of_the_console() -> None:
    assert not Access(TOKEN, "another").may_enter(Access(TOKEN, "secret").cookie)


def test_consoles_on_ports_of_one_host_have_cookies_of_their_own() -> None:
    hosts = ["localhost:9021", "localhost:9022", "[::1]:9021", "[::1]", "console.example", "a:b"]
    assert [cookie_name(host) for host in hosts] == [
        "ottla_console_9021",
        "ottla_console_9022",
        "ottla_console_9021",
        "ottla_console",
        "ottla_console",
        "ottla_console",
    ]


def test_form_needs_the_secret() -> None:
    access = Access(None, "secret")
    assert access.is_form_secret("secret")
    assert not access.is_form_secret("")


def test_short_token_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 characters, got 5"):
        Access("short", "secret")
