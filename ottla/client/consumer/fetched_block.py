"""The part of a fetch response that belongs to one partition (decision).

It consists of whole batches, still encoded.
Invariant: batches are read in their order, and each at most once.
"""

from collections import deque
from collections.abc import Iterable

from kafkawire.errors import CorruptBatchError
from kafkawire.ids import LeaderEpoch, Offset, ProducerId
from kafkawire.messages.fetch import AbortedTransaction
from kafkawire.records import BatchHeader, ControlType, iterate_batches, read_control_batch
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.errors import CorruptRecordsError
from ottla.client.record import ConsumerRecord


class FetchedBlock:
    """Fetched batches that wait to be read."""

    __slots__ = (
        "_aborted",
        "_aborting",
        "batches",
        "error",
        "jump_count",
        "last_epoch",
        "next_offset",
        "rest",
        "rest_end_offset",
        "size_bytes",
        "state",
    )

    def __init__(
        self, state: PartitionState, records: memoryview, aborted: Iterable[AbortedTransaction] = ()
    ) -> None:
        """Split `records` into batches; a damaged batch ends the block and sets `error`."""
        assert state.fetch_offset is not None
        self.state = state
        self.jump_count = state.jump_count
        self.batches: deque[tuple[BatchHeader, memoryview]] = deque()
        self.size_bytes = 0
        self.next_offset = state.fetch_offset
        """Offset after the last whole batch."""
        self.last_epoch = state.fetch_epoch
        """Leader epoch of the last whole batch."""
        self.error: CorruptRecordsError | None = None
        self.rest: list[ConsumerRecord] = []
        """Decoded records that the reader has not received yet."""
        self.rest_end_offset = self.next_offset
        self._aborted = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborting: set[ProducerId] = set()
        self._cut(records)

    @property
    def is_current(self) -> bool:
        """Whether the partition has not jumped since the fetch."""
        return self.jump_count == self.state.jump_count

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to read."""
        return not self.rest and not self.batches and self.error is None

    def is_aborted(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether `batch` belongs to an aborted transaction; call it for each batch, in order.

        Raises:
            CorruptBatchError: the marker of a transaction cannot be decoded.
        """
        while self._aborted and self._aborted[0].first_offset <= header.last_offset:
            self._aborting.add(ProducerId(self._aborted.popleft().producer_id))
        if header.is_control and header.producer_id in self._aborting:
            marker = read_control_batch(batch)
            if marker is not None and marker.control_type is ControlType.ABORT:
                self._aborting.discard(ProducerId(header.producer_id))
        return header.is_transactional and header.producer_id in self._aborting

    def _cut(self, records: memoryview) -> None:
        position = self.next_offset
        try:
            for header, batch in iterate_batches(records):
                if self.batches and header.base_offset < self.next_offset:
                    raise CorruptBatchError(f"offset {header.base_offset} follows it")
                self.batches.append((header, batch))
                self.size_bytes += header.size_bytes
                self.next_offset = Offset(header.next_offset)
                self.last_epoch = LeaderEpoch(header.leader_epoch)
        except CorruptBatchError as error:
            self.error = self.damaged(str(error))
        if not self.batches and self.error is None:
            self.error = self.damaged(f"not one whole batch in {len(records)} bytes")
        elif self.next_offset <= position and self.error is None:
            # Another fetch at the same position would bring the same batches.
            end_offset, self.next_offset = self.next_offset, position
            self.error = self.damaged(f"the fetched batches end at offset {end_offset}")
        self.next_offset = max(self.next_offset, position)

    def damaged(self, reason: str) -> CorruptRecordsError:
        """Return the error for a damaged batch at `next_offset`."""
        return CorruptRecordsError(self.state.topic_partition, self.next_offset, reason)
