"""Group commit (edge): appends entries and reports when they are on disk.

While one sync runs, the next batch fills; there is no artificial delay. The caller holds its
outputs back until `synced_zxid` reaches their transactions. A failed write or sync is never
retried: the contents of the disk are then unknown, so the process must end. An unexpected
exception ends it, too, because a log without its thread would never acknowledge a write again.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from coordination.server.disk.wal_writer import WalWriter
from coordination.server.state.txns import Entry
from monitoring.samples import Samples

SYNC_THREAD: Final = "wal-sync"
"""Name of the thread that waits for the disk."""


class Log(Protocol):
    """Destination of batches."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Write one batch, at the latest during the next `sync`."""

    def sync(self, done: Callable[[BaseException | None], None]) -> None:
        """Make the batch durable, then call `done` in the loop."""

    def idle(self) -> None:
        """Handle that no entry is waiting after the last synced batch."""

    def close(self) -> None:
        """Close the log, after the last batch."""


class GroupCommit:
    """Writes batches to a log, one at a time."""

    def __init__(
        self,
        log: Log,
        *,
        synced_zxid: int,
        on_synced: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Commit after `synced_zxid`; `clock` returns seconds, to time the syncs."""
        self.sync_times_ms = Samples()
        self._clock = clock
        self._began_s = 0.0
        self.synced_zxid = synced_zxid
        self.sync_count = 0
        self._log = log
        self._on_synced = on_synced
        self._on_failure = on_failure
        self._in_flight_zxid: int | None = None
        self._has_failed = False

    @property
    def is_busy(self) -> bool:
        """Whether a sync is in progress."""
        return self._in_flight_zxid is not None

    def kick(self, entries: list[Entry]) -> None:
        """Write the waiting `entries` and clear the list, unless a sync is in progress.

        The end of that sync then calls `on_synced`, after which the caller kicks again.
        """
        if self._in_flight_zxid is not None or not entries or self._has_failed:
            return
        batch = entries.copy()
        entries.clear()
        self._in_flight_zxid = batch[-1].zxid
        self._began_s = self._clock()
        try:
            self._log.append(batch)
        except Exception as error:
            self._fail(error)
            return
        self._log.sync(self._done)

    def _done(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
            return
        assert self._in_flight_zxid is not None, "a sync was requested"
        self.synced_zxid = self._in_flight_zxid
        self.sync_count += 1
        self.sync_times_ms.add((self._clock() - self._began_s) * 1000)
        self._in_flight_zxid = None
        self._on_synced(self.synced_zxid)
        if self._in_flight_zxid is None:
            self._on_idle()

    def _on_idle(self) -> None:
        try:
            self._log.idle()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._has_failed = True
        self._on_failure(error)


class FileLog:
    """Log on disk, synced in a thread so that a slow disk never stalls the loop.

    The thread also writes the batches for which the segment must grow or roll first, because that
    waits for the disk, too.
    """

    def __init__(
        self,
        writer: WalWriter,
        loop: asyncio.AbstractEventLoop,
        *,
        on_rolled: Callable[[], None],
        does_sync: bool = True,
    ) -> None:
        """Write with `writer`; `on_rolled` is called in the loop after each roll."""
        self.writer = writer
        self._loop = loop
        self._on_rolled = on_rolled
        self._does_sync = does_sync
        self._unwritten: Sequence[Entry] = ()
        """The batch that the thread writes before its next sync, if any."""
        self._wanted: queue.SimpleQueue[Callable[[BaseException | None], None] | None]
        self._wanted = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=SYNC_THREAD, daemon=True)
        if does_sync:
            self._thread.start()

    def append(self, entries: Sequence[Entry]) -> None:
        """Write one batch, or leave it to the next sync if the segment must grow or roll first."""
        if self.writer.append_if_room(entries):
            return
        self._unwritten = entries
        if not self._does_sync:
            self._write_rest()

    def _write_rest(self) -> None:
        """Write the batch that `append` has left, if any."""
        entries, self._unwritten = self._unwritten, ()
        if not entries:
            return
        if self.writer.is_full and self.writer.roll():
            self._loop.call_soon_threadsafe(self._on_rolled)
        self.writer.append(entries)

    def sync(self, done: Callable[[BaseException | None], None]) -> None:
        """Sync in the thread; if sync is off, call `done` in the next loop iteration."""
        if self._does_sync:
            self._wanted.put(done)
        else:
            self._loop.call_soon(done, None)

    def idle(self) -> None:
        """Write a seal, which proves that the last batch was synced."""
        if self._does_sync:
            self.writer.seal()

    def close(self) -> None:
        """Close the segment; no sync may be in progress."""
        if self._does_sync:
            self._wanted.put(None)
            self._thread.join()
        self.writer.close()

    def _run(self) -> None:
        while (done := self._wanted.get()) is not None:
            error: BaseException | None = None
            try:
                self._write_rest()
                self.writer.sync()
            except BaseException as caught:
                error = caught
            self._loop.call_soon_threadsafe(done, error)
