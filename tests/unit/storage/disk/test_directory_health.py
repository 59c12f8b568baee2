"""The states of a log dir: `storage.disk.directory_health`."""

import errno
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from storage.disk.directory_health import DirectoryHealth, offline_on_failure
from storage.errors import CorruptLogError, LogDirFullError, LogDirOfflineError, OutOfFilesError

PATH = Path("/logs")


def test_offline_state_is_permanent() -> None:
    offline: list[Path] = []
    health = DirectoryHealth(PATH, offline.append)
    with pytest.raises(LogDirOfflineError), offline_on_failure(health):
        raise OSError(errno.EIO, "broken")
    health.note_space()
    health.note_full("no space")
    assert isinstance(health.fail(OSError(errno.ENOSPC, "no space")), LogDirOfflineError)
    for check in (health.check, health.check_writable):
        with pytest.raises(LogDirOfflineError, match="broken"):
            check()
    assert not health.is_full
    assert offline == [PATH]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_state_is_temporary(number: int) -> None:
    calls: list[int] = []
    health = DirectoryHealth(PATH, on_full=lambda: calls.append(1))
    for _ in range(2):
        assert isinstance(health.fail(OSError(number, "no space")), LogDirFullError)
    health.check()
    with pytest.raises(LogDirFullError):
        health.check_writable()
    assert calls == [1], "once, when it begins"
    health.note_space()
    health.check_writable()


def test_a_dir_that_fails_while_space_is_noted_refuses_appends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    health = DirectoryHealth(PATH)

    def fail_in_another_thread(_: DirectoryHealth) -> bool:
        health.give_up("broken")
        return True

    health.note_full("no space")
    monkeypatch.setattr(DirectoryHealth, "is_full", property(fail_in_another_thread))
    health.note_space()
    assert health.refusal == "broken"


def test_too_many_open_files_do_not_change_the_state() -> None:
    health = DirectoryHealth(PATH)
    assert isinstance(health.fail(OSError(errno.EMFILE, "too many")), OutOfFilesError)
    health.check_writable()


def test_too_long_name_is_not_a_disk_failure() -> None:
    health = DirectoryHealth(PATH)
    error = health.fail(OSError(errno.ENAMETOOLONG, "too long"))
    assert not isinstance(error, LogDirOfflineError)
    health.check_writable()


def test_damage_is_logged_once_per_segment() -> None:
    health = DirectoryHealth(PATH)
    with capture_logs() as captured:
        for name, position in (("a", 0), ("a", 7), ("b", 0)):
            health.note_damage(CorruptLogError(PATH / name, position, "no batch"))
    assert [each["path"] for each in captured] == ["/logs/a", "/logs/b"]
    assert health.damage[PATH / "a"].position == 0
