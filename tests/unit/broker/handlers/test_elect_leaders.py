"""Elections that clients request: `broker.handlers.elect_leaders`."""

import asyncio
from typing import Any, cast

from broker.handlers.elect_leaders import ElectLeadersHandler
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.reassignment import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tests.unit.broker.requests import request


async def test_an_unknown_kind_of_election_fails_for_each_partition() -> None:
    loop, unused = asyncio.get_running_loop(), cast(Any, object())
    message = ElectLeadersRequest(
        election_type=7,
        topic_partitions=[TopicPartitions(topic="t", partitions=[0, 1])],
        timeout_ms=1,
    )
    handler = ElectLeadersHandler(RequestTasks(loop), unused, unused)
    reply = handler.handle(request(ApiKey.ELECT_LEADERS, 2, message), message)
    done = loop.create_future()
    reply.on_done(lambda: done.set_result(None))
    await done
    response = reply.message
    assert isinstance(response, ElectLeadersResponse)
    [topic] = response.replica_election_results
    # Clients read the codes of the partitions, some of them only these.
    codes = [response.error_code, *(each.error_code for each in topic.partition_result)]
    assert codes == [ErrorCode.INVALID_REQUEST] * 3
