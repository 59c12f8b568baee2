"""Passwords of commands: `ottla.cli.password`."""

import getpass
import io
import sys
from pathlib import Path

import pytest

from ottla.cli.failure import EXIT_USAGE, CommandError
from ottla.cli.password import STANDARD_INPUT, VARIABLE, read_password


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        pytest.param(None, "the password is missing", id="no file"),
        pytest.param(STANDARD_INPUT, "standard input is closed", id="standard input"),
    ],
)
def test_closed_standard_input_is_refused_with_a_sentence(
    file: Path | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Python has no stream for a descriptor that the parent closed (`<&-`).
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CommandError, match=reason) as refused:
        read_password(file, "eve")
    assert refused.value.exit_code == EXIT_USAGE


def test_typed_bytes_that_are_no_text_are_refused_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def typed(_prompt: str) -> str:
        return b"s3cret \xe9".decode("utf-8")

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", typed)
    with pytest.raises(CommandError, match="not text in the encoding") as refused:
        read_password(None, "eve")
    assert refused.value.exit_code == EXIT_USAGE
