"""Log dirs that may have lost records when the machine was restarted: `storage.directory.boot_id`.

`crash` is the death of the process; another boot id afterwards is a restart of the machine.
"""

import errno
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import TopicPartition
from storage.directory import boot_id
from storage.directory.boot_id import current_boot_id, may_lack_records
from storage.directory.logs import Logs
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import PARTITION, crash, create, open_logs

STORED = ".ottla-boot-id"


def run(*paths: Path, boot: str) -> Logs:
    """Open log dirs, accept them, and write one log."""
    logs = open_logs(*paths, boot_id=boot)
    logs.accept()
    create(logs)
    return logs


def is_doubtful(*paths: Path, boot: str) -> bool:
    logs = open_logs(*paths, boot_id=boot)
    crash(logs)
    return bool(logs.doubtful_paths)


@pytest.mark.parametrize(
    ("stored", "current", "was_clean", "expected"),
    [
        pytest.param("a", "a", False, False, id="the process died"),
        pytest.param("a", "b", False, True, id="the machine was restarted"),
        pytest.param("a", "b", True, False, id="clean shutdown"),
        pytest.param(None, "a", True, False, id="clean shutdown of an older version"),
        pytest.param(None, "a", False, True, id="new, wiped, or of an older version"),
        pytest.param("unknown", "unknown", False, False, id="a system without boot ids"),
        pytest.param("a", "unknown", False, True, id="the id cannot be read any more"),
        pytest.param("\ufffd", "a", False, True, id="damaged file"),
    ],
)
def test_evidence(stored: str | None, current: str, was_clean: bool, expected: bool) -> None:
    assert may_lack_records(stored, current, was_clean=was_clean) is expected


def test_boot_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "boot_id"
    monkeypatch.setattr(boot_id, "KERNEL_BOOT_ID", file)
    assert current_boot_id() == "unknown"
    file.write_text("")
    assert current_boot_id() == "unknown"
    file.write_bytes(b"\xff")
    assert current_boot_id() == "unknown"
    file.write_text("3f2c\n")
    assert current_boot_id() == "3f2c"


def test_killed_process_loses_nothing(one: Path) -> None:
    crash(run(one, boot="a"))
    logs = open_logs(one, boot_id="a")
    assert logs.doubtful_paths == []
    assert logs.is_complete(PARTITION)
    assert not logs.is_complete(TopicPartition("orders", 1)), "there is no such log"


def test_restarted_machine_may_have_lost_records(one: Path) -> None:
    crash(run(one, boot="a"))
    logs = open_logs(one, boot_id="b")
    assert logs.doubtful_paths == [one]
    assert not logs.is_complete(PARTITION)
    logs.accept()
    assert logs.is_complete(PARTITION)
    crash(logs)
    assert not is_doubtful(one, boot="b")
    assert is_doubtful(one, boot="c")


@pytest.mark.parametrize("next_boot", ["a", "b"])
def test_clean_shutdown_leaves_no_doubt(one: Path, next_boot: str) -> None:
    run(one, boot="a").close()
    assert not is_doubtful(one, boot=next_boot)
    # The process died before it was in service: the marker is gone, but the records are there.
    assert not is_doubtful(one, boot=next_boot)
    assert is_doubtful(one, boot="c")


def test_doubt_outlives_a_clean_shutdown(one: Path) -> None:
    crash(run(one, boot="a"))
    for _ in range(2):
        open_logs(one, boot_id="b").close()
        assert not (one / ".kafka_cleanshutdown").exists()
        assert (one / STORED).read_text() == "a\n"
    assert is_doubtful(one, boot="b")


def test_wiped_log_dir_is_doubtful_and_the_others_are_not(one: Path, two: Path) -> None:
    logs = run(one, boot="a")
    crash(logs)
    logs = open_logs(one, two, boot_id="a")
    assert logs.doubtful_paths == [two]
    assert logs.is_complete(PARTITION)


def test_without_a_boot_id_nothing_is_judged_or_stored(one: Path) -> None:
    logs = open_logs(one)
    assert logs.doubtful_paths == []
    logs.accept()
    assert not (one / STORED).exists()
    logs.close()


def test_full_disk_keeps_the_doubt_for_the_next_start(one: Path) -> None:
    crash(run(one, boot="a"))
    logs = open_logs(one, boot_id="b")
    with failing("fsync", errno.ENOSPC), capture_logs() as events:
        logs.accept()
    assert [each["event"] for each in events] == ["boot_id.not_stored"]
    assert logs.doubtful_paths == []
    assert logs.table.offline_paths == ()
    crash(logs)
    assert is_doubtful(one, boot="b")


def test_broken_disk_goes_offline_alone(one: Path, two: Path) -> None:
    logs = open_logs(one, two, boot_id="a")
    with failing("fsync", at=lambda path: one in path.parents):
        logs.accept()
    assert logs.table.offline_paths == (one,)
    assert logs.doubtful_paths == []
