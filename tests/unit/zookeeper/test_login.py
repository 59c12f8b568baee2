"""The file with the login of clients on znodes: `ottla.zookeeper.login`."""

from pathlib import Path

import pytest

from coordination.client import Login
from ottla.cli.up.coordinator_login import USER, write_login
from ottla.client.errors import ConfigurationError
from ottla.zookeeper.login import load_login

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


def test_the_file_of_a_cluster_has_the_login(tmp_path: Path) -> None:
    found = load_login(write_login(tmp_path, "a-s3cret"))
    assert found == Login(user=USER, password="a-s3cret")
    assert load_login(None) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff", "is not UTF-8"),
        (b"Client {", "must"),
        (f'Server {{ {MODULE} required user_a="s3cret"; }};'.encode(), "have a section Client"),
        (f'Client {{ {MODULE} required username="a"; }};'.encode(), "username and password"),
        (b'Client { another.Module required password="s3cret"; };', "have a section Client"),
    ],
)
def test_a_file_without_a_login_is_refused(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "login.conf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=reason) as refused:
        load_login(file)
    assert "s3cret" not in str(refused.value)
