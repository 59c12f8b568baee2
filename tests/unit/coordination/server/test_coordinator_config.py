"""Configuration of the coordinator, and its command line."""

import pytest

from coordination.__main__ import config_from, parser
from coordination.server.coordinator_config import Address, CoordinatorConfig, PasswordKind


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:2181", Address("127.0.0.1", 2181)),
        ("[::1]:0", Address("::1", 0)),
        (":2181", Address("", 2181)),
    ],
)
def test_an_address_is_parsed(text: str, address: Address) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:70000", "a:b:1"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tick=0"], "tick_ms must be positive, got 0"),
        (["--min-session-timeout=9", "--max-session-timeout=8"], "within 1..max"),
        (["--server-id=0"], "server_id must be within 1..127"),
        (["--super-digest=nobody"], "super_digest must be"),
        (["--tls-listen=127.0.0.1:0"], "needs --tls-cert"),
        (["--max-connections-per-address=-1"], "must be positive, or 0 for no limit, got -1"),
    ],
)
def test_the_error_names_an_invalid_option(options: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config_from(parser().parse_args(options))


def test_options_become_configuration() -> None:
    config = config_from(
        parser().parse_args(["--tick=50", "--passwords=zookeeper", "--wal-fsync=off"])
    )
    assert config == CoordinatorConfig(
        tick_ms=50,
        min_session_timeout_ms=100,
        passwords=PasswordKind.ZOOKEEPER,
        does_sync=False,
    )


def test_only_configured_commands_are_enabled() -> None:
    def answered(*options: str) -> list[bool]:
        config = config_from(parser().parse_args(options))
        return [config.allows_command(word) for word in ("ruok", "srvr", "mntr", "dump")]

    assert answered() == [True, True, False, False]
    assert answered("--four-letter-words=mntr, ruok") == [True, False, True, False]
    assert answered("--four-letter-words=*") == [True] * 4
    assert answered("--four-letter-words=") == [False] * 4
