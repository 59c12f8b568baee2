"""Group commit (edge): entries in, a call back when they are on disk.

While one sync runs, the next batch fills; there is no artificial delay. The
caller keeps its outputs back until `synced_zxid` has passed them. A write or sync
that fails is never retried: what the disk holds is unknown then, so the process must end.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from coordination.txns import Entry
from coordination.wal_writer import WalWriter


class Log(Protocol):
    """Where batches go."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Take one batch."""

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Make it durable, then call `done` in the loop."""

    def idle(self) -> None:
        """Nothing waits behind the last synced batch."""

    def close(self) -> None:
        """Nothing more will come."""


class GroupCommit:
    """Feeds a log with batches, one at a time."""

    def __init__(
        self,
        log: Log,
        *,
        synced_zxid: int,
        on_synced: Callable[[int], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        self.synced_zxid = synced_zxid
        self.sync_count = 0
        self._log = log
        self._on_synced = on_synced
        self._on_failure = on_failure
        self._in_flight_zxid: int | None = None
        self._has_failed = False

    @property
    def is_busy(self) -> bool:
        """Whether a sync is under way."""
        return self._in_flight_zxid is not None

    def kick(self, entries: list[Entry]) -> None:
        """Take the waiting `entries`, unless a sync is under way; it will take them later."""
        if self._in_flight_zxid is not None or not entries or self._has_failed:
            return
        batch = entries.copy()
        entries.clear()
        self._in_flight_zxid = batch[-1].zxid
        try:
            self._log.append(batch)
        except OSError as error:
            self._fail(error)
            return
        self._log.sync(self._done)

    def _done(self, error: OSError | None) -> None:
        if error is not None:
            self._fail(error)
            return
        assert self._in_flight_zxid is not None, "a sync that nobody asked for"
        self.synced_zxid = self._in_flight_zxid
        self.sync_count += 1
        self._in_flight_zxid = None
        self._on_synced(self.synced_zxid)
        if self._in_flight_zxid is None:
            self._note_idle()

    def _note_idle(self) -> None:
        try:
            self._log.idle()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._has_failed = True
        self._on_failure(error)


class FileLog:
    """The log on disk, synced by one thread so that a slow disk never stalls the loop."""

    def __init__(
        self,
        writer: WalWriter,
        loop: asyncio.AbstractEventLoop,
        *,
        on_rolled: Callable[[], None],
        does_sync: bool = True,
    ) -> None:
        self.writer = writer
        self._loop = loop
        self._on_rolled = on_rolled
        self._does_sync = does_sync
        self._wanted: queue.SimpleQueue[Callable[[OSError | None], None] | None]
        self._wanted = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="wal-sync", daemon=True)
        if does_sync:
            self._thread.start()

    def append(self, entries: Sequence[Entry]) -> None:
        """Write one batch, in a new segment when the old one is full."""
        if self.writer.is_full:
            self.writer.roll()
            self._on_rolled()
        self.writer.append(entries)

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Sync in the thread, or, without sync, call back in the next loop turn."""
        if self._does_sync:
            self._wanted.put(done)
        else:
            self._loop.call_soon(done, None)

    def idle(self) -> None:
        """Prove on disk that the last batch was synced."""
        if self._does_sync:
            self.writer.seal()

    def close(self) -> None:
        """Close the segment; no sync may be under way."""
        if self._does_sync:
            self._wanted.put(None)
            self._thread.join()
        self.writer.close()

    def _run(self) -> None:
        while (done := self._wanted.get()) is not None:
            error: OSError | None = None
            try:
                self.writer.sync()
            except OSError as caught:
                error = caught
            self._loop.call_soon_threadsafe(done, error)
