"""Passwords of commands: `ottla.cli.password`."""

import sys
from pathlib import Path

import pytest

from ottla.cli.failure import EXIT_USAGE, CommandError
from ottla.cli.password import STANDARD_INPUT, VARIABLE, read_password


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
    monkeypatch.delenv(VARIABLE, raising=False)
    # Python has no stream for a descriptor that the parent closed (`<&-`).
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CommandError, match=reason) as refused:
        read_password(file, "eve")
    assert refused.value.exit_code == EXIT_USAGE
