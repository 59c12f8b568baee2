"""The session on disk (edge), so that it can be ended after its process has died.

A broker writes the file (0600) when its session begins, while it holds the lock of the file's log
dir. A process that acquires this lock, its supervisor or its next start, thereby knows that the
owner is dead. It closes the session with `patterns.end_dead_session`, which deletes the ephemeral
nodes at once instead of after a timeout.

The file only saves time: without one, or with the one of an earlier session, a dead process's
session ends at its timeout. So a disk that fails is logged, and costs nobody the session.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import NamedTuple

import aiofiles  # type: ignore[import-untyped,unused-ignore]
import aiofiles.os  # type: ignore[import-untyped,unused-ignore]
import structlog

from coordination.errors import is_out_of_threads

log = structlog.get_logger(__name__)


class SavedSession(NamedTuple):
    """Content of the file; `pid` is informational, as it has no meaning in another container."""

    connect_string: str
    session_id: int
    password: bytes
    pid: int


async def save(path: Path, session: SavedSession) -> None:
    """Write the file atomically, readable by its owner only, if the disk works."""
    temporary = path.with_name(path.name + ".tmp")
    fields = {**session._asdict(), "password": session.password.hex()}
    try:
        async with aiofiles.open(temporary, "w", opener=_private) as file:
            await file.write(json.dumps(fields))
            await file.flush()
            # Not in the loop: on a slow disk the new session would expire meanwhile.
            await asyncio.get_running_loop().run_in_executor(None, os.fsync, file.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not is_out_of_threads(error):
            raise
        log.warning("session_file.not_written", path=str(path), error=str(error))


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


async def load(path: Path) -> SavedSession | None:
    """Return the saved session; None if the file is missing, malformed or unreadable."""
    try:
        async with aiofiles.open(path) as file:
            fields = json.loads(await file.read())
        known = {name: fields[name] for name in SavedSession._fields}
        return SavedSession(**{**known, "password": bytes.fromhex(known["password"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    except OSError as error:
        log.warning("session_file.not_read", path=str(path), error=str(error))
        return None


async def remove(path: Path) -> None:
    """Delete the file, because the session has ended; one that stays does no harm."""
    try:
        await aiofiles.os.remove(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("session_file.not_removed", path=str(path), error=str(error))
