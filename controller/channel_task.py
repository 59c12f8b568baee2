"""Sends the requests of one channel (edge): one at a time, until the channel is closed."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from controller.channel import RETRY_BACKOFF_MS, Channel, ControlResponse
from controller.effects import BrokerRequest, ControlRequest
from controller.events import Event


class BrokerConnection(Protocol):
    """Connection to a broker, opened by the node for the controller."""

    async def request(self, message: ControlRequest) -> ControlResponse:
        """Send a request and return its response.

        Raises:
            OSError: the connection is broken and must be closed; includes TimeoutError.
        """
        ...

    async def close(self) -> None:
        """Close the connection, so that the broker ignores requests still in transit."""
        ...


Dial = Callable[[], BrokerConnection]


class ChannelTask:
    """A channel and the task that sends its requests."""

    def __init__(self, channel: Channel, dial: Dial, on_event: Callable[[Event], object]) -> None:
        self._channel = channel
        self._dial = dial
        self._on_event = on_event
        self._wakeup = asyncio.Event()
        self._is_settled = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"channel-{channel.broker_id}")

    @property
    def waiting_count(self) -> int:
        """Number of requests without a response."""
        return len(self._channel)

    def put(self, request: BrokerRequest) -> None:
        """Queue a request."""
        self._channel.put(request)
        self._is_settled.clear()
        self._wakeup.set()

    async def wait_settled(self) -> None:
        """Return once every queued request has its response, or an attempt has failed."""
        await self._is_settled.wait()

    def close(self) -> asyncio.Task[None]:
        """Drop all requests, cancel the task, and return it."""
        self._channel.close()
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        connection: BrokerConnection | None = None
        try:
            while True:
                request = self._channel.next()
                if request is None:
                    self._is_settled.set()
                    self._wakeup.clear()
                    await self._wakeup.wait()
                    continue
                connection = connection or self._dial()
                try:
                    response = await connection.request(request.message)
                except OSError:
                    self._channel.on_failure()
                    self._is_settled.set()
                    await connection.close()
                    connection = None
                    await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
                    continue
                event = self._channel.on_response(response)
                if event is not None:
                    self._on_event(event)
        finally:
            if connection is not None:
                await connection.close()
