"""`ottla console`: its refusals, each in one sentence."""

import socket
from pathlib import Path

import pytest

from tests.integration.cli.conftest import RunOttla

TOKEN = "token-of-the-console"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--listen", "nowhere"], "is not of the form IP:PORT"),
        (["--listen", "127.0.0.1:99999"], "a port is at most 65535"),
        (["--listen", "0.0.0.0:0"], "add --expose, and set a token in OTTLA_CONSOLE_TOKEN"),
        (["--listen", "0.0.0.0:0", "--expose"], "add --expose, and set a token"),
        (["--listen", "0.0.0.0:0", "--token", TOKEN], "add --expose, and set a token"),
        (["--token", "short"], "--token needs at least 16 characters, got 5"),
        (["--log-dir", "/absent"], "--log-dir: /absent is not a directory"),
        (["--reports", "/absent"], "--reports: /absent is not a directory"),
        (["--bootstrap", "host:port"], "port"),
    ],
)
def test_wrong_options_are_refused(run_ottla: RunOttla, arguments: list[str], text: str) -> None:
    ended = run_ottla("console", *arguments)
    assert (ended.returncode, text in ended.stderr) == (2, True), ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_taken_port_is_named(run_ottla: RunOttla) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run_ottla("console", "--listen", f"127.0.0.1:{port}")
    assert ended.returncode == 1
    assert ended.stderr == f"ottla: 127.0.0.1:{port} cannot be used: Address already in use.\n"


def test_missing_extra_is_named(
    run_ottla: RunOttla, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ottla.cli.console_extra.PACKAGES", ("jinja2", "absent_framework"))
    ended = run_ottla("console", "--reports", tmp_path)
    assert ended.returncode == 1
    assert "absent_framework: install it with `pip install 'ottla[console]'`" in ended.stderr
