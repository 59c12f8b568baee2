"""Requests to change topics at a broker that is about to become the controller.

The guards check rights on the controller only. A request that arrived before must not be served.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from broker.handlers.create_partitions import CreatePartitionsHandler
from broker.handlers.create_topics import CreateTopicsHandler
from broker.handlers.delete_topics import DeleteTopicsHandler
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.broker.requests import request

Handle = Callable[[Request, Any], Reply]


class Controller:
    """The role of the controller, which this broker does not have yet."""

    is_active = False


def creation(tasks: RequestTasks, controller: Any, unused: Any) -> Handle:
    return CreateTopicsHandler(tasks, unused, unused, controller, unused).handle


def growth(tasks: RequestTasks, controller: Any, unused: Any) -> Handle:
    return CreatePartitionsHandler(tasks, unused, unused, controller).handle


def deletion(tasks: RequestTasks, controller: Any, unused: Any) -> Handle:
    return DeleteTopicsHandler(tasks, unused, unused, controller, is_enabled=True).handle


CASES: list[tuple[Callable[..., Handle], ApiKey, int, object, str]] = [
    (
        creation,
        ApiKey.CREATE_TOPICS,
        7,
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
        ),
        "topics",
    ),
    (
        growth,
        ApiKey.CREATE_PARTITIONS,
        3,
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2)]),
        "results",
    ),
    (deletion, ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["t"]), "responses"),
    (
        deletion,
        ApiKey.DELETE_TOPICS,
        6,
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]),
        "responses",
    ),
]


@pytest.mark.parametrize(("make", "key", "version", "message", "results"), CASES)
async def test_a_request_from_before_an_election_changes_nothing(
    make: Callable[..., Handle], key: ApiKey, version: int, message: object, results: str
) -> None:
    loop, controller = asyncio.get_running_loop(), Controller()
    # Any use of this object fails, and closes the connection.
    handle = make(RequestTasks(loop), controller, cast(Any, object()))
    reply = handle(request(key, version, message), message)
    controller.is_active = True
    if not reply.is_done:
        done = loop.create_future()
        reply.on_done(lambda: done.set_result(None))
        await done
    found = getattr(reply.message, results)
    assert [(each.name, each.error_code) for each in found] == [("t", ErrorCode.NOT_CONTROLLER)]
