"""Ends the coordinator session of a running broker, as its expiry would (edge).

The session moves to a connection of this process, which closes it: the coordinator deletes its
ephemeral nodes at once, and the broker is answered that its session has expired.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from coordination.client import session_file
from coordination.client.client import Client
from coordination.errors import CoordinationError

TIMEOUT_S: Final = 10.0
EXIT_OK: Final = 0
EXIT_FAILED: Final = 1


def end_session(arguments: Sequence[str]) -> int:
    """End the session saved in a file, at an address; return the exit code."""
    path, connect = arguments
    try:
        is_ended = asyncio.run(_end(Path(path), connect))
    except TimeoutError:
        sys.stderr.write(f"the coordinator at {connect} did not answer within {TIMEOUT_S} s\n")
        return EXIT_FAILED
    except CoordinationError as error:
        sys.stderr.write(f"the session was not ended: {error}\n")
        return EXIT_FAILED
    return EXIT_OK if is_ended else EXIT_FAILED


async def _end(path: Path, connect: str) -> bool:
    saved = await session_file.load(path)
    if saved is None:
        sys.stderr.write(f"there is no session in {path}\n")
        return False
    client = Client(connect, has_heartbeat_thread=False)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            # False: it has expired already.
            return not await client.resume(saved.session_id, saved.password) or await client.close()
    finally:
        await client.abandon()
