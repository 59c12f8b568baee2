"""A log in memory: records, each with the leader epoch in which it was written."""

from typing import NamedTuple

from kafkawire.ids import LeaderEpoch, Offset
from storage.log.leader_epochs import LeaderEpochs


class Record(NamedTuple):
    """A record; `value` is unique in a run."""

    epoch: LeaderEpoch
    value: int


class FakeLog:
    """Records of one replica, with the real implementation of the epoch history."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epochs = LeaderEpochs()

    @property
    def end(self) -> Offset:
        """Offset of the next record."""
        return Offset(len(self.records))

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """Start a leader epoch of this replica at the end of its log."""
        self.epochs.assign(epoch, self.end)

    def append(self, record: Record) -> None:
        """Append a record."""
        self.epochs.assign(record.epoch, self.end)
        self.records.append(record)

    def truncate(self, offset: Offset) -> None:
        """Remove all records from `offset` on."""
        del self.records[offset:]
        self.epochs.truncate_from_end(offset)
