"""Replication between brokers: leaders, followers, and records across changes of leader."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.cluster.peer import Peer
from broker.config.replication_keys import ReplicationKeys
from broker.replication.fetcher import Fetcher
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, Offset
from kafkawire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from storage.config.log_config import LogConfig
from storage.disk.layout import LOG_START_CHECKPOINT
from storage.errors import OutOfFilesError
from tests.integration.broker.replica_rig import Rig, RigBroker
from tests.waiting import until

KEYS = ReplicationKeys(
    # No follower lags for so long, however slow the machine is.
    replica_lag_time_max_ms=60_000,
    replica_fetch_wait_max_ms=100,
    replica_fetch_backoff_ms=50,
)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path, KEYS)
    await rig.start(1, 2, 3)
    yield rig
    await rig.stop()


@pytest.fixture
async def strict_rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """Followers that do not fetch leave the in-sync set soon."""
    rig = Rig(tmp_path, replace(KEYS, replica_lag_time_max_ms=500))
    await rig.start(1, 2, 3)
    yield rig
    await rig.stop()


async def test_followers_hold_acknowledged_records(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3])
    leader = rig.brokers[1]
    for number in range(10):
        assert await leader.produce(b"%d" % number) == (ErrorCode.NONE, number)
        assert [broker.replica.log.log_end_offset for broker in rig.brokers.values()] == (
            [number + 1] * 3
        )
    assert rig.brokers[2].records() == rig.brokers[3].records() == leader.records()


async def test_followers_learn_the_high_watermark_with_the_next_fetch(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3])
    await rig.brokers[1].produce(b"a")
    await until(lambda: all(each.replica.high_watermark == 1 for each in rig.brokers.values()))


async def test_a_failed_fetcher_is_replaced(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_once(*_: object) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError

    with capture_logs() as captured:
        monkeypatch.setattr(Fetcher, "_take", fail_once)
        await rig.set_leader(1, isr=[1], replicas=(1, 2))
        await rig.brokers[1].produce(b"a")
        await until(lambda: rig.brokers[2].replica.log.log_end_offset == 1)
    assert "fetcher.failed" in {each["event"] for each in captured}


async def test_acks_all_waits_for_a_follower_that_is_not_there(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3], to=[1, 2])
    produced = asyncio.create_task(rig.brokers[1].produce(b"a"))
    await until(lambda: rig.brokers[2].replica.log.log_end_offset == 1)
    assert not produced.done()
    assert rig.brokers[1].replica.high_watermark == 0
    await rig.set_leader(1, isr=[1, 2, 3], to=[3], is_repeated=True)
    assert await produced == (ErrorCode.NONE, 0)


async def test_followers_refuse_clients(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3])
    assert await rig.brokers[2].produce(b"a") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_a_follower_that_dies_leaves_the_in_sync_set_and_comes_back(strict_rig: Rig) -> None:
    rig = strict_rig
    await rig.set_leader(1, isr=[1, 2, 3])
    leader = rig.brokers[1]
    await leader.produce(b"a")
    await rig.stop(3)
    assert await leader.produce(b"b") == (ErrorCode.NONE, 1)
    # The other follower may have left, too, on a slow machine, and comes back.
    await until(lambda: isr(rig) == {1, 2})
    await rig.start(3)
    await rig.set_leader(1, isr=[1, 2], to=[3], is_repeated=True)
    await until(lambda: isr(rig) == {1, 2, 3})
    await until(lambda: rig.brokers[3].records() == leader.records())


async def test_a_diverged_log_is_truncated_at_the_divergence(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3])
    assert await rig.brokers[1].produce(b"both") == (ErrorCode.NONE, 0)
    # Only broker 1 has the next records, because no follower fetches from it any more.
    await rig.set_leader(1, isr=[1], to=[1])
    await rig.brokers[1].produce(b"lost 1", acks=1)
    await rig.brokers[1].produce(b"lost 2", acks=1)
    await rig.set_leader(2, isr=[2, 3], to=[2, 3])
    assert await rig.brokers[2].produce(b"kept") == (ErrorCode.NONE, 1)
    await rig.set_leader(2, isr=[2, 3])
    await until(lambda: rig.brokers[1].records() == rig.brokers[2].records())
    assert rig.brokers[1].replica.log.log_end_offset == 2
    await rig.brokers[2].produce(b"next")
    await until(lambda: rig.brokers[1].records() == rig.brokers[2].records())


async def test_a_diverged_log_is_truncated_below_a_log_start_that_the_leader_lost(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3])
    await rig.brokers[1].produce(b"all")
    await rig.set_leader(1, isr=[1], to=[1])
    for _ in range(4):
        await rig.brokers[1].produce(b"lost", acks=1)
    await rig.stop(1)
    await rig.set_leader(2, isr=[2], to=[2])
    for _ in range(6):
        await rig.brokers[2].produce(b"kept")
    await rig.stop(3)
    await rig.set_leader(2, isr=[2], replicas=[2], to=[2])
    assert await rig.brokers[2].delete_records(3) == (ErrorCode.NONE, 3)
    directory = rig.brokers[2].directory
    await rig.stop(2)
    # A broker that dies has not written its checkpoint yet.
    (directory / LOG_START_CHECKPOINT).unlink()
    await rig.start(1, 2)
    await rig.set_leader(2, isr=[2])
    assert rig.brokers[2].replica.log.log_start_offset == 0
    await until(lambda: rig.brokers[1].records() == rig.brokers[2].records())


async def test_a_diverged_log_is_truncated_below_a_log_start_inside_a_batch(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3])
    await rig.brokers[1].produce(b"all")
    await rig.set_leader(1, isr=[1], to=[1])
    await rig.brokers[1].produce(b"lost", b"lost", acks=1)
    await rig.brokers[1].produce(b"lost", acks=1)
    await rig.stop(1)
    await rig.set_leader(2, isr=[2], to=[2])
    await rig.brokers[2].produce(*[b"kept"] * 6)
    await rig.stop(3)
    await rig.set_leader(2, isr=[2], replicas=[2], to=[2])
    assert await rig.brokers[2].delete_records(3) == (ErrorCode.NONE, 3)
    await rig.start(1)
    await rig.set_leader(2, isr=[2])
    # The first three records of broker 1 end at the leader's log start, but in another batch.
    await until(lambda: rig.brokers[1].records() == rig.brokers[2].records())
    assert rig.brokers[1].replica.log.log_start_offset == 3


async def test_followers_follow_the_log_start_offset(tmp_path: Path) -> None:
    rig = Rig(tmp_path, KEYS, LogConfig(segment_bytes=200))
    await rig.start(1, 2)
    try:
        await rig.set_leader(1, isr=[1, 2], replicas=[1, 2])
        for _ in range(5):
            await rig.brokers[1].produce(b"x" * 50)
        assert await rig.brokers[1].delete_records(3) == (ErrorCode.NONE, 3)
        assert rig.brokers[2].replica.log.log_start_offset == 3
        # A returning follower finds that its fetch offset no longer exists.
        await rig.stop(2)
        await rig.brokers[1].produce(b"y" * 50, acks=1)
        await rig.set_leader(1, isr=[1], replicas=[1, 2], to=[1])
        assert await rig.brokers[1].delete_records(-1) == (ErrorCode.NONE, 6)
        await rig.brokers[1].produce(b"z" * 50, acks=1)
        await rig.start(2)
        await rig.set_leader(1, isr=[1], replicas=[1, 2])
        await until(lambda: rig.brokers[2].replica.log.log_end_offset == 7)
        assert rig.brokers[2].replica.log.log_start_offset == Offset(6)
    finally:
        await rig.stop()


async def test_the_leader_learns_of_a_log_start_that_retention_of_the_follower_moved(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, KEYS, LogConfig(segment_bytes=200))
    await rig.start(1, 2)
    try:
        await rig.set_leader(1, isr=[1, 2], replicas=[1, 2])
        for _ in range(5):
            await rig.brokers[1].produce(b"x" * 50)
        rig.brokers[2].replica.log.advance_log_start(Offset(3))
        assert await rig.brokers[1].delete_records(3) == (ErrorCode.NONE, 3)
    finally:
        await rig.stop()


async def test_new_partitions_do_not_wait_for_an_idle_fetch_to_end(tmp_path: Path) -> None:
    """A follower fetches new partitions at once, although its last fetch waits at the leader."""
    patient = ReplicationKeys(replica_fetch_wait_max_ms=20_000, replica_lag_time_max_ms=30_000)
    rig = Rig(tmp_path, patient)
    await rig.start(1, 2)
    try:
        for index in (0, 1):
            await rig.set_leader(1, isr=[1, 2], replicas=[1, 2], partitions=[index])
            assert await rig.brokers[1].produce(b"a", index=index) == (ErrorCode.NONE, 0)
    finally:
        await rig.stop()


class RawFollower:
    """Broker 2, as seen by a leader: one session, over any of its connections."""

    def __init__(self, leader: RigBroker) -> None:
        self._endpoint = leader.endpoints[leader.broker_id]
        self.session_id = 0
        self.epoch = 0

    def connect(self) -> Peer:
        return Peer(self._endpoint, loop=asyncio.get_running_loop(), client_id="2")

    async def fetch(self, peer: Peer, *offsets: int, wait_ms: int = 0) -> dict[int, PartitionData]:
        """Fetch partitions 0, 1, ... from `offsets`; without any, repeat the session's fetch."""
        wanted = [
            FetchPartition(partition=index, current_leader_epoch=-1, fetch_offset=offset)
            for index, offset in enumerate(offsets)
        ]
        request = FetchRequest(
            replica_id=2,
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic="orders", partitions=wanted)] if wanted else [],
        )
        self.epoch += 1
        response = await peer.request(request, version=12)
        assert isinstance(response, FetchResponse)
        assert response.error_code == ErrorCode.NONE
        self.session_id = response.session_id
        return {
            data.partition_index: data for topic in response.responses for data in topic.partitions
        }


async def test_unregistered_followers_and_missing_partitions_are_not_kept(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, KEYS)
    await rig.start(1)
    follower = RawFollower(rig.brokers[1])
    peer = follower.connect()
    try:
        await rig.set_leader(1, isr=[1, 2], replicas=[1, 2], partitions=[0, 1])
        refused = await follower.fetch(peer, 0, 0, 0)
        handler = rig.brokers[1].followers
        assert handler is not None
        sessions = handler.sessions
        assert (len(sessions), sessions._watching) == (0, {})
        assert refused[2].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert {refused[index].error_code for index in (0, 1)} == {ErrorCode.NONE}
        rig.register(2)
        follower.epoch = 0
        assert set(await follower.fetch(peer, 0, 0, 0)) == {0, 1, 2}
        assert len(sessions) == 1
        assert {key[1] for key in sessions._watching} == {0, 1}
        assert await follower.fetch(peer) == {}, "a failure is reported once"
    finally:
        await peer.close()
        await rig.stop()


async def test_a_session_continues_on_another_connection(tmp_path: Path) -> None:
    rig = Rig(tmp_path, KEYS)
    await rig.start(1)
    rig.register(2)
    follower = RawFollower(rig.brokers[1])
    first, second = follower.connect(), follower.connect()
    try:
        await rig.set_leader(1, isr=[1, 2], replicas=[1, 2], partitions=[0, 1])
        assert list(await follower.fetch(first, 0, 0)) == [0, 1]
        assert await rig.brokers[1].produce(b"a", acks=1) == (ErrorCode.NONE, 0)
        assert list(await follower.fetch(first)) == [0]
        assert (await follower.fetch(first, 1))[0].high_watermark == 1
        received = await follower.fetch(second)
        assert list(received) == [0], "the last response might not have arrived"
        assert received[0].high_watermark == 1
        assert await follower.fetch(second) == {}
        waiting = asyncio.create_task(follower.fetch(second, wait_ms=20_000))
        await until(lambda: rig.brokers[1].purgatory.waiting.operation_count == 1)
        assert await follower.fetch(first) == {}
        assert await waiting == {}, "the next request supersedes it"
    finally:
        await asyncio.gather(first.close(), second.close())
        await rig.stop()


async def test_a_follower_may_know_a_leader_before_the_leader_itself(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2], to=[2])
    await rig.set_leader(1, isr=[1, 2], to=[1], is_repeated=True)
    assert await rig.brokers[1].produce(b"a") == (ErrorCode.NONE, 0)


async def test_a_broker_with_a_wiped_disk_comes_back_into_the_in_sync_set(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3])
    for number in range(20):
        await rig.brokers[1].produce(b"%d" % number)
    directory = rig.brokers[3].directory
    await rig.stop(3)
    shutil.rmtree(directory)
    await rig.set_leader(1, isr=[1, 2])
    await rig.start(3)
    await rig.set_leader(1, isr=[1, 2], to=[3], is_repeated=True)
    await until(lambda: isr(rig) == {1, 2, 3})
    assert rig.brokers[3].records() == rig.brokers[1].records()


def isr(rig: Rig) -> frozenset[BrokerId]:
    leadership = rig.brokers[1].replica.leadership
    assert leadership is not None
    return leadership.state.isr


async def test_a_lagging_follower_counts_until_the_controller_responds(strict_rig: Rig) -> None:
    rig = strict_rig
    await rig.set_leader(1, isr=[1, 2, 3])
    leader = rig.brokers[1]
    leader.recorder.may_answer.clear()
    await rig.stop(3)
    produced = asyncio.create_task(leader.produce(b"a"))
    await until(lambda: bool(leader.recorder.asked))
    assert (leader.replica.high_watermark, produced.done()) == (0, False)
    leader.recorder.may_answer.set()
    assert await produced == (ErrorCode.NONE, 0)
    await until(lambda: isr(rig) == {1, 2})


async def test_a_stopping_follower_outside_the_isr_does_not_delay_writes(tmp_path: Path) -> None:
    """A broker in controlled shutdown: the controller does not let it join the ISR again."""
    rig = Rig(tmp_path, replace(KEYS, replica_lag_time_max_ms=60_000))
    await rig.start(1, 2, 3)
    try:
        leader, stopping = rig.brokers[1], rig.brokers[3]
        leader.recorder.refusals += [ErrorCode.INELIGIBLE_REPLICA] * 1000
        await rig.set_leader(1, isr=[1, 2])
        assert await leader.produce(b"a") == (ErrorCode.NONE, 0)
        await until(lambda: stopping.replica.log.log_end_offset == 1)
        await rig.brokers.pop(3).stop()
        produced = asyncio.create_task(leader.produce(b"b"))
        await until(lambda: rig.brokers[2].replica.log.log_end_offset == 2)
        assert not produced.done(), "the follower might be about to join the ISR"
        rig.send_metadata()
        async with asyncio.timeout(10):
            assert await produced == (ErrorCode.NONE, 1)
    finally:
        await rig.stop()


PATIENT = replace(KEYS, replica_fetch_wait_max_ms=50, replica_lag_time_max_ms=5000)


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(replace(PATIENT, num_replica_fetchers=2), id="two connections per leader"),
        pytest.param(replace(PATIENT, replica_fetch_min_bytes=2000), id="who waits for more"),
        pytest.param(
            replace(PATIENT, replica_fetch_response_max_bytes=1500, replica_fetch_max_bytes=500),
            id="answers that hold a part only",
        ),
        pytest.param(replace(PATIENT, replica_fetch_max_bytes=0), id="one batch at a time"),
    ],
)
async def test_many_partitions_catch_up_under_any_limits(
    tmp_path: Path, limits: ReplicationKeys
) -> None:
    rig = Rig(tmp_path, limits)
    await rig.start(1, 2)
    try:
        indexes = range(4)
        await rig.set_leader(1, isr=[1], replicas=[1, 2], partitions=indexes, to=[1])
        for index in indexes:
            for number in range(10):
                await rig.brokers[1].produce(b"%d" % number * 300, acks=1, index=index)
        await rig.set_leader(
            1, isr=[1], replicas=[1, 2], partitions=indexes, is_repeated=True, to=[2]
        )
        await until(
            lambda: all(rig.brokers[2].replica_of(n).log.log_end_offset == 10 for n in indexes)
        )
        for index in indexes:
            assert await rig.brokers[1].produce(b"more", index=index) == (ErrorCode.NONE, 10)
    finally:
        await rig.stop()


async def test_followers_reconnect_to_a_restarted_leader(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3])
    await rig.brokers[1].produce(b"a")
    await rig.stop(1)
    await rig.start(1)
    await rig.set_leader(1, isr=[1, 2, 3])
    assert await rig.brokers[1].produce(b"b") == (ErrorCode.NONE, 1)
    assert rig.brokers[2].records() == rig.brokers[3].records() == rig.brokers[1].records()


async def test_a_follower_waits_for_a_leader_whose_address_is_not_known(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2], replicas=[1, 2], to=[1])
    address = rig.brokers[2].endpoints.pop(BrokerId(1))
    await rig.set_leader(1, isr=[1, 2], replicas=[1, 2], to=[2], is_repeated=True)
    produced = asyncio.create_task(rig.brokers[1].produce(b"a"))
    await until(lambda: rig.brokers[1].replica.log.log_end_offset == 1)
    rig.brokers[2].endpoints[BrokerId(1)] = address
    rig.send_metadata()
    assert await produced == (ErrorCode.NONE, 0)


async def test_delete_records_times_out_when_a_follower_does_not_fetch(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2, 3])
    await rig.brokers[1].produce(b"a")
    await until(lambda: rig.brokers[1].replica.high_watermark == 1)
    await rig.set_leader(1, isr=[1, 2, 3], to=[1])
    timed_out = await rig.brokers[1].delete_records(1, timeout_ms=50)
    assert timed_out == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert rig.brokers[1].replica.log.log_start_offset == 1


SLOW = LogConfig(
    leader_replication_throttled_replicas=("*",), follower_replication_throttled_replicas=("*",)
)
STEPS = replace(KEYS, replica_lag_time_max_ms=20_000, replica_fetch_max_bytes=1000)


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_lagging_follower_is_throttled_to_the_rate(tmp_path: Path, side: str) -> None:
    rig = Rig(tmp_path, STEPS, SLOW)
    await rig.start(1, 2)
    leader, follower = rig.brokers[1], rig.brokers[2]
    throttled = leader.replicas.followers.throttle
    if side == "follower":
        throttled = follower.replicas.follower_throttle
    throttled.set_rate(100)
    await rig.set_leader(1, isr=[1], replicas=[1, 2], to=[1])
    for _ in range(20):
        await leader.produce(b"x" * 900)
    await rig.set_leader(1, isr=[1], replicas=[1, 2], to=[2], is_repeated=True)
    await until(lambda: follower.replica.log.log_end_offset >= 1)
    # One batch uses ten seconds of the rate; the others are throttled while new ones arrive.
    for _ in range(20):
        await leader.produce(b"x" * 900)
    assert follower.replica.log.log_end_offset < 5
    throttled.set_rate(10**9)
    await until(lambda: follower.replica.log.log_end_offset == 40)
    await rig.stop()


async def test_an_in_sync_follower_is_not_throttled(tmp_path: Path) -> None:
    rig = Rig(tmp_path, STEPS, SLOW)
    await rig.start(1, 2)
    for broker in rig.brokers.values():
        broker.replicas.followers.throttle.set_rate(100)
        broker.replicas.follower_throttle.set_rate(100)
    await rig.set_leader(1, isr=[1, 2], replicas=[1, 2])
    for number in range(20):
        assert await rig.brokers[1].produce(b"x" * 900) == (ErrorCode.NONE, number)
    await rig.stop()


async def test_a_follower_whose_flush_failed_confirms_nothing_before_it_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, KEYS, LogConfig(flush_messages=1))
    await rig.start(1, 2)
    await rig.set_leader(1, isr=[1, 2], replicas=(1, 2))
    leader, local = rig.brokers[1], rig.brokers[2].replica.log
    with monkeypatch.context() as patch, capture_logs() as captured:

        def fail() -> None:
            raise OutOfFilesError(local.directory, "too many open files")

        def failed_count() -> int:
            return sum(each["event"] == "fetch.rejected" for each in captured)

        patch.setattr(local.upkeep, "flush", fail)
        produced = asyncio.create_task(leader.produce(b"a"))
        await until(lambda: failed_count() >= 3)
        assert (local.log_end_offset, local.recovery_point) == (1, 0)
        assert leader.replica.high_watermark == 0
        assert not produced.done()
    assert await produced == (ErrorCode.NONE, 0)
    assert local.recovery_point == 1
    await rig.stop()
