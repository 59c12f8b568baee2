"""The wait of a broker whose logs may lack records: `broker.cluster.doubtful_start`."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from broker.cluster import doubtful_start
from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.doubtful_start import LOOKS_FOR_MEMBERS, LOOKS_FOR_OWN_ID, leave_in_sync_sets
from broker.errors import StartupError
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Plan
from clusterstate.znodes import paths
from clusterstate.znodes.partition_node import encode_partition_state
from coordination.errors import ErrorCode, SessionExpiredError
from kafkawire.ids import BrokerId, TopicPartition
from storage.directory.logs import Logs
from tests.plans.driver import Driver, empty_cluster, join, put_topic

T = TypeVar("T")
ME, OTHER = BrokerId(1), BrokerId(2)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubtful_start, "LOOK_INTERVAL_S", 0)


class NoLogs:
    """The logs of a broker whose disk was replaced, or lost its power."""

    doubtful_paths = (Path("d"),)

    def __init__(self, *, is_wiped: bool) -> None:
        self._is_wiped = is_wiped

    def is_complete(self, _partition: object) -> bool:
        return False

    def get(self, _partition: object) -> object | None:
        return None if self._is_wiped else self


class Start:
    """A start of broker 1, which is in the in-sync set of one partition; `plan_count` plans ran."""

    def __init__(self, *isr: BrokerId, others: tuple[BrokerId, ...] = ()) -> None:
        self.driver = empty_cluster(*others)
        self.plan_count = self.renewal_count = 0
        self.left: list[TopicPartition] = []
        self.before: dict[int, Callable[[], None]] = {}
        """Changes before a plan, by its number."""
        [self.partition] = put_topic(self.driver.coordinator, (ME, OTHER))
        self.put_isr(*isr)

    def put_isr(self, *isr: BrokerId) -> None:
        state = LeaderAndIsr(leader=isr[0], isr=isr, controller_epoch=1)
        path = paths.partition_state(self.partition)
        self.driver.coordinator.put(path, encode_partition_state(state, 1))

    async def run(self, plan: Plan[T]) -> T:
        self.plan_count += 1
        self.before.get(self.plan_count, lambda: None)()
        return self.driver.run(plan)

    async def renew(self) -> None:
        self.renewal_count += 1
        self.driver = Driver(self.driver.coordinator)

    def wait(self, *, is_wiped: bool = False) -> list[EventDict]:
        """Run the start to its end, and return the logged events; `left` is its result."""
        session = cast("CoordinatorSession", self)
        logs = cast("Logs", NoLogs(is_wiped=is_wiped))
        with capture_logs() as events:
            self.left = asyncio.run(leave_in_sync_sets(session, ME, logs))
        return events


def names(events: list[EventDict]) -> list[str]:
    return [each["event"] for each in events]


def test_broker_waits_until_the_controller_has_removed_it() -> None:
    start = Start(OTHER, ME, others=(OTHER,))
    start.before[4] = lambda: start.put_isr(OTHER)
    [event] = start.wait()
    assert (event["event"], event["partitions"]) == ("in_sync_sets.leaving", ["orders-0"])
    assert start.plan_count == 4
    assert start.left == [start.partition]


def test_only_member_leads_after_a_warning() -> None:
    start = Start(ME, others=(OTHER,))
    [event] = start.wait()
    assert (event["event"], event["partitions"]) == ("in_sync_sets.kept", ["orders-0"])
    assert start.left == []


def test_broker_outside_all_sets_logs_nothing() -> None:
    start = Start(OTHER, others=(OTHER,))
    assert start.wait() == []
    assert start.left == [start.partition]


def test_member_that_returns_is_better() -> None:
    start = Start(ME, OTHER)

    def come_back() -> None:
        join(start.driver.coordinator, OTHER)

    start.before[LOOKS_FOR_MEMBERS] = come_back
    start.before[LOOKS_FOR_MEMBERS + 300] = lambda: start.put_isr(OTHER)
    events = start.wait()
    assert names(events) == ["in_sync_sets.leaving"] * 5
    assert [bool(each["awaiting_members"]) for each in events] == [True] * 2 + [False] * 3


def test_member_that_does_not_return_is_awaited_for_a_limited_time() -> None:
    start = Start(ME, OTHER)
    events = start.wait()
    assert names(events) == ["in_sync_sets.leaving"] * 2 + ["in_sync_sets.kept"]
    assert start.plan_count == 1 + LOOKS_FOR_MEMBERS + 1


@pytest.mark.parametrize(("is_wiped", "waits"), [(False, False), (True, True)])
def test_broker_with_lost_power_goes_before_one_with_a_new_disk(
    is_wiped: bool, waits: bool
) -> None:
    start = Start(ME, OTHER)
    other = Driver(start.driver.coordinator)
    other.coordinator.put(paths.DOUBTFUL_BROKERS)
    other.coordinator.put(paths.doubtful_broker(OTHER))
    start.wait(is_wiped=is_wiped)
    assert (start.plan_count > LOOKS_FOR_MEMBERS) is waits


def test_lost_session_is_renewed() -> None:
    start = Start(OTHER, ME, others=(OTHER,))

    def expire() -> None:
        raise SessionExpiredError(ErrorCode.SESSION_EXPIRED)

    start.before[1] = start.before[4] = expire
    start.before[6] = lambda: start.put_isr(OTHER)
    start.wait()
    assert start.renewal_count == 2


def test_id_of_a_running_broker_is_refused() -> None:
    start = Start(ME, others=(ME,))
    with pytest.raises(StartupError, match="broker 1 is registered already"):
        start.wait()
    assert start.plan_count == 1 + LOOKS_FOR_OWN_ID + 1


def test_registration_of_the_earlier_process_ends_first() -> None:
    start = Start(OTHER, others=(OTHER,))
    earlier = join(start.driver.coordinator, ME)
    start.before[5] = lambda: earlier.coordinator.end_session(earlier.session)
    assert start.wait() == []
    assert start.plan_count == 5
