"""The group side of a consumer: membership and committed offsets, put together. Composition.

Also works without a membership: a consumer that was told what to read (`assign`) commits to its
group without one. A coordinator takes such a commit whenever the group is empty, so a consumer
that subscribes never sends one.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping

from kafkawire.ids import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.errors import CommitFailedError, OttlaError
from ottla.client.group.committed_offset import CommittedOffset
from ottla.client.group.config import GroupConfig
from ottla.client.group.coordinator import GroupCoordinator
from ottla.client.group.joining import Joining
from ottla.client.group.listener import RebalanceListener
from ottla.client.group.member import Identity, Member
from ottla.client.group.offset_store import Author, OffsetStore
from ottla.client.group.read_gate import ReadGate
from ottla.client.group.session import GroupSession
from ottla.client.reading import Reading
from ottla.client.task_set import TaskSet

log = logging.getLogger(__name__)


class ConsumerGroup:
    """What a consumer with a group id has beyond one without. `start` once, `stop` once."""

    def __init__(
        self,
        cluster: Cluster,
        config: GroupConfig,
        reading: Reading,
        gate: ReadGate,
        *,
        is_read_committed: bool,
    ) -> None:
        self._config = config
        self._reading = reading
        self._gate = gate
        self._member = Member()
        self._tasks = TaskSet(asyncio.get_running_loop())
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        coordinator = GroupCoordinator(cluster, config.group_id)
        self.store = OffsetStore(
            coordinator,
            group_instance_id=config.group_instance_id,
            backoff=cluster.backoff,
            timeout_s=cluster.config.request_timeout_ms / 1000,
            is_read_committed=is_read_committed,
        )
        self.session = GroupSession(
            config,
            coordinator,
            self._member,
            Joining(cluster, config, coordinator, self._member, self),
            self,
            gate,
            cluster.backoff,
        )

    @property
    def error(self) -> OttlaError | None:
        """Why this consumer cannot be in the group."""
        return self.session.error

    def start(self) -> None:
        """Commit from time to time, if that is wanted."""
        if self._config.enable_auto_commit:
            self._tasks.spawn(self._commit_now_and_then(), f"commits to {self._config.group_id}")

    async def stop(self, deadline_s: float) -> None:
        """Commit what was processed, leave the group, end; give up at `deadline_s`."""
        await self._tasks.cancel_all()
        if self.session.topics:
            await self.session.stop(deadline_s)
            return
        try:
            async with asyncio.timeout_at(deadline_s):
                await self.commit_processed()
        except TimeoutError:
            log.warning("close.timed_out group=%s", self._config.group_id)

    async def unsubscribe(self, deadline_s: float) -> None:
        """Commit what was processed, leave the group, and read nothing more."""
        if self.session.topics:
            await self.session.stop(deadline_s)
        self._reading.take_away(self._reading.partitions())

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener) -> None:
        """Share `topics` with the other members."""
        self.session.subscribe(topics, listener)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit `offsets`; see `OffsetStore.commit`."""
        author = self._author(offsets)
        await self.store.commit(offsets, author)
        self._remember(offsets)

    # What the session sees of it; see `Holding`.

    def owned(self) -> list[TopicPartition]:
        """Return what is read now."""
        return self._reading.partitions()

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these too, from where the group has committed."""
        self._reading.add(partitions)

    def take_away(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more."""
        for each in partitions:
            self._committed.pop(each, None)
        self._reading.take_away(partitions)

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh."""
        self._reading.keep_topics(topics)

    async def commit_processed(self) -> None:
        """Commit how far reading has come, if that is to be done by itself; never raises."""
        if not self._config.enable_auto_commit:
            return
        processed = self._reading.processed()
        news = {each: at for each, at in processed.items() if self._committed.get(each) != at}
        try:
            await self.store.commit_once(news, self._author(news))
        except OttlaError as error:
            # Nothing is lost: the next commit holds this too, or the records are read again.
            log.warning("commit.failed group=%s error=%s", self._config.group_id, error)
        else:
            self._remember(news)

    # Inside

    async def _commit_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._config.auto_commit_interval_ms / 1000)
            await self.commit_processed()

    def _author(self, partitions: Collection[TopicPartition]) -> Author:
        """Return what gives the identity to commit `partitions` with.

        A commit that begins as a member's ends as one: it fails once the membership is over, or
        one of the partitions was taken away, even if it came back since.
        """
        if not self.session.topics:
            return Identity
        held = self._reading.held(partitions)

        def member() -> Identity:
            is_held = len(held) == len(partitions) and self._reading.held(partitions) == held
            if not (is_held and self._member.is_confirmed):
                raise CommitFailedError(self._config.group_id)
            return Identity(self._member.member_id, self._member.generation)

        return member

    def _remember(self, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        held = self._reading.held(committed)
        self._committed.update((each, committed[each]) for each in held)
