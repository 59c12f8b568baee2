"""The logs of the fake cluster: topics, partitions and record batches in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.fetch import AbortedTransaction
from kafkawire.records import (
    BatchBuilder,
    Codec,
    Record,
    TimestampType,
    assign_offsets,
    read_header,
    read_records,
)
from tests.integration.client.fake_transactions import FakeTransaction


@dataclass(frozen=True)
class _LastBatch:
    """The newest batch of a producer: epoch, first and last sequence, and base offset."""

    numbers: tuple[int, int, int]
    base_offset: int

    def is_followed_by(self, epoch: int, base_sequence: int, _last_sequence: int) -> bool:
        own_epoch, _, own_last = self.numbers
        if epoch == own_epoch:
            return base_sequence == own_last + 1
        return epoch > own_epoch and base_sequence == 0


class FakePartition:
    """One log: whole batches with their offsets, leader and epoch."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.leader_epoch = 0
        self.log_start_offset = 0
        self.batches: list[bytes] = []
        self.aborted: list[AbortedTransaction] = []
        self.next_offset = 0
        self.producers: dict[int, _LastBatch] = {}
        self.is_leader_named = False
        self.in_sync_follower: int | None = None
        """A follower in sync, to which the leader sends the consumers."""

    def produce(self, batch: memoryview) -> int | ErrorCode:
        """Append a batch of a producer, or detect that it duplicates the producer's last one."""
        header = read_header(batch)
        if header.producer_id < 0:
            return self.append(batch)
        numbers = (header.producer_epoch, header.base_sequence, header.last_sequence)
        last = self.producers.get(header.producer_id)
        if last is not None and last.numbers == numbers:
            return last.base_offset
        if last is not None and not last.is_followed_by(*numbers):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        base_offset = self.append(batch)
        self.producers[header.producer_id] = _LastBatch(numbers, base_offset)
        return base_offset

    def append(self, batch: bytes | bytearray | memoryview) -> int:
        """Append a batch as a leader does, and return its base offset."""
        copy = bytearray(batch)
        assign_offsets(memoryview(copy), self.next_offset, self.leader_epoch)
        return self.append_as_is(bytes(copy))

    def append_as_is(self, batch: bytes) -> int:
        """Append a batch that already has its offsets."""
        header = read_header(batch)
        self.batches.append(batch)
        self.next_offset = header.next_offset
        return header.base_offset

    def append_values(
        self,
        *values: bytes,
        codec: Codec = Codec.NONE,
        timestamp_ms: int = 1_000,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    ) -> int:
        """Append one batch with these values; timestamps count up from `timestamp_ms`."""
        builder = BatchBuilder(codec, timestamp_type)
        for index, value in enumerate(values):
            builder.append(timestamp_ms + index, None, value)
        return self.append(builder.build())

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one with `offset` on, at least one if there are any."""
        found: list[bytes] = []
        for batch in self.batches:
            if read_header(batch).next_offset <= offset:
                continue
            if found and sum(map(len, found)) + len(batch) > max_bytes:
                break
            found.append(batch)
        return b"".join(found)

    def offset_for(self, timestamp: int) -> tuple[int, int]:
        """Return (offset, timestamp) as ListOffsets does."""
        if timestamp == -1:
            return self.next_offset, -1
        if timestamp == -2:
            return self.log_start_offset, -1
        for record in self.records():
            if record.timestamp_ms >= timestamp:
                return record.offset, record.timestamp_ms
        return -1, -1

    def records(self) -> list[Record]:
        """Return every record of the log."""
        return [record for batch in self.batches for record in read_records(batch)]

    def values(self) -> list[bytes | None]:
        """Return every value of the log."""
        return [record.value for record in self.records()]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to `epoch` and its end offset, as OffsetForLeaderEpoch does."""
        headers = [read_header(batch) for batch in self.batches]
        held = [header for header in headers if header.leader_epoch <= epoch]
        if epoch == self.leader_epoch:
            return epoch, self.next_offset
        return (held[-1].leader_epoch, held[-1].next_offset) if held else (-1, -1)

    def cut_to(self, offset: int) -> None:
        """Lose the batches from `offset` on, as an unclean election does."""
        self.batches = [batch for batch in self.batches if read_header(batch).base_offset < offset]
        self.next_offset = offset

    def move_to(self, leader: int, *, is_named: bool = False) -> None:
        """Elect another leader, which refusals name from now on if `is_named`."""
        self.leader = leader
        self.leader_epoch += 1
        self.is_leader_named = is_named


@dataclass
class FakeTopic:
    """A topic of the fake cluster."""

    partitions: list[FakePartition]
    topic_id: UUID = field(default_factory=uuid4)
    configs: dict[str, str] = field(default_factory=dict)


class FakeLogs:
    """All topics."""

    def __init__(self) -> None:
        self.topics: dict[str, FakeTopic] = {}
        self.producer_count = 0
        """Number of assigned producer ids, which is also the last id."""
        self.gives_no_id = False
        self.transactions: dict[str, FakeTransaction] = {}
        self.moves: dict[TopicPartition, tuple[int, ...]] = {}
        """Partitions that are being reassigned, with their target replicas."""
        self.failed_log_dirs: tuple[str, ...] = ()
        """Log directories of every broker that are offline."""

    def create(self, name: str, leaders: Sequence[int]) -> list[FakePartition]:
        """Create a topic with one partition per given leader."""
        self.topics[name] = FakeTopic([FakePartition(leader) for leader in leaders])
        return self.topics[name].partitions

    def name_of(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with this id, None if there is none."""
        return next((name for name, it in self.topics.items() if it.topic_id == topic_id), None)

    def find(self, topic_partition: TopicPartition, broker_id: int) -> FakePartition | ErrorCode:
        """Return the partition if this broker leads it, else the error code."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = topic.partitions[topic_partition.partition]
        is_replica = broker_id in (partition.leader, partition.in_sync_follower)
        return partition if is_replica else ErrorCode.NOT_LEADER_OR_FOLLOWER
