"""Asks whoever decides on in-sync sets for those that this broker's leaderships propose (edge).

One request is in flight; what is proposed meanwhile goes with the next one. A question is asked
until it is answered, or its leadership is over: the answer tells, not the sending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import structlog

from broker.replication.leadership import Leadership, Proposal, Recorded
from broker.replication.replica import Replica
from broker.replication.replica_table import ReplicaTable
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicId, TopicPartition

RETRY_BACKOFF_MS: Final = 50
MAX_QUESTIONS_PER_REQUEST: Final = 10_000

log = structlog.get_logger(__name__)


class IsrQuestion(NamedTuple):
    """One partition's proposal."""

    topic_partition: TopicPartition
    topic_id: TopicId
    proposal: Proposal


Answer = Recorded | ErrorCode


class IsrRecorder(Protocol):
    """Records in-sync sets: the controller by AlterPartition, or the coordinator's nodes."""

    async def record(self, questions: Sequence[IsrQuestion]) -> Sequence[Answer]:
        """Return what is recorded now, or why it is not, for each question in order.

        Raises:
            OSError: nothing is known of any of them; they are asked again.
        """
        ...


class _Asked(NamedTuple):
    replica: Replica
    leadership: Leadership
    question: IsrQuestion


class IsrChanges:
    """The proposals of all leaderships on this broker."""

    def __init__(
        self,
        recorder: IsrRecorder | None,
        *,
        table: ReplicaTable,
        on_high_watermark: Callable[[TopicPartition], None],
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
    ) -> None:
        self._recorder = recorder
        self._table = table
        self._on_change = on_high_watermark
        self._loop = loop
        self._now_ms = now_ms
        self._waiting: dict[TopicPartition, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._may_retry = asyncio.Event()
        self._is_stopped = False
        self.shrink_count = 0
        self.expand_count = 0

    def put(self, replica: Replica) -> None:
        """Have the question of a leadership asked."""
        self._waiting[replica.topic_partition] = None
        if self._task is None and self._recorder is not None and not self._is_stopped:
            self._task = self._loop.create_task(self._run(self._recorder), name="isr-changes")

    def on_metadata_changed(self) -> None:
        """Do not wait with a repetition: there may be another controller."""
        self._may_retry.set()

    async def stop(self) -> None:
        """Ask nothing more."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, recorder: IsrRecorder) -> None:
        try:
            while asked := self._take():
                self._may_retry.clear()
                try:
                    answers = await recorder.record([one.question for one in asked])
                except OSError as error:
                    log.info("isr.not_recorded", error=str(error))
                    is_settled = False
                else:
                    settled = [self._settle(*pair) for pair in zip(asked, answers, strict=True)]
                    is_settled = all(settled)
                if not is_settled:
                    self._waiting.update(dict.fromkeys(one.question[0] for one in asked))
                    await self._back_off()
        finally:
            self._task = None

    def _take(self) -> list[_Asked]:
        """Return the questions that are still open, and do not wait any more with those."""
        asked: list[_Asked] = []
        while self._waiting and len(asked) < MAX_QUESTIONS_PER_REQUEST:
            partition, _ = self._waiting.popitem()
            replica = self._table.by_key.get(partition)
            leadership = None if replica is None else replica.leadership
            if replica is None or leadership is None:
                continue
            proposal = leadership.question
            if proposal is not None:
                question = IsrQuestion(partition, replica.topic_id, proposal)
                asked.append(_Asked(replica, leadership, question))
        return asked

    def _settle(self, asked: _Asked, answer: Answer) -> bool:
        """Take an answer; return whether nothing is left to ask about that partition."""
        replica, leadership, question = asked
        if replica.leadership is not leadership:
            return True
        partition = question.topic_partition
        if isinstance(answer, Recorded):
            before = leadership.state.isr
            self.shrink_count += answer.isr < before
            self.expand_count += answer.isr > before
            leadership.on_recorded(question.proposal, answer, self._now_ms())
            log.info("isr.recorded", partition=str(partition), isr=sorted(answer.isr))
        else:
            leadership.on_refused(question.proposal, answer, self._now_ms())
            log.info("isr.refused", partition=str(partition), error=answer.name)
        self._on_change(partition)
        return leadership.question is None

    async def _back_off(self) -> None:
        try:
            async with asyncio.timeout(RETRY_BACKOFF_MS / 1000):
                await self._may_retry.wait()
        except TimeoutError:
            return
