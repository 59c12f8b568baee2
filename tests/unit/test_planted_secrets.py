"""The search of the test run finds a planted secret in each place where it looks."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.messages.describe_configs import DescribeConfigsResourceResult
from tests import planted_secrets

SECRET = "s3" + "cret"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own for the findings, so that the run does not fail."""
    monkeypatch.setenv(planted_secrets.FOLDER, str(tmp_path))


def refuse() -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as cause:
        raise ValueError("refused") from cause


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("program", "place"),
    [
        ("print('s3' + 'cret')", "<stdout> of"),
        ("print('s3', end=''); print('cret')", "<stdout> of"),
        ("import sys; sys.stderr.write('a s3' + 'cret of b')", "<stderr> of"),
        ("import subprocess; subprocess.run(['true', 's3' + 'cret'])", "arguments of"),
        ("import os; os.execv('/bin/true', ['true', 's3' + 'cret'])", "arguments of"),
    ],
    ids=["output", "two writes", "errors", "a child", "another program"],
)
def test_secrets_of_a_process_are_found(program: str, place: str) -> None:
    run(program)
    (found,) = planted_secrets.findings()
    assert found.startswith(place)
    assert planted_secrets.watched_count() == 1


def test_an_error_of_a_process_is_searched() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run("raise ValueError('s3' + 'cret')")
    assert len(planted_secrets.findings()) == 1


def test_output_and_arguments_without_secrets_are_not_reported() -> None:
    run("print('s3', 'cret'); import subprocess; subprocess.run(['true', 'secret'])")
    assert planted_secrets.findings() == []


def test_programs_of_others_may_take_passwords_as_arguments() -> None:
    run("import os; os.execv('/bin/true', ['openssl', 's3' + 'cret'])")
    assert planted_secrets.findings() == []


def test_an_expected_error_and_its_cause_are_searched() -> None:
    with pytest.raises(ValueError, match="refused"):
        refuse()
    (found,) = planted_secrets.findings()
    assert found.startswith("error of")


def test_errors_that_cause_each_other_are_searched_once() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    with pytest.raises(ValueError, match="first"):
        raise first
    assert planted_secrets.findings() == []


def test_answers_to_describe_configs_are_searched() -> None:
    DescribeConfigsResourceResult(name="ssl.key.password", value=SECRET)
    (found,) = planted_secrets.findings()
    assert found.startswith("DescribeConfigs of")
