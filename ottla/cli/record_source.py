"""Reads the input of `ottla produce` in chunks. Edge: a file or standard input, through aiofiles.

Chunks and not lines: a hop to a thread per line would cost more than sending it. A pipe's chunk is
what has arrived, so that what a person types is sent when the line ends.
"""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiofiles

CHUNK_BYTES: Final = 1024 * 1024


async def read_chunks(path: Path | None) -> AsyncIterator[bytes]:
    """Yield the bytes of the file, or of standard input, until its end."""
    source = sys.stdin.fileno() if path is None else path
    async with aiofiles.open(source, "rb", closefd=path is not None) as file:
        while chunk := await file.read1(CHUNK_BYTES):
            yield chunk
