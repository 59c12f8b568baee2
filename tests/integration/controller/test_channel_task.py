"""Task of a channel: one request at a time, retried on a new connection when one is lost."""

import asyncio

from controller.channel import Channel, ControlResponse
from controller.channel_task import ChannelTask
from controller.effects import BrokerRequest, ControlRequest
from controller.events import Event, LeaderAndIsrResponseReceived
from kafkawire.ids import BrokerId
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from tests.waiting import DEADLINE_S

B1 = BrokerId(1)


class Flaky:
    """Connection that fails its first request if it is the first connection."""

    def __init__(self, number: int, log: list[str]) -> None:
        self.number = number
        self.log = log

    async def request(self, message: ControlRequest) -> ControlResponse:
        self.log.append(f"{self.number} request {message.controller_epoch}")
        if self.number == 1:
            raise ConnectionResetError
        return LeaderAndIsrResponse()

    async def close(self) -> None:
        self.log.append(f"{self.number} close")


async def test_a_lost_request_is_retried_on_a_new_connection() -> None:
    log: list[str] = []
    answered: asyncio.Queue[Event] = asyncio.Queue()
    numbers = iter((1, 2))
    task = ChannelTask(Channel(B1, 5), lambda: Flaky(next(numbers), log), answered.put_nowait)
    for epoch in (7, 8):
        task.put(BrokerRequest(B1, 5, LeaderAndIsrRequest(controller_epoch=epoch)))
    async with asyncio.timeout(DEADLINE_S):
        events = [await answered.get() for _ in range(2)]
    assert all(isinstance(event, LeaderAndIsrResponseReceived) for event in events)
    await asyncio.gather(task.close(), return_exceptions=True)
    assert log == ["1 request 7", "1 close", "2 request 7", "2 request 8", "2 close"]


async def test_a_channel_settles_once_all_requests_have_responses() -> None:
    log: list[str] = []
    answered: asyncio.Queue[Event] = asyncio.Queue()
    task = ChannelTask(Channel(B1, 5), lambda: Flaky(2, log), answered.put_nowait)
    async with asyncio.timeout(DEADLINE_S):
        await task.wait_settled()
        for epoch in (7, 8):
            task.put(BrokerRequest(B1, 5, LeaderAndIsrRequest(controller_epoch=epoch)))
        await task.wait_settled()
    assert answered.qsize() == 2
    await asyncio.gather(task.close(), return_exceptions=True)


async def test_a_channel_settles_when_the_broker_is_unreachable() -> None:
    log: list[str] = []
    answered: asyncio.Queue[Event] = asyncio.Queue()
    task = ChannelTask(Channel(B1, 5), lambda: Flaky(1, log), answered.put_nowait)
    async with asyncio.timeout(DEADLINE_S):
        task.put(BrokerRequest(B1, 5, LeaderAndIsrRequest(controller_epoch=7)))
        await task.wait_settled()
    assert answered.empty()
    await asyncio.gather(task.close(), return_exceptions=True)
