"""Responses to JoinGroup, and joins that are refused again and again."""

import asyncio
from typing import Any, cast

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.group_membership import JoinGroupResponse
from ottla.client.consumer.group.group_config import GroupConfig, parse_assignors
from ottla.client.consumer.group.group_member import Holding, Member
from ottla.client.consumer.group.group_session import PROMPT_REJOINS, GroupSession
from ottla.client.consumer.group.joining import Joining
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.group.rebalance_listener import RebalanceListener
from ottla.client.errors import ProtocolError, broker_error
from ottla.client.network.cluster import Cluster
from ottla.client.network.coordinator import Coordinator
from ottla.client.offset import NO_GENERATION
from ottla.client.retry import Backoff

CONFIG = GroupConfig(group_id="g", assignors=parse_assignors(["range"]))
DELAY_S = 0.01
REFUSAL_COUNT = 10


class FakeCoordinator:
    """Answers each request with the same response; confirms everything else."""

    def __init__(self, response: object = None) -> None:
        self.response = response

    async def request(self, *_: object, **__: object) -> object:
        return self.response

    async def ask(self, *_: object, **__: object) -> None:
        return None


class FakeHolding:
    def owned(self) -> list[TopicPartition]:
        return []

    def add(self, partitions: object) -> None: ...

    def keep_topics(self, topics: object) -> None: ...


@pytest.mark.parametrize(("generation", "member_id"), [(-1, "m"), (-2, "m"), (3, "")])
async def test_a_join_without_a_generation_or_member_id_is_an_error(
    generation: int, member_id: str
) -> None:
    response = JoinGroupResponse(generation_id=generation, member_id=member_id, leader="other")
    member = Member()
    joining = Joining(
        cast(Cluster, None),
        CONFIG,
        cast(Coordinator, FakeCoordinator(response)),
        member,
        cast(Holding, FakeHolding()),
    )
    with pytest.raises(ProtocolError, match=f"in generation {generation}"):
        await joining.join(frozenset({"t"}), [])
    assert member.generation == NO_GENERATION
    assert not member.was_admitted


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.MEMBER_ID_REQUIRED])
async def test_joins_that_are_refused_again_and_again_are_repeated_with_delays(
    code: ErrorCode,
) -> None:
    loop = asyncio.get_running_loop()
    has_joined = asyncio.Event()
    join_count = 0

    class RefusedJoining:
        def forget(self) -> None: ...

        def is_outdated(self) -> bool:
            return False

        async def join(self, *_: Any) -> list[TopicPartition]:
            nonlocal join_count
            join_count += 1
            if join_count <= REFUSAL_COUNT:
                raise broker_error(code, "group g")
            has_joined.set()
            return []

    session = GroupSession(
        CONFIG,
        cast(Coordinator, FakeCoordinator()),
        Member(),
        cast(Joining, RefusedJoining()),
        cast(Holding, FakeHolding()),
        ReadGate(loop, lambda: None),
        Backoff(initial_s=DELAY_S, max_s=DELAY_S, random=lambda: 0.5),
        request_timeout_s=30,
    )
    began_s = loop.time()
    session.subscribe(["t"], RebalanceListener())
    async with asyncio.timeout(30):
        await has_joined.wait()
    assert loop.time() - began_s >= 0.9 * (REFUSAL_COUNT - PROMPT_REJOINS) * DELAY_S
    await session.stop(loop.time() + 1)
