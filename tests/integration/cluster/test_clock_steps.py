"""Steps of wall clocks while a cluster fails over.

Sessions, elections and delivery depend on monotonic clocks; only timestamps may jump.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

import ottla
from kafkawire.ids import TopicPartition
from kafkawire.records import iterate_batches
from logcheck.rule import Rules
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from ottla.client.admin_model import OffsetSpec
from tests.clocks import VARIABLE as CLOCKS
from tests.clocks import set_offset
from tests.harness.cluster import ClusterProcesses
from tests.harness.history import History
from tests.harness.observer import Observer
from tests.harness.proof import prove
from tests.harness.workload import ConfluentProducer, OurProducer, Producing
from tests.integration.coordination.process import four_letter

HOUR_S: Final = 3_600
SETTINGS: Final = {
    "log.message.timestamp.type": "LogAppendTime",
    # A step neither makes a record expire nor leaves it in a segment of younger ones.
    "log.retention.ms": str(2 * HOUR_S * 1000),
    "log.roll.ms": str(HOUR_S * 1000 // 2),
    "log.segment.bytes": "200000",
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "0",
}


def idempotent_producers(
    bootstrap: str, history: History, partitions: Sequence[TopicPartition]
) -> Sequence[Producing]:
    return [
        OurProducer(bootstrap, history, partitions),
        ConfluentProducer(bootstrap, history, partitions, is_idempotent=True),
    ]


@pytest.mark.soak
async def test_clocks_may_step_during_a_failover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = tmp_path / "clocks"
    clocks.mkdir()
    monkeypatch.setenv(CLOCKS, str(clocks))

    async def step_clocks(cluster: ClusterProcesses, observer: Observer) -> None:
        assert cluster.coordinator is not None
        victim = await observer.wait_for_controller()
        one, other = (cluster.brokers[each].pid for each in cluster.running if each != victim)
        cluster.kill(victim)
        for pid, offset_s in ((one, HOUR_S), (other, -HOUR_S), (cluster.coordinator.pid, HOUR_S)):
            set_offset(clocks, pid, offset_s)
        await observer.wait_for(
            observer.partitions,
            lambda found: all(each.leader not in (-1, victim) for each in found.values()),
        )
        await wait_for_records(cluster, observer)
        for pid, offset_s in ((one, -HOUR_S), (other, HOUR_S), (cluster.coordinator.pid, -HOUR_S)):
            set_offset(clocks, pid, offset_s)
        await wait_for_records(cluster, observer)
        await asyncio.to_thread(cluster.start_brokers, victim)
        await observer.wait_until_whole(len(cluster.numbers))
        for pid in (one, other, cluster.coordinator.pid):
            set_offset(clocks, pid, 0)
        await wait_for_records(cluster, observer)
        # The session of the killed broker has expired, or its next incarnation has closed it.
        for broker in (each for each in cluster.brokers.values() if each.pid in (one, other)):
            assert not {"session.expired", "log.expired"} & {
                each["event"] for each in broker.events
            }
        counts = four_letter(cluster.coordinator.port, "mntr").splitlines()
        assert int(next(each for each in counts if "expired_session" in each).split()[1]) <= 1

    with ClusterProcesses(tmp_path, overrides=SETTINGS) as cluster:
        outcome = await prove(cluster, step_clocks, load=idempotent_producers)
    outcome.require_proof()
    assert (outcome.failed, outcome.duplicate_count) == ([], 0)
    directories = [cluster.log_directory(number) for number in cluster.numbers]
    offsets_s = {
        round((stamp_ms / 1000 - time.time()) / HOUR_S) for stamp_ms in stamps(directories)
    }
    assert offsets_s == {-1, 0, 1}, "no record has the time of a clock that was stepped"
    rules = Rules(now_ms=time.time_ns() // 1_000_000)
    for result in verify_directories(directories, VerifyOptions(with_records=True, rules=rules)):
        assert result.findings == []


async def wait_for_records(cluster: ClusterProcesses, observer: Observer) -> None:
    """Wait until each partition has records that are newer than this call."""
    partitions = await observer.partitions()
    async with ottla.Admin(cluster.bootstrap) as admin:

        async def ends() -> dict[TopicPartition, int]:
            found = await admin.list_offsets({each: int(OffsetSpec.LATEST) for each in partitions})
            return {where: place.offset for where, place in found.items()}

        before = await ends()
        await observer.wait_for(
            ends, lambda found: all(found[where] > before[where] for where in before)
        )


def stamps(directories: Iterable[Path]) -> Iterable[int]:
    """Yield the time of each batch of the tests' topics."""
    for directory in directories:
        for path in directory.glob("[sl]*-[0-9]/*.log"):
            for header, _ in iterate_batches(path.read_bytes()):
                yield header.max_timestamp_ms
