"""Hostile requests of every API and version against a compiled broker: none of them breaks it.

A run sends fresh requests for `OTTLA_FUZZ_S` seconds (`make soak`: for minutes) from a printed
seed; `OTTLA_SEED` repeats it. Harmful requests are written to `examples/` beside this file. A
request kept there, renamed after its effect, is sent in every run.
"""

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from kafkawire.apis import ApiKey
from kafkawire.headers import encode_request
from kafkawire.messages.alter_partition import AlterPartitionRequest, RequestTopicData
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaTopicState
from kafkawire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataTopicState
from tests.conftest import StartBroker
from tests.fuzz.endurance import survive
from tests.fuzz.hostile_values import Surroundings, hostile_frame
from tests.fuzz.judged_broker import JudgedBroker
from tests.integration.broker.wire import Wire

EVERYDAY_S: Final = 25.0
SOAK_S: Final = 600.0
LEAST_KINDS: Final = 25
EXAMPLES: Final = Path(__file__).parent / "examples"
OVERRIDES: Final = {
    "broker.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
}

EMPTY_TOPICS: Final = 200_000
NO_ROLES: Final = LeaderAndIsrTopicState(topic_name="", partition_states=[])
NO_STOPS: Final = StopReplicaTopicState(topic_name="", partition_states=[])
NO_STATES: Final = UpdateMetadataTopicState(topic_name="", partition_states=[])
NO_SETS: Final = RequestTopicData(topic_name="", partitions=[])

Begin: TypeAlias = Callable[[], tuple[JudgedBroker, Surroundings]]


@pytest.fixture
def begin(start_broker: StartBroker) -> Iterator[Begin]:
    """Return a function that kills the previous broker and starts one with topics."""
    judged: list[JudgedBroker] = []

    def start() -> tuple[JudgedBroker, Surroundings]:
        for former in judged:
            former.end()
        judged.clear()
        broker = start_broker(overrides=OVERRIDES)
        with Wire(broker.port) as wire:
            wire.create_topic("t", 4)
            wire.create_topic("compacted", 1, cleanup_policy="compact")
            found = wire.ask(ApiKey.METADATA, 12, MetadataRequest(), MetadataResponse)
        judged.append(JudgedBroker(broker))
        return judged[-1], Surroundings(
            topics=("t", "compacted"), topic_ids=[topic.topic_id for topic in found.topics]
        )

    yield start
    for each in judged:
        each.end()


def test_no_hostile_request_breaks_a_broker(begin: Begin) -> None:
    survive_requests(begin, EVERYDAY_S)


@pytest.mark.soak
def test_no_hostile_request_breaks_a_broker_in_minutes(begin: Begin) -> None:
    survive_requests(begin, SOAK_S)


def survive_requests(begin: Begin, duration_s: float) -> None:
    def source(rng: random.Random, around: Surroundings) -> Callable[[], tuple[str, bytes]]:
        return lambda: hostile_frame(rng, around)

    survive(
        begin, source, EXAMPLES / "a.frame", duration_s, lambda counts: len(counts) > LEAST_KINDS
    )


@pytest.mark.parametrize(
    ("key", "version", "message", "topics"),
    [
        (ApiKey.LEADER_AND_ISR, 4, LeaderAndIsrRequest(), NO_ROLES),
        (ApiKey.STOP_REPLICA, 3, StopReplicaRequest(), NO_STOPS),
        (ApiKey.UPDATE_METADATA, 6, UpdateMetadataRequest(), NO_STATES),
        (ApiKey.ALTER_PARTITION, 0, AlterPartitionRequest(), NO_SETS),
    ],
)
def test_requests_between_brokers_are_not_decoded_for_a_stranger(
    begin: Begin, key: ApiKey, version: int, message: object, topics: object
) -> None:
    broker, _ = begin()
    name = "topics" if key is ApiKey.ALTER_PARTITION else "topic_states"
    many = copy.copy(message)
    setattr(many, name, [topics] * EMPTY_TOPICS)
    frame = encode_request(key, version, 1, "stranger", many)
    assert broker.endure(key.name, frame) is None


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.frame")))
def test_known_harmful_input_does_no_harm(begin: Begin, name: str) -> None:
    broker, _ = begin()
    assert broker.endure(name, (EXAMPLES / f"{name}.frame").read_bytes()) is None
