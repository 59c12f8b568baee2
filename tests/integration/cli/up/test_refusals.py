"""`ottla up` that cannot start prints one sentence and leaves no process running."""

import fcntl
import socket
from pathlib import Path

import pytest

from tests.integration.cli.conftest import RunOttla
from tests.ports import free_port


def test_port_in_use_is_reported(run_ottla: RunOttla, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run_ottla("up", "--dir", tmp_path / "data", "--port", str(port), "--brokers", "1")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"ottla: port {port} cannot be used: address already in use; "
        "choose another --port, or 0 for free ones\n"
    )


def test_directory_in_use_is_reported(run_ottla: RunOttla, tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = run_ottla("up", "--dir", tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"ottla: another `ottla up` runs on {tmp_path}: stop it")


def test_a_directory_from_a_variable_without_a_value_is_wrong_usage(run_ottla: RunOttla) -> None:
    ended = run_ottla("up", "--dir", "")
    assert (ended.returncode, "an empty text names no path" in ended.stderr) == (2, True)


def test_file_in_place_of_the_directory_is_reported(run_ottla: RunOttla, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = run_ottla("up", "--dir", tmp_path / "file")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"ottla: cannot use {tmp_path / 'file'}: File exists")


def test_unusable_settings_are_wrong_usage(run_ottla: RunOttla, tmp_path: Path) -> None:
    for override in ("broker.id=1", "nonsense"):
        ended = run_ottla("up", "--dir", tmp_path, "--override", override)
        assert ended.returncode == 2
    too_high = run_ottla("up", "--dir", tmp_path, "--port", "65535")
    assert (too_high.returncode, "choose a lower --port" in too_high.stderr) == (2, True)


def test_coordinator_and_brokers_have_ports_of_their_own(
    run_ottla: RunOttla, tmp_path: Path
) -> None:
    port = str(free_port())
    ports = ("--brokers", "1", "--port", port, "--coordinator-port", port)
    ended = run_ottla("up", "--dir", tmp_path, *ports)
    assert ended.returncode == 2
    assert f"port {port} is for the coordinator and a broker" in ended.stderr


@pytest.mark.parametrize("text", ["x", "²", "1" * 5_000])
def test_a_range_of_ids_is_a_number(run_ottla: RunOttla, tmp_path: Path, text: str) -> None:
    address = ("--join", "127.0.0.1:1", "--advertised-host", "127.0.0.1")
    override = ("--override", f"reserved.broker.max.id={text}")
    ended = run_ottla("up", "--dir", tmp_path, *address, *override)
    assert ended.returncode == 2
    assert "reserved.broker.max.id must be a number" in ended.stderr


def test_configuration_error_of_a_broker_is_reported(
    run_ottla_process: RunOttla, tmp_path: Path
) -> None:
    ended = run_ottla_process(
        "up", "--dir", tmp_path, "--port", "0", "--brokers", "1", "--override", "num.partitions=x"
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "ottla: broker-1 could not start: num.partitions=x" in ended.stderr
    assert not [*tmp_path.glob("*/pid")]
