"""Group commit: the next batch fills during a sync, and a failure stops the log."""

from collections.abc import Callable, Sequence

from coordination.server.disk.journal import GroupCommit
from coordination.server.state.txns import DeleteTxn, Entry


class FakeLog:
    """Log whose syncs are completed by the test."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.waiting: Callable[[OSError | None], None] | None = None
        self.idle_count = 0
        self.append_error: OSError | None = None

    def append(self, entries: Sequence[Entry]) -> None:
        if self.append_error is not None:
            raise self.append_error
        self.batches.append([entry.zxid for entry in entries])

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        assert self.waiting is None, "one sync at a time"
        self.waiting = done

    def idle(self) -> None:
        self.idle_count += 1

    def close(self) -> None:
        pass

    def finish(self, error: OSError | None = None) -> None:
        assert self.waiting is not None
        done, self.waiting = self.waiting, None
        done(error)


class Harness:
    def __init__(self) -> None:
        self.log = FakeLog()
        self.entries: list[Entry] = []
        self.synced: list[int] = []
        self.failures: list[OSError] = []
        self.commit = GroupCommit(
            self.log, synced_zxid=0, on_synced=self.on_synced, on_failure=self.failures.append
        )

    def on_synced(self, zxid: int) -> None:
        self.synced.append(zxid)
        self.commit.kick(self.entries)

    def write(self, *zxids: int) -> None:
        self.entries += [Entry(zxid, 0, 0, 0, DeleteTxn("/")) for zxid in zxids]
        self.commit.kick(self.entries)


def test_entries_added_during_a_sync_form_one_batch() -> None:
    harness = Harness()
    harness.write(1)
    harness.write(2)
    harness.write(3, 4)
    assert harness.log.batches == [[1]]
    harness.log.finish()
    assert harness.log.batches == [[1], [2, 3, 4]]
    assert (harness.synced, harness.commit.synced_zxid) == ([1], 1)
    assert harness.log.idle_count == 0
    harness.log.finish()
    assert (harness.synced, harness.log.idle_count) == ([1, 4], 1)
    assert not harness.commit.is_busy


def test_no_entry_is_acknowledged_after_a_failed_sync() -> None:
    harness = Harness()
    harness.write(1)
    harness.write(2)
    harness.log.finish(OSError("disk gone"))
    harness.write(3)
    assert (harness.synced, len(harness.failures)) == ([], 1)
    assert harness.log.batches == [[1]]


def test_a_failed_write_is_reported_as_failure() -> None:
    harness = Harness()
    harness.log.append_error = OSError("disk full")
    harness.write(1)
    assert (harness.synced, len(harness.failures)) == ([], 1)
