"""Configuration of the coordinator, and its command line."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordination.__main__ import config_from, parser
from coordination.server.coordinator_config import (
    Address,
    ClientAuth,
    CoordinatorConfig,
    PasswordKind,
)

TLS = ("--tls-listen=:0", "--tls-cert=c", "--tls-key=k")


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
        ([*TLS, "--tls-client-auth=need"], "need a file"),
        ([*TLS, "--tls-ca=a", "--tls-client-auth=none"], "need a file"),
        (["--enforce-auth-schemes=sasl,ip"], "must be among digest, sasl, x509"),
        (["--enforce-auth-schemes=sasl"], "there are no users"),
        (["--super-digest=a:b", "--super-digest-file=x"], "exclude each other"),
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


def login_file(directory: Path, text: str) -> Path:
    path = directory / "login.conf"
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def config_with(path: Path, *more: str) -> CoordinatorConfig:
    return config_from(parser().parse_args([f"--login-config={path}", *more]))


DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"


def test_the_login_config_has_the_users_of_sasl(tmp_path: Path) -> None:
    path = login_file(tmp_path, f'Client {{ }}; Server {{ {DIGEST} user_bob="s3cret"; }};')
    with capture_logs() as logs:
        config = config_with(path, "--super-user=bob", "--super-user=eve")
    assert config.users == {"bob": "s3cret"}
    assert config.super_users == {"bob", "eve"}
    assert "s3cret" not in repr(config)
    assert logs == []
    path.chmod(0o644)
    with capture_logs() as logs:
        config_with(path)
    assert [each["event"] for each in logs] == ["login_config.readable_by_others"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have a section Server"),
        ("Server { };", "must have a section Server"),
        (f"Server {{ {DIGEST}; }};", "must have a section Server"),
        ('Server { com.sun.Krb5 required user_bob="s3cret"; };', "must have a section Server"),
        (f'Server {{ {DIGEST} user_bob="secret }};', "not allowed at position"),
        (f'Server {{ {DIGEST} "user_bob@X"="s3cret"; }};', "must not be empty or contain"),
        (f'Server {{ {DIGEST} user_="s3cret"; }};', "must not be empty or contain"),
    ],
)
def test_a_wrong_login_config_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        config_with(login_file(tmp_path, text))
    assert "s3cret" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent: No such file"):
        config_with(tmp_path / "absent")
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="is not UTF-8"):
        config_with(tmp_path / "bytes")


def test_the_super_digest_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "digest").write_text("super:abc=\n")
    config = config_from(parser().parse_args([f"--super-digest-file={tmp_path / 'digest'}"]))
    assert config.super_digest == "super:abc="
    assert "abc" not in repr(config)


def test_certificates_of_clients_are_required_if_there_is_an_authority() -> None:
    def client_auth(*options: str) -> ClientAuth:
        config = config_from(parser().parse_args([*TLS, *options]))
        assert config.tls is not None
        return config.tls.client_auth

    assert client_auth() is ClientAuth.NONE
    assert client_auth("--tls-ca=a") is ClientAuth.NEED
    assert client_auth("--tls-ca=a", "--tls-client-auth=want") is ClientAuth.WANT
