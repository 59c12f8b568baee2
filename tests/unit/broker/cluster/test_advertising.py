"""Changes of a registered broker's endpoints, in virtual time, with a coordinator in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TypeVar, cast

import pytest
from structlog.testing import capture_logs

from broker.cluster.controller_role import ControllerRole
from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.identity import Identity
from broker.cluster.member import ClusterMember
from broker.cluster.metadata_cache import Endpoint, MetadataCache
from broker.config.broker_config import BrokerConfig
from clusterstate.broker_registration import Registered, Sessions, register, update
from clusterstate.plans import MAX_ATTEMPTS, Node, Nodes, Outcome, Outcomes, Plan, Read, Refusal
from clusterstate.znodes import paths
from clusterstate.znodes.registration import decode_registration
from coordination.errors import ErrorCode, OperationError, SessionExpiredError
from kafkawire.ids import BrokerId
from tests.plans.driver import Driver, empty_cluster, join
from tests.simulation.coordination.virtual_loop import VirtualLoop

T = TypeVar("T")
B1, B2 = BrokerId(1), BrokerId(2)
OLD, NEW, NEWEST = (Endpoint("h", port) for port in (1, 2, 3))
EXPIRED = SessionExpiredError(ErrorCode.SESSION_EXPIRED)


class FakeSession:
    """A session of broker 1; `failures` are raised by the next runs of plans."""

    def __init__(self) -> None:
        self.driver: Driver = empty_cluster()
        self.broker_epoch = -1
        self.first_epoch: int | None = None
        self.failures: list[Exception | None] = []
        self.has_failed = asyncio.Event()
        self.run_count = 0
        self.encode: Callable[[], bytes] = lambda: b""
        self.on_registered: Callable[[int], None] = lambda _epoch: None

    async def run(self, plan: Plan[T]) -> T:
        self.run_count += 1
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            self.has_failed.set()
            raise failure
        return self.driver.run(plan)

    async def register(self, broker_id: BrokerId, encode: Callable[[], bytes]) -> None:
        self.encode = encode
        done = self.driver.run(register(broker_id, encode(), Sessions(self.driver.session)))
        assert isinstance(done, Registered)
        self.broker_epoch = done.broker_epoch

    def keep_registered(self, *_: object) -> None:
        return None

    async def begin_again(self) -> None:
        """Register in a new session."""
        self.driver.coordinator.end_session(self.driver.session)
        self.driver = Driver(self.driver.coordinator)
        await self.register(B1, self.encode)

    @property
    def registered(self) -> list[Endpoint]:
        node = self.driver.coordinator.nodes[paths.broker(B1)]
        found = decode_registration(B1, node.data).endpoints
        return [Endpoint(each.host, each.port) for each in found]


class FakeController:
    def start(self, _count_missing_writes: object, _on_failure: object) -> None:
        return None


def run(
    scenario: Callable[[ClusterMember, FakeSession], Awaitable[None]],
) -> list[Mapping[str, object]]:
    """Run a scenario with a registered broker; return the log."""
    loop, session = VirtualLoop(seed=0), FakeSession()

    async def main() -> None:
        member = ClusterMember(
            BrokerConfig.from_properties({}),
            MetadataCache(),
            loop=loop,
            running=AsyncExitStack(),
            now_ms=lambda: 0,
        )
        member.session = cast("CoordinatorSession", session)
        member.controller = cast("ControllerRole", FakeController())
        member.identity = Identity(B1, "cluster")
        await member.register(
            {"PLAINTEXT": OLD}, lambda _epoch: None, lambda _partitions: 0, lambda _reason: None
        )
        await scenario(member, session)

    with capture_logs() as lines:
        loop.run_until_complete(main())
    loop.close()
    return [line for line in lines if str(line["event"]).startswith("registration.")]


def test_registration_is_replaced_in_place() -> None:
    async def scenario(member: ClusterMember, session: FakeSession) -> None:
        epoch = session.broker_epoch
        await member.advertise({"PLAINTEXT": NEW})
        assert session.registered == [NEW]
        assert session.driver.coordinator.nodes[paths.broker(B1)].czxid == epoch
        count = session.run_count
        await member.advertise({"PLAINTEXT": NEW})
        assert session.run_count == count, "nothing has changed"
        await session.begin_again()
        assert session.registered == [NEW]

    [line] = run(scenario)
    assert (line["event"], line["endpoints"]) == ("registration.updated", ["h:2"])


@pytest.mark.parametrize("failures", [[EXPIRED], [None, EXPIRED], [EXPIRED] * 200])
def test_change_outlives_the_session(failures: list[Exception | None]) -> None:
    async def scenario(member: ClusterMember, session: FakeSession) -> None:
        session.failures = list(failures)
        change = asyncio.create_task(member.advertise({"PLAINTEXT": NEW}))
        await session.has_failed.wait()
        await session.begin_again()
        await change
        assert session.registered == [NEW]

    assert [line["event"] for line in run(scenario)] == ["registration.updated"]


def test_registration_of_another_incarnation_is_not_overwritten() -> None:
    async def scenario(member: ClusterMember, session: FakeSession) -> None:
        session.driver.coordinator.end_session(session.driver.session)
        join(session.driver.coordinator, B1)
        await member.advertise({"PLAINTEXT": NEW})
        assert session.registered == [Endpoint("h", 9093)]

    [line] = run(scenario)
    assert (line["event"], line["error"]) == (
        "registration.kept",
        "it cannot be read or written",
    )


def test_address_of_another_broker_is_refused_and_later_changes_count() -> None:
    async def scenario(member: ClusterMember, session: FakeSession) -> None:
        join(session.driver.coordinator, B2)
        await member.advertise({"PLAINTEXT": Endpoint("h", 9094)})
        assert session.registered == [OLD]
        session.failures = [OperationError.of(ErrorCode.NO_AUTH, paths.BROKER_IDS)]
        await member.advertise({"PLAINTEXT": NEW})
        assert session.registered == [OLD]
        await member.advertise({"PLAINTEXT": NEW})
        assert session.registered == [NEW]

    events = [line["event"] for line in run(scenario)]
    assert events == ["registration.kept", "registration.kept", "registration.updated"]


def test_a_change_that_was_not_written_is_written_when_it_is_set_again() -> None:
    async def scenario(member: ClusterMember, session: FakeSession) -> None:
        coordinator = session.driver.coordinator
        coordinator.unreadable.add(paths.broker(B1))
        await member.advertise({"PLAINTEXT": NEW})
        assert session.registered == [OLD]
        coordinator.unreadable.clear()
        await member.advertise_again()
        assert session.registered == [NEW]
        count = session.run_count
        await member.advertise_again()
        assert session.run_count == count, "nothing is left to write"

    events = [line["event"] for line in run(scenario)]
    assert events == ["registration.kept", "registration.updated"]


def test_changes_are_made_in_order() -> None:
    async def scenario(member: ClusterMember, session: FakeSession) -> None:
        session.failures = [EXPIRED]
        await asyncio.gather(*[member.advertise({"PLAINTEXT": each}) for each in (NEW, NEWEST)])
        assert session.registered == [NEWEST]

    assert [line["endpoints"] for line in run(scenario)] == [["h:2"], ["h:3"]]


def test_a_registration_that_others_change_each_time_is_left_to_a_later_attempt() -> None:
    plan = update(B1, 5, b"wanted")
    effect = next(plan)
    for _ in range(2 * MAX_ATTEMPTS - 1):
        is_read = isinstance(effect, Read)
        other, refused = Node(b"other", 7, 5), Outcome(refusal=Refusal.BAD_VERSION)
        effect = plan.send(Nodes((other,)) if is_read else Outcomes((refused,)))
    with pytest.raises(StopIteration) as ended:
        plan.send(Outcomes((refused,)))
    assert ended.value.value is False
