"""Kafka's frames, read from a stream by a peer in a test."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

SIZE_BYTES: Final = 4


async def frames_of(reader: asyncio.StreamReader) -> AsyncIterator[memoryview]:
    """Yield each complete frame without its size field, up to the end of the stream.

    Sizes are not validated, because the peer is a client under test.
    """
    try:
        while True:
            size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
            yield memoryview(await reader.readexactly(size))
    except asyncio.IncompleteReadError:
        return
