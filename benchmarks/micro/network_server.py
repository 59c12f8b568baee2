"""A socket server with handlers that do nothing: the network layer alone (edge).

`python -m benchmarks.micro.network_server PORT FILE [asyncio]`. The response to every Produce is
the same bytes at once; the response to every Fetch is the next `FETCH_BYTES` of FILE, cycling
through it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.loads.process import HOST
from broker.config.listener import Listener
from broker.network.limits import NetworkLimits
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Request
from broker.network.request_channel import RequestChannel
from broker.network.socket_server import SocketServer
from kafkawire.apis import ApiKey
from kafkawire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

FETCH_BYTES: Final = 1024 * 1024
# Size of a Produce response of one partition.
PRODUCE_ANSWER: Final = EncodedMessage(bytes(44))
TOPIC: Final = "bench"


@dataclass(frozen=True, slots=True)
class Region:
    """A range of the file, as a handler returns it."""

    file: BufferedReader
    position: int
    size_bytes: int


class Handlers:
    """Minimal handlers."""

    def __init__(self, file: BufferedReader, size_bytes: int) -> None:
        self._file = file
        self._size_bytes = size_bytes
        self._position = 0

    def handle(self, request: Request) -> Reply:
        """Respond at once."""
        if request.header.api_key is ApiKey.PRODUCE:
            return Reply(PRODUCE_ANSWER)
        region = Region(self._file, self._position, FETCH_BYTES)
        self._position = (self._position + FETCH_BYTES) % (self._size_bytes - FETCH_BYTES + 1)
        partition = PartitionData(high_watermark=self._size_bytes, records=region)
        topic = FetchableTopicResponse(topic=TOPIC, partitions=[partition])
        return Reply(FetchResponse(responses=[topic]))


async def serve(port: int, path: Path) -> None:
    """Serve until killed."""
    limits = NetworkLimits()
    with path.open("rb") as file:
        handlers = Handlers(file, os.fstat(file.fileno()).st_size)
        channel = RequestChannel(asyncio.get_running_loop(), handlers.handle, limits)
        await SocketServer([Listener("BENCH", HOST, port)], limits, channel).start()
        await asyncio.Event().wait()


def main(arguments: list[str]) -> None:
    """Serve the file on the port, both from `arguments`."""
    server = serve(int(arguments[0]), Path(arguments[1]))
    if arguments[2:] == ["asyncio"]:
        asyncio.run(server)
    else:
        uvloop.run(server)


if __name__ == "__main__":
    main(sys.argv[1:])
