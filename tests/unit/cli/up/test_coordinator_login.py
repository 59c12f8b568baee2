"""The file with the coordinator's password: `ottla.cli.up.coordinator_login`."""

import os
import stat
from pathlib import Path

from ottla.cli.up.coordinator_login import FILE, USER, kept_password, write_login
from trust.jaas import parse_login_file


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = write_login(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_both_sides_have_the_same_password(tmp_path: Path) -> None:
    sections = parse_login_file(write_login(tmp_path).read_text())
    [server], [client] = sections["Server"], sections["Client"]
    assert client.login == (USER, server.passwords[USER])


def test_each_start_has_a_new_password_in_a_new_file(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("old")
    (tmp_path / FILE).chmod(0o666)
    (tmp_path / f"{FILE}.tmp").write_text("of a start that was killed")
    (tmp_path / f"{FILE}.tmp").chmod(0o666)
    first = write_login(tmp_path).read_text()
    second = write_login(tmp_path)
    assert second.read_text() != first
    assert stat.S_IMODE(second.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [FILE]


def test_password_can_be_kept_for_the_next_start(tmp_path: Path) -> None:
    assert kept_password(tmp_path) is None
    text = write_login(tmp_path).read_text()
    password = kept_password(tmp_path)
    assert password is not None
    assert write_login(tmp_path, password).read_text() == text


def test_password_of_a_damaged_file_is_not_kept(tmp_path: Path) -> None:
    for damaged in ("", "Client {", "Server { x.Module required; };", "\xff"):
        (tmp_path / "coordinator-login.conf").write_text(damaged, encoding="latin-1")
        assert kept_password(tmp_path) is None
