"""The audit of dependencies: `scripts.audit`."""

import sys
from pathlib import Path

import pytest

from scripts import audit
from scripts.audit import compare_with_vulnerabilities, findings, pins_in

PINS = pins_in("# comment\nPyJWT==2.15.1\nruff==0.17.5  # linter\n\ntyping_extensions==4.16.0\n")


def test_packages_are_compared_by_their_canonical_names() -> None:
    assert PINS == {"pyjwt": "2.15.1", "ruff": "0.17.5", "typing-extensions": "4.16.0"}


def test_missing_pins_and_other_versions_are_found() -> None:
    installed = {"pyjwt": "2.15.1", "ruff": "0.1"}
    assert list(findings(["pyjwt", "ruff", "typing-extensions", "left-pad"], PINS, installed)) == [
        "left-pad is required, but not pinned in constraints.txt",
        "ruff 0.1 is installed, but 0.17.5 is pinned",
    ]


@pytest.mark.parametrize(
    ("output", "code", "expected", "shown"),
    [
        ("echo No known vulnerabilities found >&2", 0, 0, ""),
        ("echo Found 1 known vulnerability >&2", 1, 1, "Found 1"),
        ("echo no route to host >&2", 1, 0, "were not checked: no route to host"),
        ("echo x could not be audited", 0, 0, "the index knows nothing about 1 packages"),
    ],
)
def test_only_a_known_vulnerability_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    output: str,
    code: int,
    expected: int,
    shown: str,
) -> None:
    program = tmp_path / "pip-audit"
    program.write_text(f"#!/bin/sh\n{output}\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert compare_with_vulnerabilities() == expected
    assert shown in capsys.readouterr().out


def test_missing_program_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert compare_with_vulnerabilities() == 0
    assert "pip-audit is not installed" in capsys.readouterr().out


def test_requirements_of_the_project_include_indirect_ones() -> None:
    assert {"structlog", "typer", "click"} <= audit.requirements()
