"""Stories of whole clusters, for planted bugs that need an exact course of events.

An earlier version of the product failed in each of them. Now they must end without an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import ottla
from broker.errors import StartupError
from broker.node import FIRST_METADATA_TIMEOUT_MS
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.ids import TopicPartition
from kafkawire.sentinels import NO_LEADER
from ottla.client.errors import OttlaError
from storage.disk.checkpoint import read_offsets
from storage.disk.layout import HIGH_WATERMARK_CHECKPOINT
from tests.simulation.world.cluster import BrokerHost
from tests.simulation.world.operators import COMPACTED
from tests.simulation.world.process import Process
from tests.simulation.world.replica_comparison import compare
from tests.simulation.world.stage import (
    COMMIT_S,
    MAX_POLL_S,
    POLL_S,
    RECORDS,
    SESSION_S,
    Stage,
    Story,
)
from tests.simulation.world.workload import TOPIC, read_topic

OTHER: Final = "other"
GIVES_UP_S: Final = SESSION_S * 1.4
"""A client gives up its session after four thirds of the timeout without an answer."""
INSTANT_S: Final = 0.02
"""Time for a session to begin, but not for a registration under it to be confirmed."""
WRITERS: Final = 4
FILLER: Final = b"x" * 800
"""Value that fills a segment."""
CLEANING_S: Final = 4.0
CHECKPOINTS_S: Final = 2.0
"""Time in which all periodic checkpoints are written."""


async def two_stalls_end_no_broker(stage: Stage) -> None:
    """The second session of a broker ends before it has registered under it."""
    process = stage.cluster.coordinator.process
    assert process is not None
    for gap_s in (INSTANT_S, SESSION_S):
        process.pause()
        await asyncio.sleep(GIVES_UP_S)
        process.resume()
        await asyncio.sleep(gap_s)
    for host in stage.cluster.brokers:
        assert not host.program.failed.done(), f"{host.name} gave up: {host.program.failed}"
    await stage.until_in_sync()


async def a_dead_broker_inherits_nothing(stage: Stage) -> None:
    """A broker dies while the coordinator is away, and another one returns before it is missed.

    The restarted coordinator lets the sessions of both last for a whole timeout. The other one has
    given up its own by then, and registers again in a new one.
    """
    other, dead = stage.others(stage.controller())
    async with ottla.Admin(stage.cluster.bootstrap) as admin:
        replicas = (other.number, dead.number)
        await admin.create_topics([ottla.NewTopic(OTHER, assignment={0: replicas})])
    await stage.until_in_sync()
    coordinator = stage.cluster.coordinator
    coordinator.kill()
    dead.kill()
    await asyncio.sleep(GIVES_UP_S)
    process = other.process
    assert process is not None
    process.pause()
    await coordinator.boot()
    await asyncio.sleep(SESSION_S / 2)
    process.resume()
    await asyncio.sleep(GIVES_UP_S)
    for partition, state in stage.cluster.partition_states().items():
        assert state.leader not in (NO_LEADER, dead.number), f"{partition} has no leader: {state}"
    await stage.boot(dead)
    await stage.until_in_sync()


async def a_second_start_disturbs_nobody(stage: Stage) -> None:
    """Other processes start with the log dirs of brokers that run."""
    for host in stage.cluster.brokers:
        session_id = host.program._member.session.client.session_id
        second = Process(host.name)
        starting = stage.loop.create_task(host.new_node().start(), context=second.context)
        second.tasks.append(starting)
        with suppress(StartupError):
            await starting
            raise AssertionError("two processes use the same log dirs")
        await asyncio.sleep(1.0)
        assert host.program._member.session.client.session_id == session_id, "the session has ended"


async def a_full_log_dir_harms_no_other(stage: Stage) -> None:
    """One log dir is full, and the checkpoints of the other one are due."""
    host = stage.cluster.brokers[0]
    full, other = host.log_dirs
    host.disk.full = full
    held = [each for each in host.program._replicas.table if each.log.directory.parent == other]
    assert held, "no partition lies in the other log dir"
    await asyncio.sleep(CHECKPOINTS_S)
    stored = read_offsets(other / HIGH_WATERMARK_CHECKPOINT)
    for replica in held:
        assert stored.get(replica.topic_partition) == replica.high_watermark
    host.disk.full = None


async def a_failed_deletion_leaves_no_records(stage: Stage) -> None:
    """A broker has no descriptor left while a topic is deleted, which is then created again."""
    host, *others = stage.cluster.brokers
    topic = ottla.NewTopic(OTHER, assignment={0: (host.number, others[0].number)})
    async with ottla.Admin(stage.cluster.bootstrap) as admin:
        await admin.create_topics([topic])
        await stage.write(OTHER, [b"secret"])
        host.disk.has_descriptors = False
        with suppress(OttlaError):
            await admin.delete_topics([OTHER])
        await asyncio.sleep(1.0)
        host.disk.has_descriptors = True
        # The controller repeats the deletion when a broker starts.
        await others[0].stop()
        await stage.boot(others[0])
        await until(lambda: OTHER not in stage.cluster.assignments())
        await admin.create_topics([topic])
    assert await read_topic(stage.cluster, OTHER) == []


async def a_deletion_reaches_absent_brokers(stage: Stage) -> None:
    """A topic is deleted while a broker is down."""
    host = stage.cluster.brokers[0]
    async with ottla.Admin(stage.cluster.bootstrap) as admin:
        await stage.create(admin, OTHER)
        await stage.until_in_sync()
        await host.stop()
        await admin.delete_topics([OTHER])
        await stage.boot(host)
    await stage.until_in_sync()
    await asyncio.sleep(CHECKPOINTS_S + SESSION_S)
    left = [each for path in host.log_dirs for each in path.glob(f"{OTHER}*")]
    assert not left, f"{left} of a deleted topic"


async def a_start_without_a_controller_keeps_the_watermarks(stage: Stage) -> None:
    """A broker restarts while the controller hangs, and is killed before it has a role."""
    controller = stage.controller()
    host, other = stage.others(controller)
    await asyncio.sleep(CHECKPOINTS_S)
    before = _stored_watermarks(host)
    assert any(before.values()), "nothing is committed"
    other.kill()
    processes = [each.process for each in (controller, stage.cluster.coordinator) if each.process]
    processes[0].pause()
    host.kill()
    starting = asyncio.ensure_future(stage.boot(host))
    await asyncio.sleep(1.0)
    # Or else the session of the controller would end.
    processes[1].pause()
    await asyncio.sleep(FIRST_METADATA_TIMEOUT_MS / 1000 + CHECKPOINTS_S)
    assert _stored_watermarks(host) == before
    for each in processes:
        each.resume()
    await starting
    await stage.boot(other)
    await stage.until_in_sync()


def _stored_watermarks(host: BrokerHost) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for directory in host.log_dirs:
        found |= read_offsets(directory / HIGH_WATERMARK_CHECKPOINT)
    return found


async def a_clean_stop_survives_a_loss_of_power(stage: Stage) -> None:
    """All brokers stop in order, and then all lose their power."""
    for host in stage.cluster.brokers:
        await host.stop()
    for host in stage.cluster.brokers:
        stage.lose_power(host)
    await stage.boot(*stage.cluster.brokers)
    await stage.until_in_sync()
    assert len(await read_topic(stage.cluster, TOPIC)) == RECORDS


async def an_answered_transaction_survives_a_loss_of_power(stage: Stage) -> None:
    """The coordinator loses its power right after it has confirmed a topic."""
    async with ottla.Admin(stage.cluster.bootstrap) as admin:
        await stage.create(admin, OTHER)
    coordinator = stage.cluster.coordinator
    known = stage.cluster.last_transaction
    stage.lose_power(coordinator)
    await coordinator.boot()
    last = stage.cluster.last_transaction
    assert known is not None
    assert last is not None
    assert known <= last, f"transaction {known} was lost, {last} is the last one"
    await stage.until_in_sync()
    assert await read_topic(stage.cluster, OTHER) == []


async def a_member_that_was_put_out_commits_nothing(stage: Stage) -> None:
    """A consumer works on a record until its group has moved on, and all others have left."""
    async with stage.member("slow") as slow:
        slow.subscribe([TOPIC])
        # A record counts as processed once the next one is requested.
        for _ in range(2):
            await slow.fetch_batch(max_records=1, timeout_ms=5000)
        await asyncio.sleep(MAX_POLL_S + 1.0)
        async with stage.member("quick") as quick:
            quick.subscribe([TOPIC])
            ends: dict[TopicPartition, int] = {}
            while sum(ends.values()) < RECORDS:
                await quick.fetch_batch(timeout_ms=500)
                ends = {each: quick.position(each) or 0 for each in quick.assignment()}
            await quick.commit(ends)
        await asyncio.sleep(COMMIT_S)
        committed = await slow.committed(ends)
    for partition, end in ends.items():
        found = committed[partition]
        assert found is not None
        assert found.offset == end, f"{partition}: {found.offset} after {end}"


async def early_requests_keep_their_bytes(stage: Stage) -> None:
    """Many producers reach a broker that still starts: each has its own records stored."""
    controller = stage.controller()
    host = stage.others(controller)[0]
    led = [
        partition
        for partition, state in stage.cluster.partition_states().items()
        if state.leader == host.number and partition.topic == TOPIC
    ]
    process = controller.process
    assert process is not None
    producers = [ottla.Producer(stage.cluster.bootstrap, client_id=f"p{n}") for n in range(8)]
    for each in producers:
        await each.start()
        await (await each.send(TOPIC, b"before", partition=led[0].partition))
    process.pause()
    host.kill()
    starting = asyncio.ensure_future(stage.boot(host))
    sent = {}
    for number, each in enumerate(producers):
        value = b"%d " % number * 100
        sent[value] = await each.send(TOPIC, value, partition=led[0].partition)
    await asyncio.sleep(2.0)
    process.resume()
    await starting
    places = {value: (await delivery).offset for value, delivery in sent.items()}
    for each in producers:
        await each.close()
    found = {
        each.offset: each.value
        for each in await read_topic(stage.cluster, TOPIC)
        if each.partition == led[0].partition
    }
    for value, offset in places.items():
        assert found.get(offset) == value, f"@{offset}: {found.get(offset)!r}, not {value!r}"


async def a_cleaning_keeps_the_values_before_uncommitted_ones(stage: Stage) -> None:
    """A leader that is cut off compacts its log, and then truncates uncommitted records."""
    cluster = stage.cluster
    network = stage.loop.network
    host = stage.others(stage.controller())[0]
    topic = ottla.NewTopic(
        OTHER, assignment={0: (host.number, *_numbers(stage.others(host)))}, configs=COMPACTED
    )
    async with ottla.Admin(cluster.bootstrap) as admin:
        await admin.create_topics([topic])
    await stage.until_in_sync()
    writer = Process("writer")
    network.address_of("writer")
    producers = [ottla.Producer(cluster.bootstrap) for _ in range(WRITERS)]

    async def write() -> None:
        for each in producers:
            await each.start()
            await (await each.send(OTHER, FILLER, key=b"key"))

    async def write_more() -> None:
        for each in producers:
            await each.send(OTHER, FILLER, key=b"key")

    await stage.loop.create_task(write(), context=writer.context)
    others = [each.name for each in cluster.hosts if each is not host]
    routes = {(host.name, each) for each in others} | {(each, host.name) for each in others}
    network.blocked |= routes
    await stage.loop.create_task(write_more(), context=writer.context)
    await asyncio.sleep(CLEANING_S)
    writer.death.set()
    await asyncio.sleep(SESSION_S)
    network.blocked -= routes
    await stage.until_in_sync()
    partition = TopicPartition(OTHER, 0)
    compare([each.program._replicas.table.by_key[partition] for each in cluster.brokers])


async def until(is_true: Callable[[], bool]) -> None:
    """Wait until the cluster is in a state."""
    while not is_true():  # noqa: ASYNC110 - nothing notifies of the cluster's state
        await asyncio.sleep(POLL_S)


def _numbers(hosts: Iterable[BrokerHost]) -> list[int]:
    return [each.number for each in hosts]


async def a_cancelled_move_keeps_the_last_replica(stage: Stage) -> None:
    """A move is taken back when only the new replica is in sync and has the last records."""
    full = stage.controller()
    old, new = stage.others(full)
    partition = TopicPartition(OTHER, 0)
    configs = {"min.insync.replicas": "1"}
    topic = ottla.NewTopic(OTHER, assignment={0: (old.number,)}, configs=configs)

    def state() -> LeaderAndIsr:
        return stage.cluster.partition_states()[partition]

    async with ottla.Admin(stage.cluster.bootstrap) as admin:
        await admin.create_topics([topic])
        await stage.write(OTHER, [b"first"])
        full.disk.full = full.root
        await admin.alter_reassignments({partition: [new.number, full.number]})
        await until(lambda: new.number in state().isr)
        old.kill()
        await until(lambda: state().leader == new.number)
        await stage.write(OTHER, [b"last"])
        routes = {(old.name, new.name), (new.name, old.name)}
        stage.loop.network.blocked |= routes
        await stage.boot(old)
        with suppress(OttlaError):
            await admin.alter_reassignments({partition: None})
        await asyncio.sleep(1.0)
    full.disk.full = None
    stage.loop.network.blocked -= routes
    found = await read_topic(stage.cluster, OTHER)
    assert [each.value for each in found] == [b"first", b"last"]


STORIES: Final[Mapping[str, Story]] = {
    "cleaned_active_segment": a_cleaning_keeps_the_values_before_uncommitted_ones,
    "commits_as_nobody": a_member_that_was_put_out_commits_nothing,
    "emptied_checkpoint": a_start_without_a_controller_keeps_the_watermarks,
    "inherited_directories": a_failed_deletion_leaves_no_records,
    "last_copy_deleted": a_cancelled_move_keeps_the_last_replica,
    "late_lock": a_second_start_disturbs_nobody,
    "one_full_directory": a_full_log_dir_harms_no_other,
    "one_own_session": two_stalls_end_no_broker,
    "recovery_point_without_sync": a_clean_stop_survives_a_loss_of_power,
    "recycled_arenas": early_requests_keep_their_bytes,
    "new_sessions_are_failures": a_dead_broker_inherits_nothing,
    "unnoticed_deletions": a_deletion_reaches_absent_brokers,
    "unsynced_transactions": an_answered_transaction_survives_a_loss_of_power,
}
"""A story for each of these mutants."""
