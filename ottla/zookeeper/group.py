"""The group side of a consumer that is coordinated through znodes (composition)."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from kafkawire.ids import TopicPartition
from ottla.client.background import TaskSet
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.group.rebalance_listener import RebalanceListener
from ottla.client.consumer.reading import Reading
from ottla.client.errors import (
    CommitFailedError,
    ConnectionLostError,
    NotInGroupError,
    OttlaError,
    RebalanceFailedError,
)
from ottla.client.offset import CommittedOffset
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.membership import Membership
from ottla.zookeeper.naming import Naming
from ottla.zookeeper.offset_store import Found, OffsetStore
from ottla.zookeeper.rebalance_events import Lost, Resumed

log = logging.getLogger(__name__)


class GroupSide:
    """Applies rebalances and commits to the reading of one consumer."""

    def __init__(
        self,
        group: str,
        reading: Reading,
        gate: ReadGate,
        naming: Naming,
        *,
        auto_commit_interval_ms: int | None,
        release_patience_ms: int,
    ) -> None:
        self.error: OttlaError | None = None
        """The reason why this consumer cannot read; raised once by the next read."""
        self.listener = RebalanceListener()
        self._group = group
        self._reading = reading
        self._gate = gate
        self._naming = naming
        self._interval_ms = auto_commit_interval_ms
        self._patience_s = release_patience_ms / 1000
        self._store: OffsetStore | None = None
        self._membership: Membership | None = None
        self._wake: Callable[[], None] = _ignore
        self._committed: dict[TopicPartition, int] = {}
        self._starting: set[Slot] = set()
        """Partitions that `start` is about to read."""
        self._commits = asyncio.Lock()
        self._tasks = TaskSet(asyncio.get_running_loop())
        self._callers: set[asyncio.Task[object] | None] = set()
        """The tasks that run a callback of the application."""

    def begin(self, store: OffsetStore, wake: Callable[[], None]) -> None:
        """Use `store` for offsets; `wake` makes waiting readers look at `error`."""
        self._store, self._wake = store, wake
        if self._interval_ms is not None:
            self._tasks.spawn(self._commit_periodically(), f"commits of {self._group}")

    def join(self, membership: Membership) -> None:
        """Become a member."""
        self._membership = membership
        membership.start()

    async def stop(self, deadline_s: float) -> None:
        """Commit, leave the group and end all background work."""
        if self._membership is not None:
            await self._membership.stop(deadline_s)
        await self._tasks.cancel_all()

    @property
    def is_in_callback(self) -> bool:
        """Whether the current task runs a callback of the application; `stop` waits for it."""
        return asyncio.current_task() in self._callers

    def on_raised(self) -> None:
        """Forget the error that a read has raised; a member that gave up joins again."""
        if self.error is not None:
            self.error = None
            if self._membership is not None:
                self._membership.feed(Resumed())

    def on_lost(self, slots: set[Slot]) -> None:
        """Note that these partitions have no claim of ours."""
        if self._membership is not None:
            self._membership.feed(Lost(self._membership.machine.session, slots))

    # Offsets

    async def committed(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the offsets of the group; None where there is none.

        Raises:
            NotInGroupError: the consumer has no subscription.
            OttlaError: the store cannot be reached, or refuses.
        """
        store = self._offset_store()
        try:
            return await store.read(list(partitions))
        except OttlaError:
            raise
        except Exception as error:
            # Also of a store of the application, which must not end the membership.
            raise ConnectionLostError(f"offsets of group {self._group}: {error}") from error

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit `offsets` of partitions that this member owns.

        Raises:
            NotInGroupError: the consumer has no subscription.
            CommitFailedError: a partition is not, or no longer, this member's.
            OttlaError: the store cannot be reached, or refuses.
        """
        async with self._commits:
            await self._write(offsets)

    async def commit_processed(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit the positions that have changed, if auto-commit is on; never raises."""
        if self._interval_ms is None:
            return
        # Determined once no other commit is under way, which may cover more.
        async with self._commits:
            last = self._reading.handed_over()
            changed = {
                each: at
                for each, at in self._reading.processed().items()
                if not self._is_covered(each, at.offset, last[each].offset)
                and (partitions is None or each in partitions)
            }
            if not changed:
                return
            try:
                await self._write(changed)
            except OttlaError as error:
                # No record is lost: a later commit covers these, or they are read again.
                log.warning("commit.failed group=%s error=%s", self._group, error)

    async def _write(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        store = self._offset_store()
        if len(self._reading.held(offsets)) < len(offsets):
            raise CommitFailedError(self._group)
        try:
            await store.write(offsets)
        except OttlaError:
            raise
        except Exception as error:
            raise ConnectionLostError(f"commit of group {self._group}: {error}") from error
        self._committed.update((each, at.offset) for each, at in offsets.items())

    def _is_covered(self, partition: TopicPartition, offset: int, last: int) -> bool:
        """Whether a commit covers the records up to `offset`; they were handed over up to `last`.

        If the application has committed records that are still in hand, their commit stands.
        """
        committed = self._committed.get(partition)
        return committed is not None and (committed == offset or offset < committed <= last)

    async def _commit_periodically(self) -> None:
        assert self._interval_ms is not None
        # Members that start together do not commit together.
        await asyncio.sleep(self._interval_ms / 1000 * random.random())
        while True:
            await self.commit_processed()
            await asyncio.sleep(self._interval_ms / 1000)

    # The interface `Holder`, for the membership.

    async def drain(self, slots: frozenset[Slot]) -> None:
        """Commit these partitions once no record is in hand, or without a reader that is slow."""
        partitions = self._partitions(slots)
        if not partitions:
            return
        self._gate.hold()
        try:
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._gate.drained()
            except TimeoutError:
                log.warning("group.slow_reader group=%s", self._group)
            await self.commit_processed(partitions)
            # Without the partitions that were lost in the meantime, which `lose` reports.
            given = list(self._reading.held(partitions))
            await self._call(self.listener.revoked(given))
            self._take_away(given)
        finally:
            self._gate.release()

    async def start(self, slots: frozenset[Slot]) -> frozenset[Slot]:
        """Read these partitions, from the offsets of the group; return the unknown ones."""
        self._starting = set(slots)
        for topic in sorted({slot.topic for slot in slots}):
            try:
                await self._naming.load([slot for slot in slots if slot.topic == topic])
            except OttlaError as error:
                log.warning("group.unknown_topic group=%s error=%s", self._group, error)
        self._gate.hold()
        try:
            found = await self._found(self._partitions(slots))
            # Without the partitions that were lost in the meantime: others may own them.
            started = self._partitions(frozenset(self._starting))
            unknown = {slot for slot in self._starting if self._naming.partition(slot) is None}
            self._committed.update(
                (each, at.offset) for each in started if (at := found.get(each)) is not None
            )
            self._reading.add(started)
            if started or not unknown:
                await self._call(self.listener.assigned(started))
        finally:
            self._starting.clear()
            self._gate.release()
        log.info("group.rebalanced group=%s gained=%d", self._group, len(started))
        if unknown:
            log.warning("group.unknown_partitions group=%s count=%d", self._group, len(unknown))
        return frozenset(unknown)

    def lose(self, slots: frozenset[Slot]) -> None:
        """Stop reading these partitions; nothing can be committed for them."""
        self._starting -= slots
        partitions = self._partitions(slots)
        self._take_away(partitions)
        if self.listener.on_lost or self.listener.on_revoked:
            self._tasks.spawn(self._call(self.listener.lost(partitions)), "on_lost")

    def hold(self) -> None:
        """Hand over no record."""
        self._gate.hold()

    def open(self) -> None:
        """Hand over records again."""
        self._gate.release()

    def fail(self, error: OttlaError) -> None:
        """Let the next read raise `error`."""
        self.error = error
        self._wake()

    def forget_commits(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the committed offsets of partitions: they are about a topic that is gone."""
        for each in partitions:
            self._committed.pop(each, None)

    # Inside

    async def _found(self, partitions: Collection[TopicPartition]) -> Found:
        """Return the offsets of the group, or none: then the reading asks for them again."""
        try:
            return await self.committed(partitions)
        except OttlaError as error:
            log.warning("group.start_failed group=%s error=%s", self._group, error)
            return {}

    def _offset_store(self) -> OffsetStore:
        if self._store is None:
            raise NotInGroupError(
                f"the consumer is in no group yet: subscribe to join {self._group}"
            )
        return self._store

    def _partitions(self, slots: frozenset[Slot]) -> list[TopicPartition]:
        named = (self._naming.partition(slot) for slot in sorted(slots))
        return [each for each in named if each is not None]

    def _take_away(self, partitions: Collection[TopicPartition]) -> None:
        self.forget_commits(partitions)
        self._reading.take_away(partitions)

    async def _call(self, callback: Awaitable[None]) -> None:
        caller = asyncio.current_task()
        self._callers.add(caller)
        try:
            await callback
        except Exception as error:
            self.fail(RebalanceFailedError(self._group, error))
        finally:
            self._callers.discard(caller)


def _ignore() -> None:
    pass
