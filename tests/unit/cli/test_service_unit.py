"""Unit files of systemd."""

import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.config.log_keys import LogKeys
from ottla.cli.app import make_app
from ottla.cli.service_unit import broker_unit, coordinator_unit, quoted


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("/etc/ottla/server.properties", "/etc/ottla/server.properties"),
        ("/with space/file", '"/with space/file"'),
        ('/"quoted"\\', '"/\\"quoted\\"\\\\"'),
        ("/100%/$HOME", "/100%%/$$HOME"),
        ("", '""'),
        ("a;b", '"a;b"'),
    ],
)
def test_words_of_a_command_are_quoted_as_systemd_reads_them(word: str, expected: str) -> None:
    assert quoted(word) == expected


@pytest.mark.parametrize(("path", "user"), [("/a\nUser=root", "ottla"), ("/a", "root\nX=y")])
def test_text_that_would_add_a_line_is_refused(path: str, user: str) -> None:
    with pytest.raises(ValueError, match=r"control character|not the name of a user"):
        broker_unit("/usr/bin/python3", path, user, after_coordinator=False)


def test_a_broker_can_wait_for_the_coordinator_of_its_machine() -> None:
    lone = broker_unit("/usr/bin/python3", "/a", "ottla", after_coordinator=False)
    other = broker_unit("/usr/bin/python3", "/a", "ottla", after_coordinator=True)
    assert "ottla-coordinator.service" not in lone.text
    assert "After=network-online.target ottla-coordinator.service\n" in other.text


def test_a_restart_keeps_log_directories_below_tmp() -> None:
    unit = broker_unit("/usr/bin/python3", "/a", "ottla", after_coordinator=False)
    assert LogKeys().log_directories[0].startswith("/tmp/")
    keys = [line.partition("=")[0] for line in unit.text.splitlines()]
    assert ("PrivateTmp" in keys, "ProtectSystem" in keys) == (False, True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    python = "/usr/bin/python3"
    for unit in (
        broker_unit(python, "/with space/100%.properties", "root", after_coordinator=True),
        coordinator_unit(python, "127.0.0.1:2181", "/var/lib/ottla", "root"),
    ):
        path = tmp_path / unit.name
        path.write_text(unit.text)
        done = subprocess.run(
            ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
        )
        ours = [line for line in done.stderr.splitlines() if unit.name in line]
        assert (done.returncode, ours) == (0, [])


def test_the_command_prints_or_writes_the_unit(tmp_path: Path) -> None:
    run, words = CliRunner(), ["service", "broker", "/etc/o.properties"]
    printed = run.invoke(make_app(), words)
    assert (printed.exit_code, "ExecStart=" in printed.output) == (0, True)
    install = [*words, "--install", "--directory", str(tmp_path)]
    assert "systemctl enable --now" in run.invoke(make_app(), install).output
    path = tmp_path / "ottla-broker.service"
    assert path.read_text() == printed.output
    for other in (b"other", b"\xff"):
        path.write_bytes(other)
        refused = run.invoke(make_app(), install)
        assert (refused.exit_code, "exists and differs" in refused.output) == (1, True)
        assert path.read_bytes() == other
    assert run.invoke(make_app(), [*install, "--force"]).exit_code == 0
    assert path.read_text() == printed.output


def test_a_bad_user_is_a_usage_error() -> None:
    done = CliRunner().invoke(make_app(), ["service", "coordinator", "--user", "no name"])
    assert done.exit_code == 2
    assert "'no name' is not the name of a user" in done.output
