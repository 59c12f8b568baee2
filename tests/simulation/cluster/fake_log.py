"""A log in memory: records with the leader epoch that wrote each, and nothing else."""

from typing import NamedTuple

from kafkawire.ids import LeaderEpoch, Offset
from storage.leader_epochs import LeaderEpochs


class Record(NamedTuple):
    """One record; `value` is unique in the whole run."""

    epoch: LeaderEpoch
    value: int


class FakeLog:
    """The records of one replica. Its history of epochs is the real one."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epochs = LeaderEpochs()

    @property
    def end(self) -> Offset:
        """The offset that the next record gets."""
        return Offset(len(self.records))

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """Note that this replica leads from here on."""
        self.epochs.assign(epoch, self.end)

    def append(self, record: Record) -> None:
        """Add a record at the end."""
        self.epochs.assign(record.epoch, self.end)
        self.records.append(record)

    def truncate(self, offset: Offset) -> None:
        """Forget everything from `offset` on."""
        del self.records[offset:]
        self.epochs.truncate_from_end(offset)
