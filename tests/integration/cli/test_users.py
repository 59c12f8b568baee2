"""`ottla users` against a real broker with a listener for SCRAM."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.cli.conftest import RunOttla
from tests.ports import free_port
from trust.jaas import SCRAM_MODULE

SECRET = "correct s3cret horse, battery=staple"
PASSWORD = {"OTTLA_USER_PASSWORD": SECRET}
HEAD = ["user", "mechanism", "iterations"]


class At(NamedTuple):
    """A broker: the options for its open listener, and the address of the one with SCRAM."""

    open: tuple[str, str]
    scram: str


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[At]:
    ports = free_port(), free_port()
    overrides = {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},SASL_PLAINTEXT://127.0.0.1:{ports[1]}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    }
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), overrides)
    try:
        broker.wait_for_event(READY_EVENT)
        yield At(("--bootstrap", f"127.0.0.1:{ports[0]}"), f"127.0.0.1:{ports[1]}")
    finally:
        broker.stop()
    assert SECRET not in "".join(broker.output)


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def logs_in(run_ottla: RunOttla, folder: Path, at: At, user: str, mechanism: str) -> bool:
    """Whether `user` can log in with `SECRET`."""
    file = folder / "client.properties"
    file.write_text(
        f"""
        security.protocol=SASL_PLAINTEXT
        sasl.mechanism={mechanism}
        sasl.jaas.config={SCRAM_MODULE} required username="{user}" password="{SECRET}";
        """
    )
    done = run_ottla("topics", "list", "--bootstrap", at.scram, "--command-config", file)
    assert done.returncode == 0 or "credentials" in done.stderr, done
    assert SECRET not in done.stderr
    return done.returncode == 0


def test_users_are_created_described_altered_and_deleted(
    run_ottla: RunOttla, at: At, tmp_path: Path
) -> None:
    assert run_ottla("users", "list", *at.open).stdout == "no users\n"
    assert not logs_in(run_ottla, tmp_path, at, "alice", "SCRAM-SHA-512")
    assert run_ottla("users", "create", "alice", *at.open, env=PASSWORD).stdout == "created alice\n"
    assert logs_in(run_ottla, tmp_path, at, "alice", "SCRAM-SHA-512")
    assert not logs_in(run_ottla, tmp_path, at, "alice", "SCRAM-SHA-256")
    again = run_ottla("users", "create", "alice", *at.open, env=PASSWORD)
    assert (again.returncode, "user alice exists" in again.stderr) == (1, True)
    # A comma and an equals sign have escapes in the messages of SCRAM, and a blank in znodes.
    name, file = "b,o=b 2", tmp_path / "password"
    file.write_text(f"{SECRET}\r\nnot this line\n")
    both = ("--mechanism", "scram-sha-256", "--mechanism", "SCRAM-SHA-512", "--iterations", "4096")
    run_ottla("users", "create", name, *both, "--password-file", file, *at.open)
    assert logs_in(run_ottla, tmp_path, at, name, "SCRAM-SHA-256")
    assert logs_in(run_ottla, tmp_path, at, name, "SCRAM-SHA-512")
    listed = json.loads(run_ottla("users", "list", "--json", *at.open).stdout)
    assert listed == [
        {"user": "alice", "credentials": [{"mechanism": "SCRAM-SHA-512", "iterations": 8192}]},
        {
            "user": name,
            "credentials": [
                {"mechanism": "SCRAM-SHA-256", "iterations": 4096},
                {"mechanism": "SCRAM-SHA-512", "iterations": 4096},
            ],
        },
    ]
    altered = run_ottla(
        "users", "alter", name, "--password-file", "-", *at.open, stdin="another one\n"
    )
    assert altered.stdout == f"altered {name}\n"
    assert not logs_in(run_ottla, tmp_path, at, name, "SCRAM-SHA-256")
    assert not logs_in(run_ottla, tmp_path, at, name, "SCRAM-SHA-512")
    described = run_ottla("users", "describe", "alice", *at.open)
    assert rows(described.stdout) == [HEAD, ["alice", "SCRAM-SHA-512", "8192"]]
    one = ("--mechanism", "SCRAM-SHA-256")
    deleted = run_ottla("users", "delete", name, *one, "--json", *at.open)
    assert json.loads(deleted.stdout) == {"deleted": [name]}
    run_ottla("users", "delete", name, *at.open)
    run_ottla("users", "delete", "alice", *at.open)
    assert not logs_in(run_ottla, tmp_path, at, "alice", "SCRAM-SHA-512")
    assert run_ottla("users", "list", "--json", *at.open).stdout == "[]\n"


def test_users_that_do_not_exist_are_named(run_ottla: RunOttla, at: At) -> None:
    for arguments in (("describe", "nobody"), ("alter", "nobody"), ("delete", "nobody")):
        refused = run_ottla("users", *arguments, *at.open, env=PASSWORD)
        assert (refused.returncode, "nobody" in refused.stderr) == (1, True), refused


def test_unusable_passwords_and_numbers_are_refused(
    run_ottla: RunOttla, at: At, tmp_path: Path
) -> None:
    latin, empty, long = tmp_path / "latin", tmp_path / "empty", tmp_path / "long"
    latin.write_bytes(b"caf\xe9\n")
    empty.write_bytes(b"\n")
    long.write_bytes(b"x" * 5_000)
    for arguments, code, reason in (
        ((), 2, "the password is missing"),
        (("--password-file", str(latin)), 2, "not text in UTF-8"),
        (("--password-file", str(empty)), 2, "must not be empty"),
        (("--password-file", str(long)), 2, "more than 4,096"),
        (("--password-file", str(tmp_path / "absent")), 1, "No such file"),
    ):
        refused = run_ottla("users", "create", "eve", *arguments, *at.open)
        assert (refused.returncode, reason in refused.stderr) == (code, True), refused
    for iterations, code in (("4095", 1), ("16385", 1), ("0", 2), ("1000001", 2)):
        few = run_ottla(
            "users", "create", "eve", "--iterations", iterations, *at.open, env=PASSWORD
        )
        assert (few.returncode, "iterations" in few.stderr) == (code, True), few
        assert SECRET not in few.stderr
    assert run_ottla("users", "list", *at.open).stdout == "no users\n"


def test_password_is_typed_twice_at_a_terminal(run_ottla: RunOttla, at: At, tmp_path: Path) -> None:
    for second, created in (("another", False), (SECRET, True)):
        output = at_terminal(["users", "create", "typed", *at.open], [SECRET, second])
        assert ("created typed" in output, "differ" in output) == (created, not created), output
        # A prompt does not echo.
        assert SECRET not in output
    assert logs_in(run_ottla, tmp_path, at, "typed", "SCRAM-SHA-512")
    run_ottla("users", "delete", "typed", *at.open)


def at_terminal(arguments: list[str], answers: list[str]) -> str:
    """Run `ottla` at a terminal of its own, and answer its prompts; return its output."""
    controlling, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        # Otherwise the prompts would go to the terminal of the tests, if there is one.
        start_new_session=True,
    )
    os.close(terminal)
    shown, left = b"", list(answers)
    while data := read_or_nothing(controlling):
        shown += data
        if left and shown.count(b": ") > len(answers) - len(left):
            os.write(controlling, left.pop(0).encode() + b"\n")
    os.close(controlling)
    process.wait()
    return shown.decode()


def read_or_nothing(terminal: int) -> bytes:
    """Return the next output, or nothing once the process has ended."""
    try:
        return os.read(terminal, 1_024)
    except OSError:
        # So Linux reports that the other side is closed.
        return b""
