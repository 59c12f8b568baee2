"""The group side of a consumer: membership and committed offsets (composition).

A consumer with assigned partitions (`assign`) commits to its group without membership. The
coordinator accepts such a commit only while the group is empty, so a consumer that subscribes
never sends one.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.client.background import TaskSet
from ottla.client.cluster_metadata import ClusterMetadata
from ottla.client.consumer.group.group_config import GroupConfig
from ottla.client.consumer.group.group_member import Member
from ottla.client.consumer.group.group_session import GroupSession
from ottla.client.consumer.group.joining import Joining
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.group.rebalance_listener import RebalanceListener
from ottla.client.consumer.group.topic_pattern import matching_topics
from ottla.client.consumer.reading import Reading
from ottla.client.errors import CommitFailedError, ConfigurationError, OttlaError
from ottla.client.network.cluster import Cluster
from ottla.client.network.commit_order import OvertakenError
from ottla.client.network.group_coordinator import Verdict, group_coordinator, judge
from ottla.client.network.offset_store import Author, OffsetStore
from ottla.client.network.partition_lookup import is_unknown_topic
from ottla.client.offset import CommittedOffset, GroupMetadata, Identity
from ottla.client.retry import retry

log = logging.getLogger(__name__)

MIN_COMMIT_INTERVAL_S: Final = 0.01
"""Interval of automatic commits for shorter ones: with 0, they would leave no time for others."""
PATIENCE_S: Final = 5.0
"""Time for which an automatic commit waits for the coordinator: it may be the last one."""

OnCommit = Callable[[Mapping[TopicPartition, CommittedOffset]], None]


class ConsumerGroup:
    """The group features of a consumer with a group id. Call `start` and `stop` once each."""

    def __init__(
        self,
        cluster: Cluster,
        config: GroupConfig,
        reading: Reading,
        gate: ReadGate,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Call `on_commit` with the offsets of each successful commit."""
        self._cluster = cluster
        self._on_commit = on_commit
        self._pattern: re.Pattern[str] | None = None
        self._matched_in: ClusterMetadata | None = None
        self._pending: RebalanceListener | None = None
        """The listener of a pattern whose topics are not known yet."""
        self._config = config
        self._reading = reading
        self._gate = gate
        self._member = Member()
        self._tasks = TaskSet(asyncio.get_running_loop())
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._underway: list[Mapping[TopicPartition, CommittedOffset]] = []
        """Commits of the application that have no response yet."""
        coordinator = group_coordinator(cluster, config.group_id)
        request_timeout_s = cluster.config.request_timeout_ms / 1000
        self.store = OffsetStore(
            coordinator,
            group_instance_id=config.group_instance_id,
            backoff=cluster.backoff,
            timeout_s=request_timeout_s,
        )
        self.session = GroupSession(
            config,
            coordinator,
            self._member,
            Joining(cluster, config, coordinator, self._member, self),
            self,
            gate,
            cluster.backoff,
            request_timeout_s=request_timeout_s,
        )

    @property
    def error(self) -> OttlaError | None:
        """The reason why this consumer cannot be in the group, if there is one."""
        return self.session.error

    def start(self) -> None:
        """Start the periodic commits, if `enable_auto_commit` is set."""
        if self._config.enable_auto_commit:
            self._tasks.spawn(self._commit_periodically(), f"commits to {self._config.group_id}")

    async def stop(self, deadline_s: float) -> None:
        """Commit processed records and leave the group; give up at `deadline_s`."""
        self._forget_pattern()
        try:
            await self._tasks.cancel_all()
        except asyncio.CancelledError:
            if self.session.is_subscribed:
                # Nothing else would end the tasks of the session. This leaves without waiting.
                await self.session.stop(asyncio.get_running_loop().time())
            raise
        if self.session.is_subscribed:
            await self.session.stop(deadline_s)
            return
        try:
            async with asyncio.timeout_at(deadline_s):
                await self.commit_processed()
        except TimeoutError:
            log.warning("close.timed_out group=%s", self._config.group_id)

    async def unsubscribe(self, deadline_s: float) -> None:
        """Commit processed records, leave the group, and stop reading."""
        self._forget_pattern()
        try:
            if self.session.is_subscribed:
                await self.session.stop(deadline_s)
        finally:
            # Also after an error of the listener: without a membership others own the partitions.
            self.take_away(self._reading.partitions())

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener) -> None:
        """Read `topics` as a member of the group."""
        self._forget_pattern()
        self.session.subscribe(topics, listener)

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: RebalanceListener) -> None:
        """Read all topics that match `pattern`, also new ones, as a member of the group."""
        self._pattern, self._pending, self._matched_in = pattern, listener, None
        self._cluster.keep_all_topics(wanted=True)
        self.on_metadata()

    @property
    def is_subscribed(self) -> bool:
        """Whether this consumer is a member of the group, or becomes one."""
        return self.session.is_subscribed or self._pattern is not None

    def on_metadata(self) -> None:
        """Start a rebalance if the changed metadata requires one."""
        if self._pattern is not None:
            self._match(self._pattern)
        self.session.on_metadata()

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit `offsets`; see `OffsetStore.commit`."""
        author = self._author(offsets)
        self._underway.append(offsets)
        try:
            await self.store.commit(offsets, author, self._remember)
        finally:
            self._underway.remove(offsets)

    def forget_commits(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the committed offsets of partitions: they are about a topic that is gone."""
        for each in partitions:
            self._committed.pop(each, None)

    def metadata(self) -> GroupMetadata:
        """Return the membership for commits by transactions; see `Consumer.group_metadata`."""
        if self._config.enable_auto_commit:
            raise ConfigurationError(
                "group_metadata() needs enable_auto_commit=False: otherwise the offsets of aborted "
                "transactions are committed, too"
            )
        if not self.session.is_subscribed or not self._member.was_admitted:
            # Nothing was read under a membership.
            return GroupMetadata(self._config.group_id)
        if not self._member.is_confirmed:
            raise CommitFailedError(self._config.group_id)
        return GroupMetadata(
            self._config.group_id,
            self._member.generation,
            self._member.member_id,
            self._config.group_instance_id,
        )

    # The interface `Holding`, for the session.

    def owned(self) -> list[TopicPartition]:
        """Return the partitions that are read now."""
        return self._reading.partitions()

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Also read these partitions, from the committed offsets of the group."""
        self._reading.add(partitions)

    def take_away(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions, and drop their fetched records."""
        self.forget_commits(partitions)
        self._reading.take_away(partitions)

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh."""
        self._reading.keep_topics(topics)

    async def commit_processed(self) -> None:
        """Commit the positions after processed records if auto-commit is on; never raises."""
        if not self._config.enable_auto_commit:
            return
        try:
            await retry(
                self._commit_processed_once, self._cluster.backoff, PATIENCE_S, _may_commit_again
            )
        except OttlaError as error:
            # No record is lost: a later commit covers these, or they are read again.
            log.warning("commit.failed group=%s error=%s", self._config.group_id, error)

    # Inside

    async def _commit_processed_once(self) -> None:
        # In each attempt: the application may have processed more records, or committed itself.
        changed = self._uncommitted()
        await self.store.commit_once(changed, self._author(changed))
        self._remember(changed)

    def _match(self, pattern: re.Pattern[str]) -> None:
        """Subscribe to the topics that match now, if they are not the ones subscribed to."""
        metadata = self._cluster.metadata
        if not metadata.is_complete:
            self._cluster.request_refresh()
        elif metadata is not self._matched_in:
            self._matched_in = metadata
            matched = matching_topics(pattern, metadata)
            listener, self._pending = self._pending, None
            if listener is not None:
                self.session.subscribe(matched, listener)
            elif matched != self.session.topics:
                self.session.change_topics(matched)

    def _forget_pattern(self) -> None:
        if self._pattern is not None:
            self._pattern = self._pending = self._matched_in = None
            self._cluster.keep_all_topics(wanted=False)

    async def _commit_periodically(self) -> None:
        interval_s = max(self._config.auto_commit_interval_ms / 1000, MIN_COMMIT_INTERVAL_S)
        while True:
            await asyncio.sleep(interval_s)
            await self.commit_processed()

    def _uncommitted(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions after processed records that no commit covers.

        If the application has committed records that are still in hand, their commit stands.
        """
        last = self._reading.handed_over()

        def is_covered(partition: TopicPartition, at: CommittedOffset) -> bool:
            known = [each.get(partition) for each in (self._committed, *self._underway)]
            return any(
                each == at or at.offset < each.offset <= last[partition].offset
                for each in known
                if each is not None
            )

        processed = self._reading.processed()
        return {each: at for each, at in processed.items() if not is_covered(each, at)}

    def _author(self, partitions: Collection[TopicPartition]) -> Author:
        """Return the function that provides the identity for a commit of `partitions`.

        A commit that begins under a membership fails once that membership has ended, or one of
        the partitions was taken away, even if it was assigned again since.
        """
        if not self.session.is_subscribed:
            return Identity
        held = self._reading.held(partitions)

        def member() -> Identity:
            is_held = len(held) == len(partitions) and self._reading.held(partitions) == held
            if not (is_held and self._member.is_confirmed):
                raise CommitFailedError(self._config.group_id)
            return Identity(
                self._member.member_id, self._member.generation, self.session.is_joining
            )

        return member

    def _remember(self, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        if self._on_commit is not None:
            self._on_commit(committed)
        held = self._reading.held(committed)
        self._committed.update((each, committed[each]) for each in held)


def _may_commit_again(error: OttlaError) -> bool:
    """Whether a commit failed for a later one, or because the coordinator moved or loads."""
    if isinstance(error, OvertakenError):
        return True
    return judge(error) in (Verdict.RETRY, Verdict.FIND) and not is_unknown_topic(error)
