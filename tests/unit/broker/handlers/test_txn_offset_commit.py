"""Offsets committed in transactions: requests to a group coordinator on a real log.

The test plays the transaction coordinator and the followers.
"""

import asyncio
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.cluster.metadata_cache import ClusterImage, MetadataCache, PartitionState, TopicState
from broker.config.group_keys import GroupKeys
from broker.groups.group_coordinator import GroupCoordinator
from broker.handlers.offset_commit import OffsetChecks
from broker.handlers.offset_fetch import OffsetFetchHandler
from broker.handlers.txn_offset_commit import TxnOffsetCommitHandler
from broker.handlers.write_txn_markers import WriteTxnMarkersHandler
from broker.network import request_tasks
from broker.network.reply import Reply
from broker.network.request_tasks import RequestTasks
from broker.purgatory import Purgatory
from broker.replication.leadership import Leadership, Limits
from broker.transactions.verification import Asked, Codes
from broker.transactions.verifier import TransactionVerifier
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from kafkawire.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kafkawire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from tests.unit.broker.replicas import B1, B2, MAX_LAG_MS, NOW_MS, lead_alone, make_manager
from tests.unit.broker.requests import request
from tests.waiting import until

NONE = ErrorCode.NONE
OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
PRODUCER = 7
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


class FakeCoordinator:
    """The coordinator of all transactions, on this broker if it is `here`."""

    def __init__(self) -> None:
        self.code = NONE
        self.here = True
        self.asked: list[tuple[Asked, list[TopicPartition]]] = []

    def coordinator_of(self, transactional_id: str) -> BrokerId | None:
        del transactional_id
        return B2

    def verify_here(self, asked: Asked, partitions: Iterable[TopicPartition]) -> Codes | None:
        if not self.here:
            return None
        self.asked.append((asked, list(partitions)))
        return dict.fromkeys(self.asked[-1][1], self.code)

    async def verify(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse | None:
        del broker_id, request
        await asyncio.sleep(0)
        return AddPartitionsToTxnResponse(error_code=self.code) if self.code else None


class Coordinator:
    """A broker that coordinates all groups."""

    def __init__(self, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        self.metadata = MetadataCache()
        state = PartitionState(
            index=0,
            leader_and_isr=LeaderAndIsr(leader=B1, isr=(B1,), controller_epoch=1),
            replicas=(B1,),
        )
        topic = TopicState(name="t", topic_id=uuid.uuid4(), partitions={0: state, 1: state})
        self.metadata.adopt(ClusterImage(topics={"t": topic}))
        self.purgatory: Purgatory[TopicPartition] = Purgatory(loop)
        logs = Logs.open([directory / "logs"], config_of=lambda _topic: LogConfig(), now_ms=NOW_MS)
        self.replicas = make_manager(logs, self.metadata, self.purgatory)
        self.log = logs.create(OFFSETS, LogConfig(), uuid.uuid4(), now_ms=NOW_MS)
        self.replica = lead_alone(self.replicas, self.log)
        self.executor = ThreadPoolExecutor(1)
        self.groups = GroupCoordinator(
            self.replicas,
            self.purgatory,
            self.metadata,
            GroupKeys(offsets_topic_num_partitions=1),
            loop=loop,
            executor=self.executor,
            now_ms=lambda: NOW_MS,
        )
        self.coordinator = FakeCoordinator()
        self.is_verifying = True
        tasks = RequestTasks(loop)
        self.commits = TxnOffsetCommitHandler(
            self.groups,
            OffsetChecks(self.groups.commits, self.metadata),
            self.replicas,
            TransactionVerifier(self.coordinator, loop),
            tasks,
            is_verifying=lambda: self.is_verifying,
            now_ms=lambda: NOW_MS,
            clock_ms=lambda: NOW_MS,
        )
        self.markers = WriteTxnMarkersHandler(
            self.replicas,
            self.purgatory,
            tasks,
            self.groups.transactions.on_markers,
            timeout_ms=30_000,
            now_ms=lambda: NOW_MS,
        )
        self.fetches = OffsetFetchHandler(self.groups.commits, tasks)

    def load(self) -> None:
        self.groups.on_become_leader(OFFSETS, LeaderEpoch(0))

    async def reload(self) -> None:
        """Give the partition up, and load it from the log."""
        self.groups.on_resign(OFFSETS)
        self.load()
        await until(lambda: not self.groups.registry.leaderships.is_loading)

    def replicate(self) -> None:
        """Let B2 follow from now on."""
        state = LeaderAndIsr(leader=B1, isr=(B1, B2), controller_epoch=1)
        self.replica.lead(
            Leadership(
                B1,
                state,
                replicas={B1, B2},
                log_end_offset=self.log.log_end_offset,
                high_watermark=self.replica.high_watermark,
                limits=Limits(min_insync_replicas=1, max_lag_ms=MAX_LAG_MS),
                live_epoch=lambda _broker_id: -1,
                now_ms=NOW_MS,
            )
        )

    def follower_fetches(self, offset: int) -> None:
        self.replicas.followers.on_fetch(
            OFFSETS, B2, offset, broker_epoch=-1, log_start_offset=0, now_ms=NOW_MS
        )

    def send(
        self,
        offsets: dict[int, int],
        *,
        group_id: str = "g",
        epoch: int = 0,
        member: tuple[str, str | None, int] = ("", None, -1),
        version: int = 3,
        metadata: str = "",
        topic: str = "t",
    ) -> Reply:
        message = TxnOffsetCommitRequest(
            transactional_id="id",
            group_id=group_id,
            producer_id=PRODUCER,
            producer_epoch=epoch,
            generation_id=member[2],
            member_id=member[0],
            group_instance_id=member[1],
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                        for index, offset in offsets.items()
                    ],
                )
            ],
        )
        return self.commits.handle(request(ApiKey.TXN_OFFSET_COMMIT, version), message)

    async def commit(self, offset: int, **settings: object) -> int:
        [code] = (await codes(self.send({0: offset}, **settings))).values()  # type: ignore[arg-type]
        return code

    def end(self, *, is_commit: bool, epoch: int = 0) -> Reply:
        topic = WritableTxnMarkerTopic(name=OFFSETS_TOPIC, partition_indexes=[0])
        marker = WritableTxnMarker(
            producer_id=PRODUCER,
            producer_epoch=epoch,
            transaction_result=is_commit,
            topics=[topic],
            coordinator_epoch=0,
        )
        return self.markers.write(WriteTxnMarkersRequest(markers=[marker]))

    def fetch(self, *, must_be_stable: bool = True) -> int | ErrorCode:
        """Return the committed offset of partition 0, or the error."""
        wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        message = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id="g", topics=[wanted])],
            require_stable=must_be_stable,
        )
        found = self.fetches.handle(request(ApiKey.OFFSET_FETCH, 8), message).message
        assert isinstance(found, OffsetFetchResponse)
        [group] = found.groups
        if group.error_code:
            return ErrorCode(group.error_code)
        [partition] = group.topics[0].partitions
        code = partition.error_code
        return ErrorCode(code) if code else partition.committed_offset


@pytest.fixture
async def broker(tmp_path: Path) -> Coordinator:
    made = Coordinator(tmp_path)
    made.load()
    return made


async def done(reply: Reply) -> object:
    if not reply.is_done:
        event = asyncio.Event()
        reply.on_done(event.set)
        await asyncio.wait_for(event.wait(), 20)
    return reply.message


async def codes(reply: Reply) -> dict[int, int]:
    message = await done(reply)
    assert isinstance(message, TxnOffsetCommitResponse)
    return {each.partition_index: each.error_code for each in message.topics[0].partitions}


async def marker_code(reply: Reply) -> int:
    message = await done(reply)
    assert isinstance(message, WriteTxnMarkersResponse)
    return message.markers[0].topics[0].partitions[0].error_code


@pytest.mark.parametrize("is_reloaded", [False, True])
@pytest.mark.parametrize(("is_commit", "left"), [(True, 6), (False, 1)])
async def test_offsets_count_when_their_transaction_is_committed(
    broker: Coordinator, is_commit: bool, left: int, is_reloaded: bool
) -> None:
    """A group coordinator that loads its log between commit and marker knows them, too."""
    assert await broker.commit(1) == NONE
    assert await marker_code(broker.end(is_commit=True)) == NONE
    assert broker.fetch() == 1
    assert await broker.commit(5) == NONE
    assert await broker.commit(6) == NONE, "the same bytes are another commit"
    if is_reloaded:
        await broker.reload()
    assert broker.fetch() == UNSTABLE
    assert broker.fetch(must_be_stable=False) == 1
    assert await marker_code(broker.end(is_commit=is_commit)) == NONE
    assert broker.fetch() == left
    await broker.reload()
    assert broker.fetch() == left


async def test_offsets_are_visible_before_the_marker_is_answered(broker: Coordinator) -> None:
    """One high watermark passes offsets and marker (KAFKA-17507)."""
    broker.replicate()
    commit = broker.send({0: 5})
    reply = broker.end(is_commit=True)
    seen: list[object] = []
    reply.on_done(lambda: seen.append(broker.fetch()))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not commit.is_done
    assert broker.fetch() == UNSTABLE
    broker.follower_fetches(2)
    assert await codes(commit) == {0: NONE}
    for _ in range(5):
        await asyncio.sleep(0)
    assert seen == [5]


async def test_marker_takes_effect_though_its_request_has_timed_out(broker: Coordinator) -> None:
    broker.replicate()
    broker.markers._wait_ms = 0
    commit = broker.send({0: 5})
    assert await marker_code(broker.end(is_commit=True)) == ErrorCode.REQUEST_TIMED_OUT
    assert broker.fetch() == UNSTABLE
    broker.follower_fetches(2)
    assert await codes(commit) == {0: NONE}
    assert broker.fetch() == 5


async def test_commit_that_times_out_counts_as_a_load_would_find_it(broker: Coordinator) -> None:
    broker.replicate()
    broker.groups._store._timeout_ms = 0
    assert await broker.commit(5) == ErrorCode.REQUEST_TIMED_OUT
    assert broker.fetch() == UNSTABLE
    reply = broker.end(is_commit=True)
    broker.follower_fetches(2)
    assert await marker_code(reply) == NONE
    assert broker.fetch() == 5
    await broker.reload()
    assert broker.fetch() == 5


async def test_marker_during_a_load_takes_effect_after_it(broker: Coordinator) -> None:
    assert await broker.commit(5) == NONE
    broker.groups.on_resign(OFFSETS)
    broker.load()
    assert broker.groups.registry.leaderships.is_loading
    assert await marker_code(broker.end(is_commit=True)) == NONE
    await until(lambda: not broker.groups.registry.leaderships.is_loading)
    assert broker.fetch() == 5


@pytest.mark.parametrize("is_in_transaction", [False, True])
async def test_offsets_of_a_topic_that_is_deleted_during_a_load_are_removed(
    broker: Coordinator, is_in_transaction: bool
) -> None:
    """Neither a marker nor a later load brings them back to a topic of that name."""
    assert await broker.commit(5) == NONE
    if not is_in_transaction:
        assert await marker_code(broker.end(is_commit=True)) == NONE
    broker.groups.on_resign(OFFSETS)
    broker.load()
    assert broker.groups.registry.leaderships.is_loading
    broker.groups.commits.on_partitions_deleted([TopicPartition("t", 0)])
    if is_in_transaction:
        assert await marker_code(broker.end(is_commit=True)) == NONE
    await until(lambda: not broker.groups.registry.leaderships.is_loading)
    assert broker.fetch() == -1
    await broker.reload()
    assert broker.fetch() == -1


async def test_marker_of_an_ended_leadership_is_forgotten(broker: Coordinator) -> None:
    """The log may lose it; the next load knows."""
    broker.replicate()
    commit = broker.send({0: 5})
    reply = broker.end(is_commit=True)
    broker.groups.on_resign(OFFSETS)
    broker.replica.resign()
    broker.replicas.events.changed(OFFSETS)
    assert await marker_code(reply) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await codes(commit) == {0: ErrorCode.NOT_COORDINATOR}
    assert broker.fetch() == ErrorCode.NOT_COORDINATOR
    assert not broker.purgatory.waiting.operation_count


async def test_deleted_group_is_not_revived_by_a_marker(broker: Coordinator) -> None:
    assert await broker.commit(5) == NONE
    assert broker.groups.commits.delete_group("g") is NONE
    assert await marker_code(broker.end(is_commit=True)) == NONE
    assert broker.fetch() == -1
    await broker.reload()
    assert broker.fetch() == -1


async def test_groups_expire_in_turns_between_which_they_may_go(
    broker: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_tasks, "ITEMS_PER_TURN", 1)
    registry = broker.groups.registry
    for name in ("a", "b", "c"):
        registry.find_or_add(name)
    expiring = asyncio.ensure_future(broker.groups.expire())
    await asyncio.sleep(0)
    assert [group.group_id for group in registry] == ["b", "c"]
    broker.groups.on_resign(OFFSETS)
    await expiring
    assert list(registry) == []


async def test_group_with_undecided_offsets_is_kept(broker: Coordinator) -> None:
    assert await broker.commit(5) == NONE
    await broker.groups.expire()
    assert await marker_code(broker.end(is_commit=True)) == NONE
    assert broker.fetch() == 5


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize(
    ("said", "code"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
async def test_unverified_offsets_are_refused(
    broker: Coordinator, said: ErrorCode, code: ErrorCode, here: bool
) -> None:
    broker.coordinator.here, broker.coordinator.code = here, said
    assert await broker.commit(5) == code
    assert broker.log.log_end_offset == 0
    broker.coordinator.code = NONE
    assert await broker.commit(5) == NONE
    assert await broker.commit(6) == NONE
    if here:
        assert broker.coordinator.asked == [(Asked("id", PRODUCER, 0), [OFFSETS])] * 2


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
async def test_offsets_outside_of_a_transaction_are_abortable_where_producers_know_it(
    broker: Coordinator, version: int, code: ErrorCode
) -> None:
    """INVALID_TXN_STATE is fatal to them (KIP-890)."""
    broker.coordinator.code = ErrorCode.TRANSACTION_ABORTABLE
    assert await broker.commit(5, version=version) == code


async def test_without_verification_offsets_are_accepted(broker: Coordinator) -> None:
    broker.is_verifying, broker.coordinator.code = False, ErrorCode.PRODUCER_FENCED
    assert await broker.commit(5) == NONE
    assert not broker.coordinator.asked


async def test_offsets_of_an_older_producer_epoch_are_refused(broker: Coordinator) -> None:
    assert await marker_code(broker.end(is_commit=False, epoch=1)) == NONE
    broker.is_verifying = False
    assert await broker.commit(5) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("member", "code"),
    [
        pytest.param(("", None, -1), NONE, id="an old producer"),
        pytest.param(("gone", None, 1), ErrorCode.UNKNOWN_MEMBER_ID, id="unknown member"),
        pytest.param(("", "static", -1), NONE, id="an instance without a generation"),
        pytest.param(("gone", None, -1), NONE, id="a member without a generation"),
        pytest.param(("", None, 1), ErrorCode.UNKNOWN_MEMBER_ID, id="generation only"),
    ],
)
async def test_members_of_a_new_group_are_checked_if_they_name_a_generation(
    broker: Coordinator, member: tuple[str, str | None, int], code: ErrorCode
) -> None:
    """As in a group without members: whether it has been forgotten must not matter."""
    assert await broker.commit(5, member=member) == code
    assert len(broker.groups.registry) == (1 if code is NONE else 0), "no group is left"


async def test_requests_that_this_broker_cannot_serve_are_refused(broker: Coordinator) -> None:
    assert await broker.commit(5, group_id="") == ErrorCode.INVALID_GROUP_ID
    broker.groups.on_resign(OFFSETS)
    assert await broker.commit(5) == ErrorCode.NOT_COORDINATOR
    broker.is_verifying = False
    assert await broker.commit(5) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
async def test_loading_groups_are_unavailable_to_old_producers(
    broker: Coordinator, version: int, code: ErrorCode
) -> None:
    assert await broker.commit(5) == NONE
    broker.groups.on_resign(OFFSETS)
    broker.load()
    assert await broker.commit(6, version=version) == code


async def test_bad_offset_does_not_fail_the_others(broker: Coordinator) -> None:
    reply = broker.send({0: 5, 9: 5})
    assert await codes(reply) == {0: NONE, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    reply = broker.send({9: 5})
    assert await codes(reply) == {9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert await broker.commit(6, metadata="x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE


async def test_offset_that_cannot_be_appended_is_not_pending(broker: Coordinator) -> None:
    broker.replica.log.health.note_full("no space")
    assert await broker.commit(5) == ErrorCode.NOT_COORDINATOR
    assert broker.fetch() == -1
    assert Offset(0) == broker.log.log_end_offset


async def test_request_of_a_closed_connection_is_not_written(broker: Coordinator) -> None:
    """Its producer may have begun another transaction (KAFKA-17754)."""
    broker.coordinator.here = False
    reply = broker.send({0: 5})
    assert not reply.is_done
    reply.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert broker.log.log_end_offset == 0
    assert await broker.commit(6) == NONE
