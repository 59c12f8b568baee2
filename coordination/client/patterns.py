"""Recovery from lost responses, as in Kafka, and from dead processes (edge).

A read whose response was lost is repeated. A write may have been applied, so the node is read again
and compared.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from coordination.client import session_file
from coordination.client.client import Client
from coordination.client.connector import Tls
from coordination.client.login import Login
from coordination.errors import BadVersionError, ConnectionLossError, ErrorCode, NodeExistsError
from coordination.protocol.messages import Stat

T = TypeVar("T")


async def retry_read(read: Callable[[], Awaitable[T]]) -> T:
    """Repeat `read` until it returns; always safe, because a read changes nothing.

    Raises:
        SessionExpiredError, OperationError: raised by `read`.
    """
    while True:
        try:
            return await read()
        except ConnectionLossError as loss:
            if not loss.maybe_applied:
                # It was not sent, because the session may be lost: waiting may not help.
                raise


async def create_ephemeral(client: Client, path: str, data: bytes) -> Stat:
    """Create an ephemeral node exactly once, even if a response is lost.

    Raises:
        NodeExistsError: the node belongs to another session.
    """
    while True:
        try:
            return (await client.create_with_stat(path, data, ephemeral=True))[1]
        except (NodeExistsError, ConnectionLossError) as error:
            if isinstance(error, ConnectionLossError) and not error.maybe_applied:
                raise
            stat = await retry_read(lambda: client.exists(path))
            if stat is None:
                continue
            if stat.ephemeral_owner == client.session_id:
                return stat
            raise NodeExistsError(ErrorCode.NODE_EXISTS, path) from error


async def set_data(client: Client, path: str, data: bytes, version: int) -> Stat:
    """Set data under a version exactly once, even if a response is lost.

    Raises:
        BadVersionError: another client changed the node; read it again.
    """
    while True:
        try:
            return await client.set_data(path, data, version)
        except ConnectionLossError as loss:
            if not loss.maybe_applied:
                raise
        found, stat = await retry_read(lambda: client.get_data(path))
        if stat.version == version + 1 and found == data:
            return stat
        if stat.version != version:
            raise BadVersionError(ErrorCode.BAD_VERSION, path)


async def end_dead_session(
    path: Path,
    timeout_s: float = 5.0,
    *,
    connect_string: str | None = None,
    tls: Tls | None = None,
    login: Login | None = None,
) -> bool:
    """Close the session saved in a file, with its ephemeral nodes; return whether it is closed.

    A session that has expired counts as closed. `connect_string` defaults to the one saved in the
    file. The caller must hold the lock of the log dir of the file, which proves that the session's
    owner is dead.
    """
    saved = await session_file.load(path)
    if saved is None:
        return False
    client = Client(
        connect_string or saved.connect_string, has_heartbeat_thread=False, tls=tls, login=login
    )
    try:
        async with asyncio.timeout(timeout_s):
            is_alive = await client.resume(saved.session_id, saved.password)
            if is_alive and not await client.close():
                return False
    except TimeoutError:
        return False
    finally:
        await client.abandon()
    await session_file.remove(path)
    return True
