"""The session on disk (edge): who may close it when its process has died.

A broker writes the file (0600) when its session begins. Whoever knows that the process is dead,
its supervisor or its own next start, closes the session with `end_dead_session`, and the
ephemeral nodes go at once instead of after a timeout. The file names the process; while that
lives, nothing is closed.
"""

import json
import os
from pathlib import Path
from typing import Final, NamedTuple

import aiofiles  # type: ignore[import-untyped,unused-ignore]
import aiofiles.os  # type: ignore[import-untyped,unused-ignore]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_START_TIME_FIELD: Final = 19


class SavedSession(NamedTuple):
    """What the file holds."""

    connect_string: str
    session_id: int
    password: bytes
    pid: int
    started: str
    boot_id: str


def of_this_process(connect_string: str, session_id: int, password: bytes) -> SavedSession:
    """Return the record of a session that this process owns."""
    pid = os.getpid()
    return SavedSession(connect_string, session_id, password, pid, _start_of(pid), _boot_id())


async def save(path: Path, session: SavedSession) -> None:
    """Write the file so that it is whole or not there, and readable by the owner alone."""
    temporary = path.with_name(path.name + ".tmp")
    fields = {**session._asdict(), "password": session.password.hex()}
    async with aiofiles.open(temporary, "w", opener=_private) as file:
        await file.write(json.dumps(fields))
        await file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


async def load(path: Path) -> SavedSession | None:
    """Return what `save` wrote; None when there is no such file, or none that makes sense."""
    try:
        async with aiofiles.open(path) as file:
            fields = json.loads(await file.read())
        return SavedSession(**{**fields, "password": bytes.fromhex(fields["password"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


async def remove(path: Path) -> None:
    """Delete the file: the session is over."""
    if await aiofiles.os.path.exists(path):
        await aiofiles.os.remove(path)


def is_owner_alive(session: SavedSession) -> bool:
    """Whether the process that saved the session still runs: same boot, number and start time."""
    if session.boot_id != _boot_id():
        return False
    started = _start_of(session.pid)
    return bool(started) and started == session.started


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name in parentheses may hold spaces; state "Z" is a process that is dead but not buried.
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[_START_TIME_FIELD]
