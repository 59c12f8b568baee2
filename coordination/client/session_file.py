"""The session on disk (edge): what ends it when the process that began it has died.

A broker writes the file (0600) when its session begins, while it holds the lock of the log dir
that the file lies in. A process that gets this lock, its supervisor or its own next start, knows
that the owner is dead, and closes the session with `patterns.end_dead_session`: the ephemeral nodes
go at once instead of after a timeout.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

import aiofiles  # type: ignore[import-untyped,unused-ignore]
import aiofiles.os  # type: ignore[import-untyped,unused-ignore]


class SavedSession(NamedTuple):
    """The content of the file. `pid` is for people: it means nothing in another container."""

    connect_string: str
    session_id: int
    password: bytes
    pid: int


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
        known = {name: fields[name] for name in SavedSession._fields}
        return SavedSession(**{**known, "password": bytes.fromhex(known["password"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


async def remove(path: Path) -> None:
    """Delete the file: the session is over."""
    if await aiofiles.os.path.exists(path):
        await aiofiles.os.remove(path)
