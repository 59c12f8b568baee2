"""The `ottla` command itself: help, version, start-up time, and the daemons that it runs."""

import importlib.metadata
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ottla.cli.app import make_app
from tests.integration.cli.conftest import RunOttla

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 30
HELP_LIMIT_S = 0.3


def command_paths() -> list[tuple[str, ...]]:
    """Return the words of every command, its group included."""
    app = make_app()
    paths: list[tuple[str, ...]] = [
        (command.name,) for command in app.registered_commands if command.name
    ]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        callback = group.typer_instance.registered_callback
        if callback is not None and callback.invoke_without_command is True:
            paths.append((str(group.name),))
        for command in group.typer_instance.registered_commands:
            assert command.callback is not None
            name = command.name or command.callback.__name__
            paths.append((str(group.name), name))
    return paths


@pytest.mark.parametrize("path", command_paths(), ids=" ".join)
def test_help_of_every_command_has_an_example(run_ottla: RunOttla, path: tuple[str, ...]) -> None:
    shown = run_ottla(*path, "--help")
    assert shown.returncode == 0
    assert re.search(r"Examples?:\n +(\S.*)?ottla " + " ".join(path), shown.stdout), shown.stdout


@pytest.mark.parametrize("group", ["", "topics", "groups", "cluster", "logs", "coordinator"])
def test_command_lists_truncate_no_sentence(run_ottla: RunOttla, group: str) -> None:
    shown = run_ottla(*group.split(), "--help").stdout
    _, _, listed = shown.partition("Commands:")
    assert listed
    assert "..." not in listed


def test_all_promised_commands_exist() -> None:
    assert set(command_paths()) >= {
        ("broker",), ("coordinator",), ("coordinator", "export-zookeeper"),
        ("produce",), ("consume",), ("version",),
        ("topics", "create"), ("topics", "list"), ("topics", "describe"), ("topics", "alter"),
        ("topics", "delete"), ("configs", "describe"), ("configs", "alter"),
        ("cluster", "describe"), ("logs", "dump"), ("logs", "verify"),
    }  # fmt: skip


def test_help_is_fast() -> None:
    """Measures CPU time, because wall-clock time depends on the load of the machine."""
    assert min(cpu_seconds_of_help() for _ in range(3)) < HELP_LIMIT_S


def cpu_seconds_of_help() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "ottla.cli", "--help"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=TIMEOUT_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_source_tree_without_installation_has_no_version(
    run_ottla: RunOttla, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_installed(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", not_installed)
    assert run_ottla("version").stdout.startswith("ottla from source, ")


def test_version_is_printed_as_text_and_as_json(run_ottla: RunOttla) -> None:
    assert re.match(r"ottla (\d+\.\d+|from source)", run_ottla("version").stdout)
    assert set(json.loads(run_ottla("version", "--json").stdout)) == {
        "ottla", "python", "implementation",
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("topics", "create"), ("consume", "t", "--x")]
)
def test_wrong_usage_ends_with_exit_code_2(run_ottla: RunOttla, arguments: tuple[str, ...]) -> None:
    ended = run_ottla(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--help" in ended.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e306"])
@pytest.mark.parametrize(
    ("command", "option"),
    [("list", "--longer-than"), ("find-hanging", "--max-transaction-timeout")],
)
def test_durations_that_are_no_numbers_are_refused(
    run_ottla: RunOttla, command: str, option: str, seconds: str
) -> None:
    ended = run_ottla("transactions", command, option, seconds)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"ottla: {option} must be a number of seconds, got ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_broker_command_runs_until_a_stop_signal(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "ottla.cli", "broker"),
            *("--override", "listeners=PLAINTEXT://127.0.0.1:0"),
            *("--override", f"log.dirs={tmp_path / 'data'}"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        assert broker.stderr is not None
        for line in broker.stderr:
            if json.loads(line)["event"] == "broker.started":
                break
        broker.send_signal(number)
        rest = broker.stderr.read()
        assert broker.wait(TIMEOUT_S) == 0
    assert "broker.stopped" in rest
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_coordinator_command_runs_until_a_stop_signal(tmp_path: Path) -> None:
    # A folder of the same name in the working directory must not shadow our package.
    (tmp_path / "coordination").mkdir()
    (tmp_path / "coordination" / "__main__.py").write_text("raise SystemExit('not ours')")
    arguments = ("coordinator", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ottla.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as coordinator:
        assert coordinator.stdout is not None
        assert coordinator.stdout.readline().startswith("ready 127.0.0.1:")
        coordinator.send_signal(signal.SIGTERM)
        assert coordinator.wait(TIMEOUT_S) == 0


def test_coordinator_runs_with_closed_standard_streams(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli", "coordinator", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" <&- 2>&-', "sh", *command, f"--data-dir={tmp_path / 'data'}"],
        stdout=subprocess.PIPE,
        text=True,
    ) as coordinator:
        assert coordinator.stdout is not None
        assert coordinator.stdout.readline().startswith("ready 127.0.0.1:")
        # No file of the coordinator and no connection has the number of a standard stream.
        streams = [Path(f"/proc/{coordinator.pid}/fd/{number}").readlink() for number in (0, 2)]
        coordinator.send_signal(signal.SIGTERM)
        assert coordinator.wait(TIMEOUT_S) == 0
    assert streams == [Path(os.devnull), Path(os.devnull)]


def test_wrong_usage_without_standard_error_prints_nothing() -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "ottla.cli", "no-such"],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, b"")


@pytest.mark.parametrize("argument", ["--help", "version"])
def test_output_on_a_full_disk_is_reported_by_one_sentence(argument: str) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "ottla.cli", argument],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "ottla: No space left on device\n")


@pytest.mark.parametrize("group", [(), ("topics",)], ids=str)
def test_help_into_a_closed_pipe_ends_silently(group: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        ended = subprocess.run(
            [sys.executable, "-m", "ottla.cli", *group, "--help"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (141, "")


def test_broker_with_an_invalid_value_names_the_key(
    run_ottla_process: RunOttla, tmp_path: Path
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path / 'data'}\nlog.segment.bytes=many\n")
    ended = run_ottla_process("broker", properties)
    assert ended.returncode in (1, 2)
    assert "log.segment.bytes" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_application_uses_rich_markup_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    app = make_app()
    assert isinstance(app, typer.Typer)
    assert app.rich_markup_mode == "rich"
