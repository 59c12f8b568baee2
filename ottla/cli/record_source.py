"""Reads the input of `ottla produce` in chunks (edge).

It reads chunks rather than lines, because a thread hop per line would cost more than sending the
line. A chunk of a pipe or terminal is the available data, so that a typed line is sent at once.
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import aiofiles

CHUNK_BYTES: Final = 1024 * 1024


async def read_chunks(path: Path | None) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of the file, or of standard input if `path` is None, up to the end."""
    if path is None:
        while chunk := await _next_of_standard_input():
            yield chunk
        return
    async with aiofiles.open(path, "rb") as file:
        while chunk := await file.read1(CHUNK_BYTES):
            yield chunk


async def _next_of_standard_input() -> bytes:
    # Avoids the loop's executor, which waits for its threads at shutdown: this thread may block
    # in its read long after Ctrl-C.
    loop = asyncio.get_running_loop()
    chunk: asyncio.Future[bytes] = loop.create_future()

    def settle(data: bytes, error: OSError | None) -> None:
        if chunk.done():
            return
        if error is None:
            chunk.set_result(data)
        else:
            chunk.set_exception(error)

    def read() -> None:
        data, failure = b"", None
        try:
            data = os.read(sys.stdin.fileno(), CHUNK_BYTES)
        except OSError as error:
            failure = error
        # The loop is already closed if the command has ended in the meantime.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, data, failure)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    return await chunk
