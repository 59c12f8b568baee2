"""Kafka's frames, as a peer in a test reads them from a stream."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

SIZE_BYTES: Final = 4


async def frames_of(reader: asyncio.StreamReader) -> AsyncIterator[memoryview]:
    """Return each frame without its size, up to the end of the stream; half a frame is none.

    The sizes are believed: who writes them is a client under test.
    """
    try:
        while True:
            size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
            yield memoryview(await reader.readexactly(size))
    except asyncio.IncompleteReadError:
        return
