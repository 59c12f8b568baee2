"""The cost of access control for a request: its guard, in this process (edge).

Processor time of the fastest of many short runs: a difference of two brokers would be lost in the
noise of their machine.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final, cast

from benchmarks.loads.result import Figure
from broker.handlers.guards.guard import Guard
from broker.handlers.guards.guard_table import GUARDS
from broker.handlers.handler_table import Parts
from broker.network.reply import Reply
from broker.network.request import Request
from broker.security.audit import Audit
from broker.security.authorizer import Authorizer
from broker.security.principal import USER, Principal
from kafkawire.acl import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkawire.apis import ApiKey
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

RUNS: Final = 400
CALLS: Final = 1_000
ENTRIES: Final = 1_000
ALICE: Final = Principal(USER, "alice")
HOST: Final = "10.0.0.1"
TOPIC: Final = "orders"


def guard_costs() -> Iterator[Figure]:
    """Yield the cost of the guards of a produce and of a fetch request with one topic."""
    batch = PartitionProduceData(index=0, records=memoryview(bytes(1024)))
    produce = ProduceRequest(
        acks=1, timeout_ms=1, topic_data=[TopicProduceData(name=TOPIC, partition_data=[batch])]
    )
    fetch = FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=[FetchPartition()])])
    for key, message in ((ApiKey.PRODUCE, produce), (ApiKey.FETCH, fetch)):
        yield Figure(
            name=f"access control of a {key.name.capitalize()} request",
            unit="us",
            value=_cost_us(key, message),
            better="lower",
            goal=1.0,
            note=f"one topic, {ENTRIES:,} entries",
        )


def _cost_us(key: ApiKey, message: object) -> float:
    reply = Reply()

    def handle(_request: Request, _message: Any) -> Reply:
        return reply

    connection = SimpleNamespace(principal=ALICE, client_host=HOST)
    header = SimpleNamespace(api_key=key, api_version=9)
    queue = SimpleNamespace(connection=connection)
    request = cast(Request, SimpleNamespace(queue=queue, header=header))
    guarded = GUARDS[key](cast(Parts, SimpleNamespace()), _guard(), handle)
    assert guarded(request, message) is reply, "the request must be allowed"
    with_guard = _fastest_us(lambda: guarded(request, message))
    return with_guard - _fastest_us(lambda: handle(request, message))


def _guard() -> Guard:
    """Return a guard with many entries, of which two cover the topic."""
    authorizer = Authorizer([], allows_unlisted=False)
    prefix = ResourcePattern(ResourceType.TOPIC, TOPIC[:3], PatternType.PREFIXED)
    for pattern in (
        prefix,
        *(ResourcePattern(ResourceType.TOPIC, f"topic-{number}") for number in range(ENTRIES - 1)),
    ):
        authorizer.set(pattern, [_entry(Operation.READ), _entry(Operation.WRITE)])
    return Guard(authorizer, Audit(time.monotonic, logs_allowed=False))


def _entry(operation: Operation) -> AclEntry:
    return AclEntry(
        principal=str(ALICE), host="*", operation=operation, permission=Permission.ALLOW
    )


def _fastest_us(call: Callable[[], object]) -> float:
    runs = timeit.repeat(call, number=CALLS, repeat=RUNS, timer=time.process_time)
    return min(runs) / CALLS * 1e6
